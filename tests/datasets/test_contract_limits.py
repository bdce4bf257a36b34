"""Limits that take large inputs: they are made here, at the edge and one step beyond."""

import json
from typing import Any

import pytest

from assay import ValidationReport, validate
from assay.core.contract import CONTRACTS
from assay.core.issue import MAX_LISTED

MB = 1 << 20
HEAD = '{"dataset_id":"d","dataset_version":"1","schema_version":"1.0","records":['
GOOD = '{"record_id":"good","input":{"prompt":"p"}}'

Found = list[tuple[str, str]]


def batch(*records: str, tail: str = "]}") -> ValidationReport:
    return validate((HEAD + ",".join((*records, GOOD)) + tail).encode(), "batch_v1")


def record(prompt: str, **more: Any) -> str:
    return json.dumps({"record_id": "r", "input": {"prompt": prompt}, **more}, ensure_ascii=False)


def errors_of(report: ValidationReport) -> Found:
    return [(issue.code, issue.path) for issue in report.issues if issue.severity == "error"]


def filled(size: int, **members: Any) -> dict[str, Any]:
    """The members and a filler, `size` bytes as compact JSON."""
    empty = json.dumps({**members, "filler": ""}, ensure_ascii=False, separators=(",", ":")).encode()
    return {**members, "filler": "x" * (size - len(empty))}


@pytest.mark.parametrize(
    ("prompt", "errors"),
    [
        ("x" * 200_000, []),
        ("x" * 200_001, [("string_too_long", "records[0].input.prompt")]),
        ("é" * 100_000, []),
        ("é" * 200_000, [("record_too_large", "records[0]")]),
        ("é" * 200_001, [("string_too_long", "records[0].input.prompt"), ("record_too_large", "records[0]")]),
        ("😀" * 50_000, []),
        ("e\u0301" * 110_000, []),
    ],
    ids=["at-the-limit", "above", "two-bytes", "two-bytes-too-large", "both", "four-bytes", "shorter-when-normalised"],
)
def test_a_prompt_has_up_to_200000_characters_and_its_record_256_kb(prompt: str, errors: Found) -> None:
    assert errors_of(batch(record(prompt))) == errors


@pytest.mark.parametrize(("size", "errors"), [(200_000, []), (200_001, [("string_too_long", "records[0].reference.answer")])])
def test_an_answer_has_up_to_200000_characters(size: int, errors: Found) -> None:
    assert errors_of(batch(record("p", reference={"answer": "x" * size}))) == errors


@pytest.mark.parametrize(("size", "errors"), [(262_144, []), (262_145, [("record_too_large", "records[0]")])])
def test_a_record_has_up_to_256_kb(size: int, errors: Found) -> None:
    value = {"record_id": "r", "input": {"prompt": "p", "filler": ""}}
    rest = len(json.dumps(value, separators=(",", ":")))
    value["input"] = {"prompt": "p", "filler": "x" * (size - rest)}
    assert errors_of(batch(json.dumps(value))) == errors


@pytest.mark.parametrize(
    "spelling",
    [GOOD.replace("good", "r").replace(":", ":" + " " * 3 * MB, 1), record("A" * 200_000).replace("A", "\\u0041")],
    ids=["white-space", "escapes"],
)
def test_white_space_and_escapes_do_not_count(spelling: str) -> None:
    assert errors_of(batch(spelling)) == []


@pytest.mark.parametrize(("size", "errors"), [(8192, []), (8193, [("record_too_large", "records[0].metadata")])])
def test_metadata_of_a_record_has_up_to_8_kb(size: int, errors: Found) -> None:
    assert errors_of(batch(record("p", metadata=filled(size, ü="日本", n=1.5)))) == errors


def test_metadata_that_is_too_large_is_seen_in_a_large_record_too() -> None:
    report = batch(record("x" * 100_000, metadata=filled(8193)))
    assert errors_of(report) == [("record_too_large", "records[0].metadata")]


@pytest.mark.parametrize(("size", "errors"), [(16_384, []), (16_385, [("record_too_large", "metadata")])])
def test_metadata_of_the_document_has_up_to_16_kb(size: int, errors: Found) -> None:
    assert errors_of(batch(tail='],"metadata":' + json.dumps(filled(size)) + "}")) == errors


@pytest.mark.parametrize(("count", "outcome"), [(50_000, "accepted"), (50_001, "rejected")])
def test_a_dataset_has_up_to_50000_records(count: int, outcome: str) -> None:
    records = ",".join(f'{{"record_id":"{number}","input":{{"prompt":"p"}}}}' for number in range(count))
    report = validate(f"{HEAD}{records}]}}".encode(), "batch_v1")
    assert (report.outcome, report.counts.total_records) == (outcome, count)
    found = [(issue.code, issue.path, issue.line, issue.column) for issue in report.dataset_errors]
    assert found == [("value_out_of_range", "records", 1, len(HEAD))] * (count - 50_000)


def test_only_the_records_count_as_records() -> None:
    member = '"other":[' + "1," * 60_000 + "1],"
    records = [f'{{"record_id":"{number}","input":{{"prompt":"{"," * 199_000}"}}}}' for number in range(20)]
    report = validate(("{" + member + HEAD[1:] + ",".join(records) + "]}").encode(), "batch_v1")
    assert (report.outcome, [issue.path for issue in report.issues]) == ("accepted", ["other"])


@pytest.mark.parametrize("prefix", [b"", b"\xef\xbb\xbf"], ids=["plain", "byte-order-mark"])
def test_a_payload_has_up_to_100_mb(prefix: bytes) -> None:
    content = (prefix + (HEAD + GOOD + "]}").encode()).ljust(100 * MB)
    too_large = validate(content + b" ", "batch_v1")
    assert validate(content, "batch_v1").outcome == "accepted"
    assert [(issue.code, issue.details) for issue in too_large.issues] == [
        ("payload_too_large", {"http_status": 413, "error_code": "payload_too_large"})
    ]


@pytest.mark.parametrize(("levels", "codes"), [(252, []), (253, ["value_out_of_range"]), (900, ["value_out_of_range"])])
def test_a_record_nests_up_to_254_levels(levels: int, codes: list[str]) -> None:
    """The record and `input` are two of them."""
    nested = '{"record_id":"r","input":{"prompt":"p","x":' + "[" * levels + "]" * levels + "}}"
    errors = batch(nested).record_errors
    assert [(issue.code, issue.index, issue.record_id) for issue in errors] == [(code, 0, "r") for code in codes]


@pytest.mark.parametrize("size", [3 * MB, 12 * MB])
@pytest.mark.parametrize("letter", ["x", "\\ud83d\\ude00"], ids=["plain", "escaped"])
def test_a_record_far_beyond_the_limit_is_named_with_its_id_and_place_and_its_long_texts(size: int, letter: str) -> None:
    text = letter * (size // len(letter))
    raw = f'{{"record_id":"r","input":{{"prompt":"{text}"}},"reference":{{"answer":"{text}"}}}}'
    issues = batch(raw).record_errors
    assert [(issue.code, issue.path, issue.index, issue.record_id) for issue in issues] == [
        ("string_too_long", "records[0].input.prompt", 0, "r"),
        ("string_too_long", "records[0].reference.answer", 0, "r"),
        ("record_too_large", "records[0]", 0, "r"),
    ]
    assert {(issue.line, issue.column) for issue in issues} == {(1, len(HEAD) + 1)}


@pytest.mark.parametrize("letter", ["e\u0301", "\\u0065\\u0301"], ids=["plain", "escaped"])
def test_texts_of_a_record_far_beyond_the_limit_are_counted_after_normalisation(letter: str) -> None:
    raw = f'{{"record_id":"r","input":{{"prompt":"{letter * 200_000}","more":"{"x" * 2 * MB}"}}}}'
    assert errors_of(batch(raw)) == [("record_too_large", "records[0]")]


def test_a_record_far_beyond_the_limit_may_be_no_object() -> None:
    [issue] = batch("[" + "1," * MB * 2 + "1]").record_errors
    assert (issue.index, issue.record_id) == (0, None)


@pytest.mark.parametrize("record_id", [b"r", b"r\xff"])
def test_bytes_that_are_not_utf8_reject_the_payload_in_a_record_of_any_size(record_id: bytes) -> None:
    huge = b'{"record_id":"' + record_id + b'","input":{"prompt":"' + b"x" * 3 * MB + b'\xff"}},'
    report = validate(HEAD.encode() + huge + GOOD.encode() + b"]}", "batch_v1")
    assert (report.outcome, report.dataset_errors[0].code) == ("rejected", "invalid_encoding")


def test_bad_records_are_found_wherever_they_stand_among_many() -> None:
    """Records are looked at in batches; sizes vary so that the cuts fall everywhere."""
    records = [
        record("x" * (number * 37 % 5000), metadata={"n": number}).replace('"r"', f'"{number}"', 1) for number in range(2000)
    ]
    bad = [number for number in range(2000) if number % 137 == 0 or number * 37 % 5000 == 0]
    wanted = {number: records[number].replace('"n"', '"\\u0007"') for number in bad}
    report = batch(*(wanted.get(number, text) for number, text in enumerate(records)))
    assert {issue.index for issue in report.record_errors} == set(bad)
    assert report.counts.accepted_records == 2001 - len(bad)


def test_an_id_is_used_up_by_the_first_record_that_has_it_however_far_apart() -> None:
    """The first is accepted by the exact rules, the last by the fast path, and nine megabytes are between them."""
    between = [record("x" * 150_000).replace('"r"', f'"{number}"', 1) for number in range(60)]
    report = batch(record("cafe\u0301"), *between, record("again"))
    assert errors_of(report) == [("duplicate_record_id", "records[61].record_id")]
    assert report.record_errors[0].message == "record_id 'r' was used by records[0]"


@pytest.mark.parametrize(("literal", "codes"), [("9" * 4300, []), ("9" * 4301, ["value_out_of_range"])])
def test_an_integer_has_up_to_4300_digits(literal: str, codes: list[str]) -> None:
    report = batch('{"record_id":"r","input":{"prompt":"p","n":' + literal + "}}")
    assert [issue.code for issue in report.record_errors] == codes


@pytest.mark.parametrize(("field", "size"), [("user_prompt", 8000), ("rubric", 2000)])
def test_golden_texts_may_have_as_many_characters_as_the_limit(field: str, size: int) -> None:
    cases = [{"id": f"c-{number}", "user_prompt": "p", "rubric": "r" * 10} for number in range(5)]
    cases[2][field] = "é" * size
    assert validate({"version": "1.0.0", "cases": cases}, "golden_v1").outcome == "accepted"
    cases[2][field] = "é" * (size + 1)
    assert errors_of(validate({"version": "1.0.0", "cases": cases}, "golden_v1")) == [("string_too_long", f"cases[2].{field}")]


@pytest.mark.parametrize(("size", "errors"), [(5000, []), (5001, [("string_too_long", "[0].message")])])
def test_a_message_has_up_to_5000_characters(size: int, errors: Found) -> None:
    turns = [{"turn_id": 1, "speaker": "user", "message": "😀" * size}]
    assert errors_of(validate(json.dumps(turns).encode(), "conversation_v1")) == errors
    assert errors_of(validate(json.dumps(turns, ensure_ascii=False).encode(), "conversation_v1")) == errors


@pytest.mark.parametrize(("count", "errors"), [(100, []), (101, [("value_out_of_range", "")])])
def test_a_conversation_has_up_to_100_turns(count: int, errors: Found) -> None:
    turns = [{"turn_id": number, "speaker": "user", "message": "m"} for number in range(1, count + 1)]
    assert errors_of(validate(json.dumps(turns).encode(), "conversation_v1")) == errors


@pytest.mark.parametrize("contract", CONTRACTS)
def test_ten_thousand_unknown_fields_are_listed_and_the_others_counted(contract: str) -> None:
    fields = {f"field{number:05}": number for number in range(MAX_LISTED + 500)}
    report = validate([{**fields, "turn_id": 1}] if contract == "conversation_v1" else fields, contract)
    counts = report.issue_counts
    assert counts["unsupported_field", "error"] + counts["unsupported_field", "warning"] == MAX_LISTED + 500
    assert sum(issue.code == "unsupported_field" for issue in report.issues) <= MAX_LISTED
    assert report.to_dict()["omitted_issues"] == sum(report.unlisted.values()) >= 500


def test_a_legal_row_has_no_limit_of_its_own() -> None:
    row = {"schema_version": "legal_eval_v1", "id": "i" * 1000, "dataset": "d", "task_type": "reference_qa", "prompt": "p" * 3 * MB}
    content = json.dumps({**row, "reference_answers": ["x"] * 20_000, "metadata": {"n": [1] * 100_000}}).encode()
    assert validate(content, "legal_eval_v1").outcome == "accepted"
