"""golden_v1: one JSON document with 5 to 20 cases; the file is valid as a whole or not at all."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any

from assay.core.canonical import JsonObject, canonical_json, sha256_hex
from assay.core.case import Case, Criterion
from assay.core.issue import Finding, Path
from assay.core.narrow_text import LARGE_BYTES
from assay.core.open_fields import FieldCounter, FieldCounts
from assay.core.report import RecordCounts, ValidationReport
from assay.core.strict_json import parse_json
from assay.datasets.parsing.checks import (
    FindingList,
    array_at,
    check_flaws,
    check_nul,
    check_unique,
    object_at,
    short,
    string_at,
    unknown_members,
)
from assay.datasets.parsing.config import Interface, ReadOptions, ValidationConfig
from assay.datasets.parsing.hashing import IndexSet
from assay.datasets.parsing.issue_locator import IssueList, RecordContext
from assay.datasets.parsing.record_fields import golden_uses
from assay.datasets.parsing.source import Source

# The contract's range for files; `allow_size` lifts it for golden sets that have grown beyond it.
MIN_CASES, MAX_CASES = 5, 20
_ANY_SIZE: dict[Interface, str] = {
    "python": "pass allow_size=True",
    "cli": "give --allow-size (in a run file or config: allow_size: true)",
    "http": "send the parameter allow_size=true",
    "page": "tick “Accept golden datasets with fewer than 5 or more than 20 cases”",
}
"""Hint to lift the limit, in the words of each interface."""
MAX_PROMPT = 8000
MIN_RUBRIC, MAX_RUBRIC = 10, 2000
FIELDS = ("version", "description", "cases")
CASE_FIELDS = ("id", "user_prompt", "rubric", "context", "tags")

_DOCUMENT = '{"version": "1.0.0", "cases": [...]}'
_CASE = '{"id": "case-001", "user_prompt": "...", "rubric": "..."}'
_ONE_CASE = f"this is one case; a file has them in cases: {_DOCUMENT}"
# \Z and ASCII ranges: `$` allows a final line break, and `\d` below would match digits of every script.
_ID = re.compile(r"[a-z0-9-]+\Z")
_VERSION = re.compile(r"[0-9]+\.[0-9]+\.[0-9]+\Z")


def read(source: Source, config: ValidationConfig, options: ReadOptions) -> ValidationReport:
    """Validate one golden dataset and return the report; any error rejects the file, since some of its cases are not a dataset."""
    document = source.document_to_check()
    found = check_document(document.value, config, options.interface) if document.is_readable else FindingList()
    check_flaws(found, document, (), whole=f"golden_v1 is one JSON document: {_DOCUMENT}")
    cases = _cases_of(document.value)
    options.progress(source.size, source.size)
    issues = IssueList()
    issues.note_all(found, document, lambda finding: _record(finding, cases))
    if options.lint and document.is_readable and not found.has_errors:
        # Imported lazily: most callers do not need it.
        for issue in import_module("assay.datasets.parsing.rubric_lint").lint_cases(document):
            issues.add(issue)
    # The counts say which cases are at fault, although any error rejects the file.
    rejected = _rejected(found, cases)
    is_rejected = found.has_errors
    value = document.value
    # Long texts of a large document were not read as they are.

    def read_again() -> Any:
        return value if source.size <= LARGE_BYTES else parse_json(source.buffer()).value

    return ValidationReport(
        path=source.name,
        contract="golden_v1",
        outcome="rejected" if found.has_errors else "accepted",
        counts=RecordCounts(len(cases), len(cases) - len(rejected), len(rejected)),
        issues=issues.issues,
        unlisted=issues.unlisted,
        broken=rejected,
        # All or nothing: a golden dataset with an invalid case has no cases.
        open_records=lambda: iter(()) if is_rejected else _to_cases(read_again(), source.name),
        fields={} if found.has_errors else _field_counts(cases),
        open_head=lambda: _head_of(read_again()),
    )


def _head_of(value: object) -> dict[str, object]:
    return {name: member for name, member in value.items() if name != "cases"} if type(value) is dict else {}


def _field_counts(cases: Iterable[object]) -> FieldCounts:
    counter = FieldCounter()
    for case in cases:
        if type(case) is dict:
            counter.add(golden_uses(case))
    return counter.counts()


def _cases_of(value: object) -> list[object]:
    cases = value.get("cases") if type(value) is dict else None
    return cases if type(cases) is list else []


def _rejected(found: FindingList, cases: Sequence[object]) -> IndexSet:
    """Collect the cases with an error; when errors were too many to be listed, every case counts as rejected."""
    rejected = IndexSet()
    is_flood = any(severity == "error" for _, severity in found.unlisted)
    for index in range(len(cases)) if is_flood else ():
        rejected.add(index)
    for finding in found:
        record = _record(finding, cases)
        if finding.severity == "error" and record.index is not None:
            rejected.add(record.index)
    return rejected


def _record(finding: Finding, cases: Sequence[object]) -> RecordContext:
    """Return the context of a finding: its case, or the file."""
    index = finding.path[1] if finding.path[:1] == ("cases",) and len(finding.path) > 1 else None
    if not isinstance(index, int) or index >= len(cases):
        return RecordContext()
    case = cases[index]
    case_id = case.get("id") if type(case) is dict else None
    return RecordContext(index, case_id if type(case_id) is str else None)


def check_document(value: object, config: ValidationConfig, interface: Interface = "python") -> FindingList:
    """Check one document by every rule of the contract."""
    found = FindingList(required=("version", "cases", "id", "user_prompt", "rubric"))
    document = object_at(found, value, (), like=_DOCUMENT)
    if document is None:
        return found
    is_case = "cases" not in document and not {"user_prompt", "rubric"}.isdisjoint(document)
    for field in ("version", "cases"):
        if field not in document:
            if is_case and field == "cases":
                found.missing((field,), hint=_ONE_CASE)
            else:
                found.missing((field,), members=document, known=FIELDS)
    if "version" in document:
        _check_version(found, document["version"])
    # Optional fields may be null in this contract, as they are in its published classes.
    if document.get("description") is not None:
        string_at(found, document["description"], ("description",))
    if "cases" in document:
        _check_cases(found, document["cases"], config, interface)
    _warn_unknown(found, document, (), known=FIELDS, of_a_case=CASE_FIELDS if is_case else ())
    check_nul(found, document, ())
    return found


def _check_version(found: FindingList, value: object) -> None:
    text = string_at(found, value, ("version",), low=1, like='"1.0.0"')
    if text is not None and not _VERSION.match(text):
        found.add("value_out_of_range", ("version",), f"version {short(text)} is not MAJOR.MINOR.PATCH", hint="write it like 1.0.0")


def _check_cases(found: FindingList, value: object, config: ValidationConfig, interface: Interface) -> None:
    cases = array_at(found, value, ("cases",), like=f"[{_CASE}, ...]")
    if cases is None:
        return
    if not config.allow_size and not MIN_CASES <= len(cases) <= MAX_CASES:
        remedy = "add cases" if len(cases) < MIN_CASES else "split the file"
        found.add(
            "value_out_of_range",
            ("cases",),
            f"cases has {len(cases):,} item(s); a golden dataset has {MIN_CASES} to {MAX_CASES}",
            hint=f"{remedy}, or {_ANY_SIZE[interface]} to accept any number of cases",
            parameter="allow_size" if interface == "http" else "",
        )
    first: dict[str, int] = {}
    for index, case in enumerate(cases):
        _check_case(found, case, ("cases", index))
        if type(case) is dict:
            check_unique(found, case.get("id"), ("cases", index, "id"), first)


def _check_case(found: FindingList, value: object, path: Path) -> None:
    case = object_at(found, value, path, like=_CASE)
    if case is None:
        return
    for field in ("id", "user_prompt", "rubric"):
        if field not in case:
            found.missing((*path, field), members=case, known=CASE_FIELDS)
    if "id" in case:
        _check_id(found, case["id"], (*path, "id"))
    if "user_prompt" in case:
        _check_text(found, case["user_prompt"], (*path, "user_prompt"), low=1, high=MAX_PROMPT)
    if "rubric" in case:
        _check_text(found, case["rubric"], (*path, "rubric"), low=MIN_RUBRIC, high=MAX_RUBRIC)
    if case.get("context") is not None:
        string_at(found, case["context"], (*path, "context"))
    if case.get("tags") is not None:
        for index, tag in enumerate(array_at(found, case["tags"], (*path, "tags")) or ()):
            string_at(found, tag, (*path, "tags", index))
    _warn_unknown(found, case, path, known=CASE_FIELDS)


def _check_id(found: FindingList, value: object, path: Path) -> None:
    text = string_at(found, value, path, low=1)
    if text is not None and not _ID.match(text):
        found.add("value_out_of_range", path, f"id {short(text)} may hold only a-z 0-9 and -", hint="write it like case-001")


def _check_text(found: FindingList, value: object, path: Path, *, low: int, high: int) -> None:
    """Check the length of a text: the minimum counts trimmed characters, the maximum all of them."""
    string_at(found, value, path, low=low, high=high)
    # A rubric of ten blanks has the length that the contract asks for, and no content.
    if type(value) is str and len(value) >= low > len(value.strip()):
        found.add("value_out_of_range", path, f"{path[-1]} has fewer than {low} characters besides white space at its ends")


def _warn_unknown(
    found: FindingList, value: Mapping[str, object], path: Path, *, known: tuple[str, ...], of_a_case: tuple[str, ...] = ()
) -> None:
    for unknown in unknown_members(value, known):
        hint, guess = ("it is a field of a case", None) if unknown.name in of_a_case else ("", unknown.guess)
        message = f"{unknown.message} and is ignored"
        found.warn("unsupported_field", (*path, unknown.name), message, hint=hint, guess=guess, on_key=True)


def _to_cases(document: JsonObject, name: str) -> Iterator[tuple[Case, object]]:
    for index, case in enumerate(document["cases"]):
        made = Case(
            id=case["id"],
            index=index,
            contract="golden_v1",
            task="rubric",
            dataset=document.get("description") or name,
            prompt=case["user_prompt"],
            notes=case.get("context") or "",
            # One holistic criterion: a judge scores the whole answer from 1 to 5 by this text.
            criteria=(Criterion("rubric", case["rubric"]),),
            tags=tuple(case.get("tags") or ()),
            metadata={"version": document["version"]},
            extra={key: member for key, member in case.items() if key not in CASE_FIELDS},
            record_sha256=sha256_hex(canonical_json(case)),
        )
        yield made, case
