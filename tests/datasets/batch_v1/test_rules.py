"""The rules of batch_v1: limits of records, documents and ids, types, times and versions."""

import json
from pathlib import Path
from typing import Any

import pytest

from assay import validate
from assay.testing import example_dataset
from tests.datasets.findings import ABSENT, GOOD, HEAD, LISTED, QUOTES, RECORD_TEXT, Found, batch, changed, errors_of, issue_of
from tests.datasets.test_first_users import DOCUMENT, RECORD

MB = 1 << 20


def record(prompt: str, **more: Any) -> str:
    return json.dumps({"record_id": "r", "input": {"prompt": prompt}, **more}, ensure_ascii=False)


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


@pytest.mark.parametrize(("size", "errors"), [(262_144, []), (262_145, [("record_too_large", "records[0]")])])
def test_a_record_that_is_normalized_has_up_to_256_kb_after_it(size: int, errors: Found) -> None:
    value = {"record_id": "r", "input": {"prompt": "p", "filler": ""}}
    rest = len(json.dumps(value, separators=(",", ":")))
    # The last letter takes three bytes in the file and two in NFC.
    value["input"] = {"prompt": "p", "filler": "x" * (size - rest - 2) + "e\u0301"}
    assert errors_of(batch(json.dumps(value, ensure_ascii=False))) == errors


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


def test_nul_in_an_unknown_member_rejects_the_document() -> None:
    report = validate({**DOCUMENT, "note": "a\x00"}, "batch_v1")
    assert [(issue.code, issue.path) for issue in report.dataset_errors] == [("invalid_encoding", "note")]


def test_the_length_of_a_version_counts_after_normalisation() -> None:
    assert validate({**DOCUMENT, "dataset_version": "e\u0301" * 64}, "batch_v1").is_valid


@pytest.mark.parametrize("name", ["Prompt", "prompts", "promt"])
def test_a_misspelt_prompt_is_pointed_out(name: str) -> None:
    (issue,) = validate({**DOCUMENT, "records": [{**RECORD, "input": {name: "p"}}]}, "batch_v1").record_errors
    assert issue.hint == f"is it written as {name!r}?"


@pytest.mark.parametrize("version", ["release 7\tfinal", "spring\nsummer", "ação", " "])
def test_a_version_may_be_any_text(version: str) -> None:
    assert validate({**DOCUMENT, "dataset_version": version}, "batch_v1").is_valid


@pytest.mark.parametrize(
    ("member", "value", "codes"),
    [
        ("dataset_id", "é" * 129, ["string_too_long", "value_out_of_range"]),
        ("dataset_version", "\x07" * 65, ["string_too_long", "invalid_encoding"]),
    ],
)
def test_everything_that_is_wrong_with_a_member_of_the_document_is_told(member: str, value: str, codes: list[str]) -> None:
    report = validate({**DOCUMENT, member: value}, "batch_v1")
    assert [(issue.code, issue.path) for issue in report.dataset_errors] == [(code, member) for code in codes]


@pytest.mark.parametrize(
    "moment",
    [
        "2016-12-31T23:59:60Z",
        "2016-12-31T23:59:60.5+00:00",
        "2026-01-15T10:05:12.123456789Z",
        "2026-01-15t10:05:12z",
        "2026-01-15t10:05:12.5+00:00",
        "2016-12-31t23:59:60z",
    ],
)
def test_created_at_is_any_utc_time_of_rfc_3339(moment: str) -> None:
    assert validate({**DOCUMENT, "created_at": moment}, "batch_v1").is_valid


@pytest.mark.parametrize(
    "moment",
    ["2016-12-31T22:59:60Z", "2016-12-31T23:59:61Z", "2026-01-15T24:00:00Z", "2026-02-29T23:59:60Z", "2026-01-15t10:05:12+01:00"],
)
def test_created_at_is_no_time_that_does_not_exist(moment: str) -> None:
    report = validate({**DOCUMENT, "created_at": moment}, "batch_v1")
    assert [(issue.code, issue.path) for issue in report.dataset_errors] == [("value_out_of_range", "created_at")]


@pytest.mark.parametrize(
    ("path", "value", "hint"),
    [
        (("schema_version",), 1.0, 'write it like "1.0"'),
        (("records",), None, f"write it like [{RECORD_TEXT}, ...]"),
        (("records", 0), "What is 2+2?", f"write it like {RECORD_TEXT}"),
        (("records", 0, "record_id"), 7, QUOTES),
        (("records", 0, "record_id"), True, 'put it in quotes: "true"'),
        (("records", 0, "input"), "What is 2+2?", 'write it like {"prompt": "..."}'),
        (("records", 0, "input"), '{"prompt": "What is 2+2?"}', "write the value itself, not a text that holds it"),
        (("records", 0, "reference"), "4", 'write it like {"answer": "..."}'),
        (("records", 0, "reference"), None, ABSENT),
        (("records", 0, "tags"), [None], "leave it out instead of writing null"),
        (("records", 0, "expected"), {"max_latency_ms": "2000"}, "leave the quotes out"),
        (("records", 0, "expected"), {"max_latency_ms": 2000.0}, "leave the fraction out"),
        (("records", 0, "expected"), {"required_criteria": "accuracy"}, LISTED),
    ],
)
def test_a_wrong_type_in_batch_v1(tmp_path: Path, path: tuple[str | int, ...], value: Any, hint: str) -> None:
    document = changed(json.loads(example_dataset("batch_v1")), path, value)
    assert issue_of(tmp_path, "batch_v1", document).hint == hint
