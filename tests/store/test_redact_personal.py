"""Rules for personal data: what is redacted, and what only looks like it."""

import pytest

from assay.store.redact import Redactor


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


@pytest.mark.parametrize(
    ("text", "is_address"), [("31.31.31.31", False), ("32.1.1.1", True), ("10.1.1.1", True), ("0.0.0.0", True)]
)
def test_four_numbers_below_32_are_a_version_and_not_an_address(text: str, *, is_address: bool) -> None:
    assert Redactor().text(f"It was {text} then.") == f"It was {'[REDACTED:ip_address]' if is_address else text} then."


@pytest.mark.parametrize("text", ["_203.0.113.7", ".203.0.113.7", "v203.0.113.7", "203.0.113.7b"])
def test_an_address_that_is_a_part_of_a_name_stays(text: str) -> None:
    assert Redactor().text(f"It was {text} then.") == f"It was {text} then."


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("It was ::1 then.", "It was [REDACTED:ip_address] then."),
        ("It was a[::1] then.", "It was a[::1] then."),
        ("It was 1::2 then.", "It was 1::2 then."),
        ("Its gateway is 1::2.", "Its gateway is [REDACTED:ip_address]."),
        ("It was 1::2/64 then.", "It was [REDACTED:ip_address] then."),
        ("It was 2001:db8::7 then.", "It was [REDACTED:ip_address] then."),
        ("It was abcd::cafe then.", "It was abcd::cafe then."),
    ],
)
def test_a_short_address_goes_where_it_cannot_be_code_or_a_ratio(text: str, expected: str) -> None:
    assert Redactor().text(text) == expected


@pytest.mark.parametrize(
    ("text", "is_address"),
    [
        ("It was 00:11:22:33:44:55 then.", True),
        ("It was 00-11-22-33-44-55 then.", False),
        ("Its hardware has 00-11-22-33-44-55 now.", True),
        ("It was 00-11-22-33-44-5E then.", True),
        ("It was 1122.3344.5566 then.", False),
        ("It was 1122.33aa.5566 then.", True),
    ],
)
def test_six_pairs_of_digits_are_a_machine_only_with_colons_or_by_their_name(text: str, *, is_address: bool) -> None:
    assert ("[REDACTED:machine_address]" in Redactor().text(text)) is is_address


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ring415-555-0132 today", "ring[REDACTED:phone] today"),
        ("RING415-555-0132 today", "RING415-555-0132 today"),
        ("ring415-555-0132b today", "ring415-555-0132b today"),
        ("ring415.555.0132 today", "ring415.555.0132 today"),
    ],
)
def test_a_number_with_hyphens_goes_although_a_space_is_missing(text: str, expected: str) -> None:
    assert Redactor().text(text) == expected
