"""What redaction takes out of texts and values, and what it leaves alone."""

import hashlib
import json
import random
import time

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.core.secrets import RedactRule
from assay.store.redact import Redactor, StructureFields
from tests.store.canaries import CANARIES, CONTEXTS, variants

SHARED = Redactor()
KEEPERS = [
    "§ 823 Abs. 1 BGB i.V.m. § 1004 BGB",
    "Art. 6(1)(f) GDPR and Art. 5 ECHR",
    "BGH, Urteil vom 12.03.2019, VI ZR 278/15",
    "Case C-311/18, ECLI:EU:C:2020:559",
    "Brown v. Board of Education, 347 U.S. 483 (1954)",
    "410 U.S. 113, 93 S. Ct. 705, 35 L. Ed. 2d 147 (1973)",
    "No. 19-cv-01234-ABC, docket 2:21-cv-05678",
    "ISBN 978-3-16-148410-0 and ISBN 0-306-40615-2",
    "ISBN 9783161484100",
    "DOI 10.1000/182 and arXiv:2401.01234v2",
    "on 2024-02-29 at 14:30:00Z, 29/02/2024, 02-29-2024",
    "EUR 1.250.000,00 or $1,250,000.00 or +12.500.000 EUR",
    "1 000 000 000 000 and 299 792 458 m/s",
    "550e8400-e29b-41d4-a716-446655440000",
    "d41d8cd98f00b204e9800998ecf8427e",
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "commit 9fceb02d0ae598e95dc970b74767f19372d61af8",
    "version 1.2.3-rc.4+build.5678, lodash@4.17.21",
    "version 1.2.3.4, release 10.2.0.1, section 3.1.2.4 and § 2.1.4.3",
    "OID 1.3.6.1.4.1.311.21.20 and 12.3.1.4",
    "std::vector<int>, x :: Int, a[::1] and the ratio 1::2",
    "ECLI:EU:C:2020:559 at 10:15:30:45",
    "Xenia (X), geboren am 04.05.2012, und T. born on 2 June 1987",
    "born in 1980; the law of 12.03.1985; né à Paris",
    "the passport of a diplomat, passport control in 2019",
    "pat.txt, ico-files and API-REFERENCE",
    "ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
    "GITHUB_API_KEY=\nDYNATRACE_API_KEY=",
    "tokens: 4096, token: gpt-4-turbo-2024-04-09",
    "BE71 0961 2345 6760",
    "My order number is 12345678",
    "x = 3.14159265358979323846 and e = 2.718281828459045",
    "0.4111111111111111 is not a card, nor is 1234567890123456",
    "5 +12345678 = 12345683 and (a+b) +87654321",
    "The bearer of this letter; bearer bonds; a bearer instrument",
    "The password must be at least 12 characters long.",
    "Password: required. Secret: none.",
    "password = getpass.getpass()",
    "api_key = os.environ['API_KEY']",
    "api_key=settings.api_key, token=None, password=${DB_PASSWORD}",
    "The secret: patience. The secret ingredient is cinnamon.",
    "private key d, public key (n, e) with n = pq",
    "risk-adjusted-return-2024-analysis and task-oriented-dialogue-2023",
    "sk-learn and sklearn.linear_model",
    "token limits: 4096 input tokens and 1024 output tokens",
    "The secretary: Alice Example, Room 1024",
    "https://example.com:8080/path?page=2&sort=asc",
    "git@github.com:example/project.git",
    "@pytest.mark.parametrize and A@B.T",
    "Follow @example on the platform",
    "AKIA is a prefix; so is eyJ",
    "Basic responsibilities and basic constitutional principles",
    "Authorization: the court authorised the measure.",
    "telephone poles, call options and 3 cells",
    "call 3 witnesses on 12.03.2019 at 10:00",
    "Umsatzsteuer-ID DE123456789, HRB 123456 B",
    "GB29 is a junction and DE89 a bus",
    "-----BEGIN CERTIFICATE-----\nMIIBVgIBADANBgkq\n-----END CERTIFICATE-----",
    "invoice 1234 5678 9012 3456, order 4111-1111-1111-1112",
    "reference AB12 3456 7890 1234 5678 and DE00 1234",
    "Göttingen 1979, Nr. 534, S. 465-466 1344 Januar 20",
    "It costs 100-200-3000 or 2020-2021-2022",
    "1-2-3-4-5-6-7-8-9-10-11-12-13-14-15-16",
]


@pytest.mark.parametrize("text", KEEPERS)
def test_ordinary_text_survives(text: str) -> None:
    redactor = Redactor()
    assert redactor.text(text) == text
    assert redactor.value({text: [text]}) == {text: [text]}


def test_a_thousand_planted_canaries_leave_no_trace() -> None:
    chance, redactor = random.Random(20260115), Redactor()
    kinds = sorted(CANARIES)
    for number in range(1000):
        kind = kinds[number % len(kinds)]
        text, secret = CANARIES[kind](chance)
        planted = chance.choice(CONTEXTS)(text)
        persisted = redactor.encoded({"answer": planted, "id": "r1"}).decode()
        assert not [form for form in variants(secret) if form in persisted], (kind, planted, persisted)


@pytest.mark.parametrize("kind", sorted(CANARIES))
def test_every_kind_of_canary_vanishes_in_every_context(kind: str) -> None:
    chance = random.Random(kind)
    for context in CONTEXTS:
        text, secret = CANARIES[kind](chance)
        redacted = Redactor().text(context(text))
        assert not [form for form in variants(secret) if form in redacted], (context(text), redacted)
        assert "[REDACTED:" in redacted


@pytest.mark.parametrize("kind", sorted(CANARIES))
def test_what_was_redacted_is_not_redacted_again(kind: str) -> None:
    text, _ = CANARIES[kind](random.Random(kind))
    once = Redactor().text(f"Contact: {text} thanks")
    assert Redactor().text(once) == once
    assert once.endswith("thanks")


def test_matches_are_counted_by_rule() -> None:
    redactor = Redactor()
    redactor.text("write to jane@example.org or joe@example.org")
    redactor.text("nothing here")
    assert redactor.counts == {"email": 2}


def test_clean_text_is_the_same_object() -> None:
    text = "An answer in plain words."
    assert Redactor().text(text) is text


def test_the_rest_of_a_text_stays() -> None:
    assert Redactor().text("see https://u:pa55word@host.example/x") == "see https://[REDACTED:url_credentials]@host.example/x"
    assert Redactor().text("IBAN DE89 3704 0044 0532 0130 00 BLZ") == "IBAN [REDACTED:iban] BLZ"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("à l\u2019adresse\u202finfo@association.example.org.\u202f»", "à l\u2019adresse\u202f[REDACTED:email].\u202f»"),
        ("Call\u202f0808\u202f800\u202f4444 now", "Call\u202f[REDACTED:phone] now"),
        ("+352\u202f247\u202f70\u202f00\u202f00", "[REDACTED:phone]"),
        ("646\u2011555\u20110132", "[REDACTED:phone]"),
        ("536\u201190\u20114399", "[REDACTED:social_security_number]"),
        ("1234 5678 9012 3456 4111 1111 1111 1111", "1234 5678 9012 3456 [REDACTED:payment_card]"),
        ("123-45-67890 536-90-4399", "123-45-67890 [REDACTED:social_security_number]"),
        ("+123 +1 415 555 0132", "+123 [REDACTED:phone]"),
        ("DE00 1234 DE89 3704 0044 0532 0130 00", "DE00 1234 [REDACTED:iban]"),
        ("user%40example.org", "[REDACTED:email]"),
        ("x\\njane@example.org", "x\\n[REDACTED:email]"),
        ("x\\rrita@example.org, \\ttom@example.org", "x\\r[REDACTED:email], \\t[REDACTED:email]"),
        ("nora@example.org, rita@example.org, tom@example.org", "[REDACTED:email], [REDACTED:email], [REDACTED:email]"),
        ("HOME\\jane@example.org", "HOME\\[REDACTED:email]"),
        ("Telefon: 030 1234567", "Telefon: [REDACTED:phone]"),
    ],
)
def test_neither_typography_nor_neighbours_hide_anything(text: str, expected: str) -> None:
    assert Redactor().text(text) == expected


def test_names_of_members_are_redacted_and_stay_apart() -> None:
    redacted = Redactor().value({"jane@example.org": 1, "joe@example.org": 2})
    assert redacted == {"[REDACTED:email]": 1, "[REDACTED:email]#2": 2}


def test_numbers_and_other_values_stay_as_they_are() -> None:
    value = {"score": 0.5, "n": 3, "none": None, "yes": True, "at": 1763190000123, "list": [1, (2,)]}
    assert Redactor().value(value) == {**value, "list": [1, [2]]}


OWN = ['pa/ss"word\\ü', "key with spaces & more", "plain-secret-value"]


@pytest.mark.parametrize("secret", OWN)
def test_the_runs_own_secrets_go_in_every_form(secret: str) -> None:
    redactor = Redactor(OWN)
    texts = [f"x{form}y" for form in variants(secret)] + [f"x{json.dumps(secret, ensure_ascii=False)[1:-1]}y"]
    assert {redactor.text(text) for text in texts} == {"x[REDACTED:secret]y"}
    assert secret not in redactor.encoded({"a": [f"error from provider: {secret}"], secret: 1}).decode()


@pytest.mark.parametrize("key", ["none", "test", "password", "12345", "lm-studio", "sk-local", "not-needed"])
def test_a_key_that_is_a_word_goes_only_where_it_is_used_as_a_key(key: str) -> None:
    redactor = Redactor([key])
    prose = f"{key} {key}, this {key} is a {key}. Answer: {key}"
    assert redactor.text(prose) == prose
    assert redactor.value({"prompt": key, "answer": [key]}) == {"prompt": key, "answer": [key]}
    for text in (f"Authorization: Bearer {key}", f"api_key={key}", f'x-api-key: "{key}"', f"Incorrect API key provided: {key}."):
        assert "REDACTED" in redactor.text(text), text
        assert key not in redactor.text(text).replace("[REDACTED:secret]", "")
    assert key not in redactor.value({"headers": {"api_key": key}})["headers"]["api_key"]


def test_a_value_too_short_for_a_key_stays() -> None:
    assert Redactor(["", "k"]).text("api_key=k") == "api_key=k"


def test_a_lone_surrogate_is_replaced_and_nothing_fails() -> None:
    assert Redactor().text("a\ud800 jane@example.org") == "a\ufffd [REDACTED:email]"
    assert Redactor().encoded({"a": "\udfff"}) == b'{"a":"\xef\xbf\xbd"}'


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-1000, 1000) | st.text(max_size=40),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=9), inner),
    )
)
def test_bytes_and_values_are_redacted_alike(value: object) -> None:
    assert msgspec.json.decode(SHARED.encoded(value)) == msgspec.json.decode(msgspec.json.encode(SHARED.value(value)))


def _cpu(text: str) -> float:
    before = time.process_time()
    Redactor().text(text)
    return time.process_time() - before


def test_many_different_secrets_in_one_text_take_linear_time() -> None:
    def text(count: int) -> str:
        return " ".join(f"password={hashlib.md5(str(number).encode()).hexdigest()}" for number in range(count))

    text_of = {count: text(count) for count in (8_000, 16_000)}
    short, long = (min(_cpu(text_of[count]) for _ in range(3)) for count in text_of)
    assert long / short < 2.5


def test_further_occurrences_of_many_secrets_go_and_are_counted() -> None:
    secrets = [hashlib.md5(str(number).encode()).hexdigest() for number in range(50)]
    redactor = Redactor()
    shown = redactor.text(
        " ".join(f"password={secret}" for secret in secrets) + " then " + ", ".join(f"<{one}>" for one in secrets)
    )
    assert not any(secret in shown for secret in secrets)
    assert shown.endswith("<[REDACTED:assignment]>")
    assert redactor.counts == {"assignment": 100}


def test_of_two_secrets_that_overlap_the_first_goes_once() -> None:
    first, second = "hunter-violet-4711", "violet-4711-castle"
    redactor = Redactor()
    shown = redactor.text(f'password="{first}" secret="{second}" then {first}-castle and {second}.')
    assert shown.endswith("then [REDACTED:assignment]-castle and [REDACTED:assignment].")
    assert redactor.counts == {"assignment": 4}


def test_redactors_with_the_same_keys_share_what_is_compiled() -> None:
    """It is large, and a run has several: those of a thousand runs would otherwise be compiled and kept one by one."""
    first, second = Redactor(["key-one-0123456789", "key-two-0123456789"]), Redactor(["key-two-0123456789", "key-one-0123456789"])
    assert first._triggers is second._triggers
    assert first._triggers is not Redactor()._triggers


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("S3cretValue99x is set by password=S3cretValue99x", "[REDACTED:assignment] is set by password=[REDACTED:assignment]"),
        (
            "S3cretValue99xOther1Value88y, password=S3cretValue99x, password=Other1Value88y",
            "[REDACTED:assignment][REDACTED:assignment], password=[REDACTED:assignment], password=[REDACTED:assignment]",
        ),
    ],
    ids=["before its label", "side by side"],
)
def test_a_secret_goes_wherever_the_text_repeats_it(text: str, expected: str) -> None:
    assert Redactor().text(text) == expected


NUMBERS_OF_STAFF = RedactRule(name="staff", pattern=r"EMP-\d+|level|kind|note")


@pytest.mark.parametrize(
    ("text", "is_clean", "is_clean_by_rules"),
    [
        ("An answer.", True, True),
        ("EMP-1 answers.", True, False),
        ("jane@example.org", False, False),
        ("a lone \ud800", False, False),
    ],
)
def test_a_text_is_clean_where_no_rule_finds_anything(text: str, *, is_clean: bool, is_clean_by_rules: bool) -> None:
    assert Redactor().is_clean(["first", text]) is is_clean
    assert Redactor(custom=[NUMBERS_OF_STAFF]).is_clean(["first", text]) is is_clean_by_rules


def test_custom_rules_leave_the_members_of_a_structure_that_the_program_needs() -> None:
    structure = {"kind": "EMP-1", "level": "EMP-2", "note": {"kind": "EMP-3", "mail": "jane@example.org"}, "size": 3}
    form = StructureFields(terms=frozenset(("kind",)), free=frozenset(("note",)))
    staff, mail = "[REDACTED:staff]", "[REDACTED:email]"
    assert Redactor(custom=[NUMBERS_OF_STAFF]).structure(structure, form) == {
        "kind": "EMP-1",
        "level": staff,
        "note": {staff: staff, "mail": mail},
        "size": 3,
    }
    assert Redactor().structure(structure, form) == {**structure, "note": {"kind": "EMP-3", "mail": mail}}
