"""Content addresses of requests."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.core.canonical import canonical_json, sha256_hex
from assay.core.case import Message
from assay.core.plan import ModelPlan, ProviderPlan
from assay.core.settings import ModelParameters
from assay.models import messages_sha256, request_sha256
from tests.models.asking import SCHEMA, ask_of

PROVIDER = ProviderPlan(name="p", kind="openai")
MODEL = ModelPlan(name="m", provider="p", model="gpt")
ADDRESS = request_sha256(PROVIDER, MODEL, ask_of())


@pytest.mark.parametrize(
    ("provider", "model"),
    [
        ({"name": "other"}, {}),
        ({"kind": "anthropic"}, {}),
        ({"base_url": "http://localhost:1/v1"}, {}),
        ({}, {"model": "gpt-2"}),
        ({}, {"parameters": ModelParameters(seed=1)}),
    ],
)
def test_another_way_of_asking_has_another_address(provider: dict[str, str], model: dict[str, object]) -> None:
    changed = msgspec.structs.replace(PROVIDER, **provider), msgspec.structs.replace(MODEL, **model)
    assert request_sha256(*changed, ask_of()) != ADDRESS


def test_another_question_or_schema_has_another_address() -> None:
    asks = [ask_of("another"), ask_of(system="Be brief."), ask_of(reply_schema=SCHEMA)]
    assert len({ADDRESS, *(request_sha256(PROVIDER, MODEL, ask) for ask in asks)}) == 4


def test_what_cannot_change_an_answer_does_not_change_the_address() -> None:
    provider = msgspec.structs.replace(PROVIDER, timeout=1.0, requests_per_minute=5.0, key_variable="K")
    ask = msgspec.structs.replace(ask_of(), call_id="judge:overall", stage="judge", is_fresh=True)
    assert request_sha256(provider, msgspec.structs.replace(MODEL, name="n"), ask) == ADDRESS


def test_the_order_of_names_does_not_change_the_address() -> None:
    one, two = ({"a": 1, "b": 2}, {"b": 2, "a": 1})
    models = [msgspec.structs.replace(MODEL, parameters=ModelParameters(extra_body=body)) for body in (one, two)]
    assert request_sha256(PROVIDER, models[0], ask_of()) == request_sha256(PROVIDER, models[1], ask_of())


def test_addresses_stay_what_they_were_when_files_were_recorded() -> None:
    assert messages_sha256((Message("user", "Grüße"),)) == "0b6db099fdee2211017d5bfdf2ed7b5d53e8a5ae65d5b04078199e7ccb5332e8"


@given(st.lists(st.text(st.characters(exclude_categories=("Cs",))), max_size=3))
def test_the_hash_of_messages_is_that_of_their_canonical_json(texts: list[str]) -> None:
    messages = [Message("user", text) for text in texts]
    assert messages_sha256(messages) == sha256_hex(canonical_json([{"role": "user", "content": text} for text in texts]))
