"""Checks behind the rules: numbers that are cards, and their look-alikes."""

import pytest

from assay.store.redact import Redactor


def test_a_card_number_without_quotes_is_redacted() -> None:
    # The shortest one has twelve digits.
    assert Redactor().value([4111111111111111, 501800000009]) == ["[REDACTED:payment_card]", "[REDACTED:payment_card]"]


def test_a_seed_is_not_a_payment_card() -> None:
    assert Redactor().value({"seed": 3859899181302555600}) == {"seed": 3859899181302555600}
    assert Redactor().text('{"seed": 3859899181302555600}') == '{"seed": 3859899181302555600}'
    assert "REDACTED" in Redactor().text('{"card": 3859899181302555600}')


@pytest.mark.parametrize(
    "text",
    [
        "The token count is 123456",
        "the secret key length is 256-bit",
        "The access token lifetime is 86400 seconds",
        "cache_key: 0a1b2c3d4e5f60718293a4b5c6d7e8f9",
        "tokenizer_name: Qwen2.5-72B-Instruct-AWQ-2024",
        "self.user, self.password = password",
        "<token>word</token>",
        "ASIATISCHEWIRTSCHAFT",
    ],
)
def test_a_measure_a_name_and_a_key_of_a_record_stay(text: str) -> None:
    assert Redactor().text(text) == text
