"""Reports as SARIF 2.1.0, for code scanning and editors."""

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import PurePath
from typing import Any
from urllib.parse import quote

from assay.core.canonical import json_text
from assay.core.issue import CODES, Issue
from assay.core.report import FixChange, ValidationReport
from assay.presentation.validation import SUGGESTIONS, limited
from assay.surfaces.reporters.formats import ReportSettings

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
FIX_RULE = "fix_applied"

_RULES = (*CODES, FIX_RULE)


def sarif_report(reports: Iterable[ValidationReport], settings: ReportSettings) -> Iterator[str]:
    """Write one log with one run; results are written file by file."""
    driver = {"name": "assay", "version": settings.version, "rules": [_rule(code) for code in _RULES]}
    yield f'{{"$schema":"{SCHEMA}","version":"2.1.0","runs":[{{"tool":{json_text({"driver": driver})},'
    # Columns are counted in code points, as our locations are; SARIF's default is UTF-16 units.
    yield '"columnKind":"unicodeCodePoints","results":['
    separator = "\n"
    omitted = 0
    for report in reports:
        omitted += report.issue_counts.total() - len(limited(report, settings.max_issues))
        for result in _results(report, settings):
            yield separator + json_text(result)
            separator = ",\n"
    properties = f',"properties":{json_text({"omitted_issues": omitted})}' if omitted else ""
    yield f"\n]{properties}}}]}}\n"


def _rule(code: str) -> dict[str, object]:
    meaning = CODES.get(code, "A safe fix that the corrected copy has.")
    return {
        "id": code,
        "shortDescription": {"text": meaning},
        "help": {"text": SUGGESTIONS.get(code, "No action needed.")},
    }


def _results(report: ValidationReport, settings: ReportSettings) -> Iterator[dict[str, object]]:
    artifact = _artifact(report.path)
    for change in settings.changes:
        yield _fixed(change, _artifact(settings.fixed_source))
    for issue in limited(report, settings.max_issues):
        yield _result(issue, artifact)


def _result(issue: Issue, artifact: Mapping[str, object]) -> dict[str, object]:
    result = {
        "ruleId": issue.code,
        "level": issue.severity,
        "message": {"text": _message(issue.message)},
        "locations": [_location(issue, artifact)],
        "properties": _properties(issue),
    }
    # Codes of plugins have no rule in the list.
    return result | ({"ruleIndex": _RULES.index(issue.code)} if issue.code in _RULES else {})


def _fixed(change: FixChange, artifact: Mapping[str, object]) -> dict[str, object]:
    return {
        "ruleId": FIX_RULE,
        "ruleIndex": _RULES.index(FIX_RULE),
        "level": "note",
        "message": {"text": _message(change.message)},
        "locations": [{"physicalLocation": {"artifactLocation": artifact, "region": {"startLine": change.line}}}],
        "properties": {"path": change.path},
    }


def _location(issue: Issue, artifact: Mapping[str, object]) -> dict[str, object]:
    physical: dict[str, Any] = {"artifactLocation": artifact}
    if issue.line is not None:
        physical["region"] = {"startLine": issue.line} | ({} if issue.column is None else {"startColumn": issue.column})
    logical = {"logicalLocations": [{"fullyQualifiedName": issue.path}]} if issue.path else {}
    return {"physicalLocation": physical, **logical}


def _properties(issue: Issue) -> dict[str, object]:
    known = {
        "index": issue.index,
        "record_id": issue.record_id,
        "path": issue.path,
        "hint": issue.hint or None,
        "error_type": issue.error_type,
        "turn_id": issue.turn_id,
        "conversation": issue.conversation,
        **(issue.details or {}),
    }
    return {name: value for name, value in known.items() if value is not None}


def _message(text: str) -> str:
    # SARIF 3.11.6 reads [text](target) in a message as a link; dataset text must not make one.
    return text.replace("[", "\\[").replace("]", "\\]") if "](" in text else text


def _artifact(path: str) -> dict[str, object]:
    if path == "-":
        return {"uri": "stdin"}
    # Bytes of the path are quoted, so that a name that is not UTF-8 still makes a valid URI.
    quoted = quote(os.fsencode(PurePath(path).as_posix()))
    # Relative to the root of the sources, so that code scanning finds the file in the repository.
    return {"uri": f"file://{quoted}"} if PurePath(path).is_absolute() else {"uri": quoted, "uriBaseId": "%SRCROOT%"}
