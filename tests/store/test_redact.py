"""What redaction takes out of texts and values, and what it leaves alone."""

import hashlib
import json
import random
import time

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.store.redact import Redactor
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


@pytest.mark.parametrize("name", ["password", "DB_PASSWORD", "x-api-key", "Authorization", "clientSecret", "api_key", "Set-Cookie"])
def test_a_member_named_as_a_secret_is_one(name: str) -> None:
    value = {"headers": {name: "plain words"}}
    assert Redactor().value(value) == {"headers": {name: "[REDACTED:assignment]"}}
    assert b"plain words" not in Redactor().encoded(value)


def test_numbers_and_other_values_stay_as_they_are() -> None:
    value = {"score": 0.5, "n": 3, "none": None, "yes": True, "at": 1763190000123, "list": [1, (2,)]}
    assert Redactor().value(value) == {**value, "list": [1, [2]]}


def test_a_card_number_without_quotes_is_redacted() -> None:
    # The shortest one has twelve digits.
    assert Redactor().value([4111111111111111, 501800000009]) == ["[REDACTED:payment_card]", "[REDACTED:payment_card]"]


def test_a_private_key_that_was_cut_off_is_redacted() -> None:
    text = "-----BEGIN " + "RSA PRIVATE KEY-----\nMIIBVgIBADANBgkq\nhkiG9w0BAQ"
    assert Redactor().text(text) == "[REDACTED:private_key]"


@pytest.mark.parametrize(
    "before_end", ["\nMIIB!\n", " {x} <b> ", "\n-MIIB\n--MIIB!\n-", "\nProc-Type: 4,ENCRYPTED\nDEK-Info: A-B,C\n\nMIIB!\n", ""]
)
def test_a_private_key_is_redacted_up_to_its_end(before_end: str) -> None:
    text = "-----BEGIN " + f"RSA PRIVATE KEY-----{before_end}-----END RSA PRIVATE KEY----- and more"
    assert Redactor().text(text) == "[REDACTED:private_key] and more"


def test_many_keys_without_an_end_take_linear_time() -> None:
    def seconds(count: int) -> float:
        began = time.process_time()
        Redactor().text(("-----BEGIN " + "PRIVATE KEY-----!") * count)
        return time.process_time() - began

    seconds(100)
    assert seconds(16_000) / min(seconds(2_000) for _ in range(3)) < 24  # eight times as many; the square would be 64


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


def test_the_hosts_that_an_operator_has_chosen_stay() -> None:
    redactor = Redactor(known_hosts=["10.0.0.5", "", "2001:db8::7"])
    text = "http://10.0.0.5:8000/v1 and http://[2001:db8::7]/v1 refused 10.0.0.6"
    assert redactor.text(text) == text.replace("10.0.0.6", "[REDACTED:ip_address]")
    assert redactor.counts == {"ip_address": 1}


@pytest.mark.parametrize(
    ("name", "text", "rule"),
    [
        ("dob", "1985-03-12", "date_of_birth"),
        ("date_of_birth", "12 March 1985", "date_of_birth"),
        ("passport_number", "C01X00T47", "passport"),
        ("phone", "601 234 567", "phone"),
        ("ssn", "078051121", "social_security_number"),
    ],
)
def test_a_member_named_as_personal_is_redacted_as_in_a_sentence(name: str, text: str, rule: str) -> None:
    assert Redactor().value({"person": {name: text, "other": text}})["person"][name] == f"[REDACTED:{rule}]"
    assert text.encode() not in Redactor().encoded({name: text})


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


@pytest.mark.parametrize(
    ("text", "date"),
    [
        ("I was born on 12 March 1984", "12 March 1984"),
        ("I, born on 12 March 1984, declare", "12 March 1984"),
        ("Max Mustermann, geb. 12.03.1984, wohnhaft in Bern", "12.03.1984"),
        ("She was born on the 12th of March 1984.", "12th of March 1984"),
        ("Date of Birth (MM/DD/YYYY): 03/12/1984", "03/12/1984"),
        ("DOB: 19840312", "19840312"),
        ('{"dob":"19840312"}', "19840312"),
        ("Дата рождения: 12.03.1984", "12.03.1984"),
        ("生年月日: 1984年3月12日", "1984年3月12日"),
        ("生年月日\uff1a1984年3月12日", "1984年3月12日"),
    ],
)
def test_a_date_of_birth_goes_however_it_is_introduced(text: str, date: str) -> None:
    assert Redactor().text(text) == text.replace(date, "[REDACTED:date_of_birth]")


@pytest.mark.parametrize(
    "text",
    [
        "Xenia (X), geboren am 04.05.2012",
        "A, geb. 12.03.1984,",
        "ein Kind (Lisa, geb. 12.03.2019)",
        "I. geboren am 04.05.2012",
        "DOB: 19841399",
        "born in 19840312001",
    ],
)
def test_what_is_no_date_of_a_known_person_stays(text: str) -> None:
    assert Redactor().text(text) == text


@pytest.mark.parametrize(
    "text",
    [
        '{"passport":{"number":"533380006"}}',
        "passport number of Mr Smith is 533380006",
        "My passport's number is 533380006",
    ],
)
def test_a_passport_number_goes_however_it_is_introduced(text: str) -> None:
    assert Redactor().text(text) == text.replace("533380006", "[REDACTED:passport]")


def test_a_passport_with_members_of_its_own_is_redacted() -> None:
    value = {"passport": {"number": "533380006", "country": "CH"}}
    assert Redactor().value(value) == {"passport": {"number": "[REDACTED:passport]", "country": "CH"}}


@pytest.mark.parametrize("name", ["ip", "ip_address", "remote_addr", "clientIp"])
def test_a_small_address_goes_where_its_name_says_that_it_is_one(name: str) -> None:
    assert Redactor().value({name: "1.2.3.4", "zip": "1.2.3.4"}) == {name: "[REDACTED:ip_address]", "zip": "1.2.3.4"}


def test_a_seed_is_not_a_payment_card() -> None:
    assert Redactor().value({"seed": 3859899181302555600}) == {"seed": 3859899181302555600}
    assert Redactor().text('{"seed": 3859899181302555600}') == '{"seed": 3859899181302555600}'
    assert "REDACTED" in Redactor().text('{"card": 3859899181302555600}')


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ('os.environ["MODEL_API_KEY"] = "1bb7dde73fe449de229361ea03bab234"', "1bb7dde73fe449de229361ea03bab234"),
        ('weatherly_key: "031eiaqplnq39py5ppsctxo6n2xj5t10"', "031eiaqplnq39py5ppsctxo6n2xj5t10"),
        ('weatherlyKey := "fb1026ac5994e3ad01799fe040289317"', "fb1026ac5994e3ad01799fe040289317"),
        ("mySecretString=61fdMwaXogrfjoHQSjAwr5fVovxEU5", "61fdMwaXogrfjoHQSjAwr5fVovxEU5"),
        ("<secret>{AQAAABAAA r9gk8o0ctd4xq4r66d3reahu9ku4i4ht}</secret>", "r9gk8o0ctd4xq4r66d3reahu9ku4i4ht"),
        ('if (password != "hunter2!") {', "hunter2!"),
        ('db_pass = "hunter2!"', "hunter2!"),
        ('HEROKU_KEY = "12345678-ABCD-ABCD-ABCD-1234567890AB"', "12345678-ABCD-ABCD-ABCD-1234567890AB"),
        ('aws_id = "ASIASWXHKPQFAKJKMWUT"', "ASIASWXHKPQFAKJKMWUT"),
        ("v: 1\nkind: Secret\ndata:\n  pin: UyFCXCpkJHpEc2I9\n  name: other", "UyFCXCpkJHpEc2I9"),
        ("vcp_aBcDeFgHiJkLmNoPqRsT1234567890abcdefghij", "vcp_aBcDeFgHiJkLmNoPqRsT1234567890abcdefghij"),
    ],
)
def test_a_key_goes_whatever_service_it_is_for(text: str, secret: str) -> None:
    assert secret not in Redactor().text(text)
    assert secret not in Redactor().encoded({"a": text}).decode()


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


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("4012-8888-8888-1881 4012 8888 8888 1881", "[REDACTED:payment_card] [REDACTED:payment_card]"),
        ("078-05-1121 07805-1121", "[REDACTED:social_security_number] [REDACTED:social_security_number]"),
        ("SSN 07805-1121", "SSN [REDACTED:social_security_number]"),
        ("Palo Alto, CA 94301-1121", "Palo Alto, CA 94301-1121"),
        ("0 532 123 45 67", "[REDACTED:phone]"),
        ("0 (917) 123 4567", "[REDACTED:phone]"),
        ("passport number US9148817941", "passport number [REDACTED:passport]"),
        ("a ratio of 1:2:3:4:5:6:7:8", "a ratio of 1:2:3:4:5:6:7:8"),
        ("DE89370400440532013000, DE89370400440532013000X", "[REDACTED:iban], DE89370400440532013000X"),
        ("00:1A:2B:3C:4D:5E, 00:1A:2B:3C:4D:5Ex.", "[REDACTED:machine_address], 00:1A:2B:3C:4D:5Ex."),
        ("00:1A:2B:3C:4D:5E:77 and 00-1A-2B-3C-4D-5E-77", "00:1A:2B:3C:4D:5E:77 and 00-1A-2B-3C-4D-5E-77"),
    ],
)
def test_personal_numbers_go_whole_and_their_likes_stay(text: str, expected: str) -> None:
    assert Redactor().text(text) == expected


def test_redactors_with_the_same_keys_share_what_is_compiled() -> None:
    """It is large, and a run has several: those of a thousand runs would otherwise be compiled and kept one by one."""
    first, second = Redactor(["key-one-0123456789", "key-two-0123456789"]), Redactor(["key-two-0123456789", "key-one-0123456789"])
    assert first._triggers is second._triggers
    assert first._triggers is not Redactor()._triggers


@pytest.mark.parametrize(
    ("text", "is_address"), [("31.31.31.31", False), ("32.1.1.1", True), ("10.1.1.1", True), ("0.0.0.0", True)]
)
def test_four_numbers_below_32_are_a_version_and_not_an_address(text: str, *, is_address: bool) -> None:
    assert Redactor().text(f"It was {text} then.") == f"It was {'[REDACTED:ip_address]' if is_address else text} then."
