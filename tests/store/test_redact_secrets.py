"""Rules for secrets: keys by their form and by their context."""

import time

import pytest

from assay.store.redact import Redactor


@pytest.mark.parametrize("name", ["password", "DB_PASSWORD", "x-api-key", "Authorization", "clientSecret", "api_key", "Set-Cookie"])
def test_a_member_named_as_a_secret_is_one(name: str) -> None:
    value = {"headers": {name: "plain words"}}
    assert Redactor().value(value) == {"headers": {name: "[REDACTED:assignment]"}}
    assert b"plain words" not in Redactor().encoded(value)


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
