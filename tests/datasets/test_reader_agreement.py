"""The fast paths and the exact rules agree: what a fast path accepts has no issue, and the same hash (RFC 8785)."""

import hashlib
import unicodedata
from random import Random
from typing import Any

import msgspec
import pytest
import rfc8785
from hypothesis import example, given, settings
from hypothesis import strategies as st

from assay import ValidationConfig, ValidationReport, validate
from assay.core.canonical import canonical_json
from assay.core.issue import Finding, Path
from assay.core.strict_json import parse_json
from assay.datasets.batch_v1.fast import clean_in_parallel
from assay.datasets.batch_v1.rules import CheckedRecord
from assay.datasets.parsing.checks import FindingList, check_flaws
from tests.mutants import mutant_of

DEFAULT = ValidationConfig()
RECORDS: tuple[dict[str, Any], ...] = (
    {"record_id": "bare", "input": {"prompt": "Which tide is the highest?"}},
    {
        "record_id": "full",
        "input": {"prompt": "Name the moon's phases.", "locale": "en"},
        "reference": {"answer": "New, waxing, full, waning.", "pages": [3, 4.5]},
        "tags": ["moon", "tides"],
        "expected": {"max_latency_ms": 2000, "required_criteria": ["accuracy", "clarity"]},
        "metadata": {"level": 2, "by": {"name": "Zoë", "tags": ["a", {"b": [1.5]}]}},
    },
)
ROWS: tuple[dict[str, Any], ...] = (
    {
        "schema_version": "legal_eval_v1",
        "id": "rubric",
        "dataset": "leases",
        "task_type": "rubric_qa",
        "prompt": "May the tenant sublet?",
        "rubric": [
            {"id": "c1", "title": "Consent", "description": "of the landlord", "weight": 2.5},
            {"id": "c2", "title": "Form", "weight": -1},
        ],
        "reference_answers": ["With consent."],
        "metadata": {"policy_id": "default", "source": {"page": 4}},
    },
    {
        "schema_version": "legal_eval_v1",
        "id": "reference",
        "dataset": "leases",
        "task_type": "reference_qa",
        "prompt": "May the tenant sublet?",
        "reference_answers": ["With consent."],
        "context": "Article 262",
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "May the tenant sublet?"}],
        "attachments": [{"path": "acts/262.pdf", "kind": "pdf", "title": "Article"}],
        "language": "en",
    },
    {
        "schema_version": "legal_eval_v1",
        "id": "choice",
        "dataset": "leases",
        "task_type": "mcq",
        "prompt": "May the tenant sublet?",
        "choices": [{"id": "A", "text": "Yes"}, {"id": "B", "text": "Never"}],
        "correct_choice_ids": ["A"],
    },
)
TURNS: tuple[dict[str, Any], ...] = (
    {"turn_id": 1, "speaker": "user", "message": "Any train at six?", "metadata": {"channel": ["phone"]}},
    {
        "turn_id": 2,
        "speaker": "assistant",
        "assistant_reply": "One at 6:12.",
        "tool_used": "timetable",
        "tool_input": {"hour": 6},
        "tool_output": [{"departs": "6:12"}],
        "confidence_score": 0.75,
    },
    {"turn_id": 3, "speaker": "user", "message": "Thanks"},
)
HUGE = 2 << 20
"""Bytes without white space that no record can have, however it is written."""
seeds = st.integers(0, 2**32 - 1)
EXAMPLES = settings(max_examples=max(settings().max_examples, 200))


def exact_record(raw: bytes, index: int) -> tuple[list[Finding], Any]:
    """Every finding of the exact rules, and the record's value where there is one."""
    path: Path = ("records", index)
    if len(raw.translate(None, b" \t\r\n")) > HUGE:
        return [Finding("record_too_large", path, "nothing else is said of it")], None
    document = parse_json(raw)
    record = CheckedRecord(document.value, path, DEFAULT)
    found = record.found if document.is_readable else FindingList()
    # Last, because what the rules say of a number that cannot be read is taken back.
    check_flaws(found, document, path)
    return found, record.value


def rfc8785_digest(value: Any) -> bytes:
    """RFC 8785 by another hand; it has no integers beyond 2^53, where all digits are kept instead."""
    try:
        return hashlib.sha256(rfc8785.dumps(value)).digest()
    except rfc8785.IntegerDomainError:
        return hashlib.sha256(canonical_json(value)).digest()


def batch_document(records: list[bytes]) -> bytes:
    return b'{"dataset_id":"d","dataset_version":"1","schema_version":"1.0","records":[' + b",\n".join(records) + b"]}"


def found_by_the_exact_rules(records: list[bytes]) -> tuple[set[tuple[int, str, str]], list[bytes]]:
    """What a plain loop over the records reports, and the hashes of those it accepts."""
    errors: set[tuple[int, str, str]] = set()
    ids: set[str] = set()
    digests: list[bytes] = []
    for index, raw in enumerate(records):
        found, value = exact_record(raw, index)
        bad = {(index, finding.code, str(finding.path)) for finding in found if finding.severity == "error"}
        record_id = value.get("record_id") if isinstance(value, dict) else None
        if isinstance(record_id, str) and record_id in ids:
            bad.add((index, "duplicate_record_id", str(("records", index, "record_id"))))
        errors |= bad
        digests += [] if bad else [rfc8785_digest(value)]
        ids |= set() if bad else {str(record_id)}
    return errors, digests


def digests_of(report: ValidationReport) -> list[bytes]:
    return [bytes.fromhex(case.record_sha256) for case in report.cases]


@given(seeds)
@example(479)
@example(3124)
@EXAMPLES
def test_a_batch_document_has_the_verdicts_and_hashes_of_a_plain_loop_over_its_records(seed: int) -> None:
    random = Random(seed)
    mutants = [mutant_of(random.choice(RECORDS), random) for _ in range(random.randint(1, 4))]
    records = [raw for raw in mutants if parse_json(raw).is_readable]
    errors, digests = found_by_the_exact_rules(records)
    report = validate(batch_document([b'{"record_id":"first","input":{"prompt":"p"}}', *records]), "batch_v1")
    first = rfc8785_digest({"record_id": "first", "input": {"prompt": "p"}})
    assert {(issue.index, issue.code) for issue in report.record_errors} == {(index + 1, code) for index, code, _ in errors}
    assert digests_of(report) == [first, *digests]
    assert report.dataset_errors == ()


@pytest.mark.parametrize("workers", [2, 3, 7])
def test_several_processes_find_what_one_finds(workers: int) -> None:
    random = Random(workers)
    raws = [msgspec.Raw(mutant_of(random.choice(RECORDS), random, most=1)) for _ in range(400)]
    alone = clean_in_parallel(raws, suspects=frozenset({3, 250}), workers=1)
    together = clean_in_parallel(raws, suspects=frozenset({3, 250}), workers=workers)
    assert [verdict for batch in together for verdict in batch] == [verdict for batch in alone for verdict in batch]


def test_a_large_document_has_one_report_whatever_the_number_of_processes() -> None:
    """Above 25 MB the work is shared."""
    random = Random(0)
    mutants = [mutant_of(RECORDS[1], random, most=1).replace(b"full", b"%d" % number, 1) for number in range(3000)]
    readable = [raw for raw in mutants if len(raw) < 100_000 and parse_json(raw).is_readable]
    padding = [b'{"record_id":"p%d","input":{"prompt":"%s"}}' % (number, b"x" * 190_000) for number in range(150)]
    document = batch_document([record for pair in zip(padding * 20, readable, strict=False) for record in pair])
    alone, shared = validate(document, "batch_v1"), validate(document, "batch_v1", workers=2)
    assert len(document) > 25 << 20
    assert shared.to_dict() == alone.to_dict()
    assert digests_of(shared) == digests_of(alone)


@pytest.mark.parametrize(
    "spelling",
    [
        "1.0",
        "1e5",
        "-0",
        "-0.0",
        "1e-7",
        "5e-324",
        "1e21",
        "1e22",
        "9007199254740991.0",
        "9007199254740992.0",
        "9100000000000000.0",
        "9999999999999998.0",
        "1e16",
    ],
)
def test_a_number_has_the_hash_of_rfc8785_however_it_is_written(spelling: str) -> None:
    raw = b'{"record_id":"n","input":{"prompt":"p"},"metadata":{"n":' + spelling.encode() + b"}}"
    expected = rfc8785_digest({"record_id": "n", "input": {"prompt": "p"}, "metadata": {"n": float(spelling)}})
    assert digests_of(validate(batch_document([raw]), "batch_v1")) == [expected]


@pytest.mark.parametrize("contract", ["batch_v1", "legal_eval_v1", "conversation_v1"])
def test_a_float_of_any_length_is_read_in_every_contract(contract: str) -> None:
    head = {"dataset_id": "d", "dataset_version": "1", "schema_version": "1.0", "records": [RECORDS[1]]}
    content = msgspec.json.encode({"batch_v1": head, "legal_eval_v1": ROWS[0], "conversation_v1": list(TURNS)}[contract])
    marked = content.replace(b'"level":2', b'"level":@').replace(b'"page":4', b'"page":@').replace(b'"hour":6', b'"hour":@')
    assert validate(marked.replace(b"@", b"0." + b"1" * 5000), contract).outcome == "accepted"


@pytest.mark.parametrize("literal", ["1" * 4301, "-" + "1" * 4301, "1e400"], ids=["digits", "negative", "float"])
@pytest.mark.parametrize("contract", ["batch_v1", "legal_eval_v1", "conversation_v1"])
def test_a_number_that_the_strict_door_refuses_is_refused_in_every_contract(contract: str, literal: str) -> None:
    documents = {"batch_v1": {"records": [RECORDS[1]]}, "legal_eval_v1": ROWS[0], "conversation_v1": list(TURNS)}
    content = msgspec.json.encode(documents[contract])
    marked = content.replace(b'"level":2', b'"level":@').replace(b'"page":4', b'"page":@').replace(b'"hour":6', b'"hour":@')
    report = validate(marked.replace(b"@", literal.encode()), contract)
    assert "value_out_of_range" in {issue.code for issue in report.record_errors}


def test_text_is_hashed_after_normalising() -> None:
    raw = '{"record_id":"n","input":{"prompt":"Cafe\u0301"},"metadata":{"Re\u0301":"\u212b"}}'
    value = parse_json(unicodedata.normalize("NFC", raw)).value
    assert digests_of(validate(batch_document([raw.encode()]), "batch_v1")) == [rfc8785_digest(value)]
