"""What is fuzzed, with which inputs, and what must hold for every input whatever it is."""

import json
import math
from collections.abc import Callable
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, NoReturn

from assay import AssayError, ValidationConfig, ValidationReport, validate
from assay.core.contract import CONTRACTS
from assay.core.issue import CODES
from assay.core.strict_json import ParsedDocument, decode_utf8, parse_json, read_exactly
from assay.datasets.parsing.strict_yaml import parse_yaml
from tests.mutants import damaged, mutant_of

DATASETS = Path(__file__).parent.parent / "datasets"
CONFIGS = (
    ValidationConfig(),
    ValidationConfig(),
    ValidationConfig(strict_mode=True, nfc="reject", allow_size=True, null_as_absent=True),
    ValidationConfig(
        unknown_fields="warn", allowed_speakers=["user", "system"], allow_empty_messages=True, check_turn_sequence=False
    ),
    ValidationConfig(max_turns=2, allowed_tools=["timetable"], require_tool_input=False, confidence_score_max=0.5),
)


# Inputs


@cache
def fixtures(contract: str) -> tuple[bytes, ...]:
    """The shipped datasets of a contract; all of them for the doors and for recognition."""
    names = [contract] if contract in CONTRACTS else list(CONTRACTS)
    folders = [DATASETS / name / verdict for name in names for verdict in ("valid", "invalid")]
    paths = [path for folder in folders for path in sorted(folder.rglob("*")) if path.is_file()]
    return tuple(path.read_bytes() for path in paths if not path.name.endswith((".issues.json", ".config.yaml")))


@cache
def values(contract: str) -> tuple[tuple[Any, ...], ...]:
    """The fixtures that are JSON as values: one for a document, several for lines."""
    readable = (_values_of(content) for content in fixtures(contract))
    return tuple(found for found in readable if found)


def _values_of(content: bytes) -> tuple[Any, ...]:
    try:
        return (json.loads(content.decode("utf-8-sig")),)
    except (ValueError, RecursionError):
        pass
    try:
        return tuple(json.loads(line) for line in content.decode("utf-8-sig").splitlines() if line.strip())
    except (ValueError, RecursionError):
        return ()


def make_input(target: str, random: Random) -> bytes:
    """Damaged bytes, a changed structure, a splice of two files, or noise."""
    kind = random.randrange(10)
    if kind < 4:
        return damaged(random.choice(fixtures(target)), random)
    if kind < 8:
        return b"\n".join(mutant_of(value, random) for value in random.choice(values(target)))
    if kind == 8:
        one, two = random.choice(fixtures(target)), random.choice(fixtures(target))
        return one[: random.randint(0, len(one))] + two[random.randint(0, len(two)) :]
    return random.randbytes(random.choice((1, 3, 10, 100, 2000)))


# Targets


def fuzz_json(content: bytes, _: ValidationConfig) -> None:
    """The strict door reads what the standard library reads, apart from what it refuses on purpose."""
    document = parse_json(content)
    check_document(document)
    text = decode_utf8(content)
    if isinstance(text, str):
        exact = read_exactly(text)
        assert (repr(document.value), document.flaws) == (repr(exact.value), exact.flaws), "the quick reader differs"
        _compare_with_standard_library(document, text)


def _compare_with_standard_library(document: ParsedDocument, text: str) -> None:
    try:
        value = json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        assert document.flaws, "read without a flaw what the standard library refuses"
        return
    assert document.is_readable or _is_limit(document), "refused what the standard library reads"
    assert document.flaws or document.value == value, "read another value than the standard library"


def _refuse(constant: str) -> NoReturn:
    raise ValueError(constant)


def _is_limit(document: ParsedDocument) -> bool:
    return document.flaws[-1].message.startswith(("nested deeper", "more than"))


def fuzz_yaml(content: bytes, _: ValidationConfig) -> None:
    """Whatever YAML says, JSON values come out."""
    document = parse_yaml(content)
    check_document(document)
    check_value(document.value)


def fuzz_contract(contract: str) -> Callable[[bytes, ValidationConfig], None]:
    """Validation under one contract, or with the contract recognised."""

    def fuzz(content: bytes, config: ValidationConfig) -> None:
        try:
            report = validate(content, contract, config=config)
        except AssayError:
            return
        check_report(report, content)

    return fuzz


TARGETS: dict[str, Callable[[bytes, ValidationConfig], None]] = {
    "json": fuzz_json,
    "yaml": fuzz_yaml,
    "auto": fuzz_contract("auto"),
    **{contract: fuzz_contract(contract) for contract in CONTRACTS},
}


# What must hold


def check_document(document: ParsedDocument) -> None:
    """A fatal flaw leaves no value, and every flaw has a place in the text."""
    assert document.is_readable or document.value is None
    for flaw in document.flaws:
        assert flaw.code in CODES
        assert 0 <= flaw.offset <= len(document.text)
        assert min(document.place(flaw.offset)) >= 1


def check_value(root: Any) -> None:
    """Nothing but what JSON has, and YAML's infinities."""
    open_values = [root]
    while open_values:
        value = open_values.pop()
        assert value is None or type(value) in (str, bool, int, float, list, dict)
        members = value.values() if type(value) is dict else value if type(value) is list else ()
        assert type(value) is not dict or all(type(key) is str for key in value)
        open_values += members


def check_report(report: ValidationReport, content: bytes) -> None:
    """The verdict, the counts, the issues and the cases tell one story, and it can be written down."""
    counts = report.counts
    assert min(counts.total_records, counts.accepted_records, counts.rejected_records) >= 0, f"negative: {counts}"
    assert counts.total_records == counts.accepted_records + counts.rejected_records, f"do not add up: {counts}"
    assert (report.outcome == "accepted") == report.is_valid, f"{report.outcome}, is_valid {report.is_valid}"
    check_issues(report, content)
    assert json.dumps(report.to_dict())
    cases = list(report.cases)
    assert len(cases) <= max(counts.accepted_records, 0) or report.contract == "conversation_v1"
    assert all(len(case.record_sha256) == 64 and math.isfinite(case.index) for case in cases)
    assert report.contract != "batch_v1" or report.outcome == "rejected" or len(cases) == counts.accepted_records


def check_issues(report: ValidationReport, content: bytes) -> None:
    """Known codes, and places that exist."""
    last_line = content.count(b"\n") + content.count(b"\r") + 1
    for issue in report.issues:
        assert issue.code in CODES
        assert issue.message
        assert issue.line is None or 1 <= issue.line <= last_line or content[:2] == b"\x1f\x8b", f"line {issue.line}: {issue}"
        assert issue.column is None or issue.column >= 1
        assert 0 <= issue.caret <= len(issue.excerpt) <= 120, f"caret {issue.caret}: {issue}"
        assert issue.index is None or 0 <= issue.index < max(report.counts.total_records, 1), f"index {issue.index}: {issue}"
