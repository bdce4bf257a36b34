"""Small documents with one fault, and what validation finds in them."""

import copy
import json
from pathlib import Path
from typing import Any

from assay import ValidationReport, validate
from assay.core.issue import Issue

RECORD_TEXT = '{"record_id": "q-1", "input": {"prompt": "..."}}'
QUOTES = 'put it in quotes: "7"'
LISTED = "put it into a list, also where it is the only one"
Found = list[tuple[str, str]]
ABSENT = "leave the field out instead of writing null"
HEAD = '{"dataset_id":"d","dataset_version":"1","schema_version":"1.0","records":['
GOOD = '{"record_id":"good","input":{"prompt":"p"}}'


def errors_of(report: ValidationReport) -> Found:
    return [(issue.code, issue.path) for issue in report.issues if issue.severity == "error"]


def changed(document: Any, path: tuple[str | int, ...], value: Any) -> Any:
    """A copy of the document with another value at the path."""
    if not path:
        return value
    document = copy.deepcopy(document)
    place = document
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    return document


def issue_of(folder: Path, contract: str, value: Any, *, code: str = "invalid_field_type") -> Issue:
    """The one issue of a code, that of a wrong type, in a document of a contract."""
    source = folder / ("data.jsonl" if contract == "legal_eval_v1" else "data.json")
    source.write_text(json.dumps(value), encoding="utf-8")
    (issue,) = [issue for issue in validate(source, contract=contract).issues if issue.code == code]
    return issue


def batch(*records: str, tail: str = "]}") -> ValidationReport:
    return validate((HEAD + ",".join((*records, GOOD)) + tail).encode(), "batch_v1")
