"""Reader of human labels from JSONL or CSV, which reports every problem with its line."""

import csv
import io
from collections.abc import Iterator, Mapping
from math import isfinite
from pathlib import Path
from typing import Any

import msgspec

from assay.core.strict_json import parse_json
from assay.datasets.parsing.checks import nearest
from assay.datasets.parsing.source import open_source
from assay.engine.planning.request import PlanProblems

DIGEST = 16
"""Hexadecimal digits of the hash that ties a label to its answer."""
_WORDS = {"pass": True, "passed": True, "true": True, "yes": True, "1": True, "good": True}
_WORDS |= {
    "not passed": False,
    "not_passed": False,
    "fail": False,
    "failed": False,
    "false": False,
    "no": False,
    "0": False,
    "bad": False,
}
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""First characters that make a spreadsheet evaluate a cell as a formula."""
_DELIMITERS = (",", ";", "\t")
"""Separators of cells; spreadsheets write the second one in locales with a decimal comma."""


class HumanLabel(msgspec.Struct, frozen=True, kw_only=True):
    """One person's label on one answer."""

    record_id: str
    dataset: str = ""
    sample: int = 0
    rater: str = ""
    passed: bool | None = None
    score: float | None = None
    """Score on the run's scale."""
    answer_sha256: str = ""
    """First digits of the hash of the labelled answer; empty in a file without this column."""
    line: int = 0


class LabelFile(msgspec.Struct, frozen=True):
    """The labels of a file, and the number of rows that are not filled in yet."""

    labels: tuple[HumanLabel, ...]
    empty: int


def read_labels(path: str | Path) -> LabelFile:
    """Read all labels of a file; raises PlanProblems with every wrong line, SourceUnreadable for an unreadable file."""
    text = bytes(open_source(path).buffer())
    problems: list[str] = []
    is_csv = str(path).lower().endswith((".csv", ".csv.gz"))
    # By the name of the file, as two formats share the extension `.txt` at most by accident.
    rows = _csv_rows(text, problems) if is_csv else _json_rows(text, problems)
    read = [_label(row, line, problems) for line, row in rows]
    labels = tuple(label for label in read if label is not None and (label.passed is not None or label.score is not None))
    empty = sum(1 for label in read if label is not None and label.passed is None and label.score is None)
    # Across the file, because a repetition may be thousands of lines away.
    _check_repeats(labels, problems)
    if not read and not problems:
        problems.append("1: the file has no labels")
    if problems:
        raise PlanProblems([f"{path}:{problem}" for problem in problems])
    return LabelFile(labels, empty)


def _json_rows(text: bytes, problems: list[str]) -> Iterator[tuple[int, dict[str, object]]]:
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        document = parse_json(line)
        if not document.is_readable or document.flaws:
            first = next(iter(document.flaws), None)
            problems.append(f"{number}: {first.message if first else 'this is not JSON'}")
        elif not isinstance(document.value, dict):
            problems.append(f"{number}: a label must be an object")
        else:
            yield number, document.value


def _csv_rows(text: bytes, problems: list[str]) -> Iterator[tuple[int, dict[str, object]]]:
    try:
        # `utf-8-sig`: Excel writes a byte order mark, which would become part of the first name.
        decoded = text.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        line = text.count(b"\n", 0, problem.start) + 1
        problems.append(f"{line}: the text is not UTF-8; save the table as CSV in UTF-8")
        return
    reader = csv.DictReader(io.StringIO(decoded, newline=""), delimiter=_delimiter(decoded))
    for row in reader:
        # A cell that was escaped against formulas reads as it was; empty cells are not filled in.
        yield reader.line_num, {name: _unguarded(value) for name, value in row.items() if name and isinstance(value, str) and value}


def _delimiter(text: str) -> str:
    """Detect the separator: the one that gives the first line a column `record_id`."""
    head = text.partition("\n")[0]
    names = {sign: next(csv.reader([head], delimiter=sign), []) for sign in _DELIMITERS}
    # A comma, if no separator gives such a column: the error then names the missing column.
    return next((sign for sign, found in names.items() if "record_id" in map(str.strip, found)), ",")


def guarded(text: str) -> str:
    """Escape a cell against evaluation as a formula; a text that looks escaped is escaped again, so that reading is exact."""
    # One quote more, also for a text that begins with quotes, so that reading takes off exactly one.
    return f"'{text}" if text.lstrip("'").startswith(_FORMULA) else text


def _unguarded(text: str) -> str:
    return text[1:] if text.startswith("'") and text.lstrip("'").startswith(_FORMULA) else text


def digest_of(response_sha256: str | None) -> str:
    """Return an answer's hash as label files hold it, with a prefix that keeps spreadsheets from reading a number."""
    return f"sha256:{response_sha256[:DIGEST]}" if response_sha256 else ""


def _label(row: Mapping[str, object], line: int, problems: list[str]) -> HumanLabel | None:
    record_id = row.get("record_id")
    # `type` and not isinstance: True is an int.
    if type(record_id) is int:
        # Ids that are numbers are texts in the run.
        record_id = str(record_id)
    if not isinstance(record_id, str) or not record_id:
        problems.append(f"{line}: {_without_id(row)}")
        return None
    found = {"passed": _verdict(row.get("passed")), "score": _number(row.get("score")), "sample": _whole(row.get("sample"))}
    # A value of its own marks what is wrong, since None means "not filled in".
    wrong = [name for name, value in found.items() if value is _WRONG]
    problems += [f"{line}: {name} is {row[name]!r}, which is not a {_MEANINGS[name]}" for name in wrong]
    if wrong:
        return None
    return HumanLabel(
        record_id=record_id,
        dataset=str(row.get("dataset") or ""),
        sample=found["sample"] or 0,
        rater=str(row.get("rater") or "").strip(),
        passed=found["passed"],
        score=found["score"],
        answer_sha256=str(row.get("answer_sha256") or ""),
        line=line,
    )


def _without_id(row: Mapping[str, object]) -> str:
    given = row.get("record_id")
    if given not in (None, ""):
        return f"record_id is {given!r}, which is not a text"
    guess = next(
        (f" ({nearest('record_id', (name,))})" for name in row if name != "record_id" and nearest("record_id", (name,))), ""
    )
    return f"record_id is missing{guess}"


_MEANINGS = {"passed": "verdict (passed or not passed)", "score": "number", "sample": "whole number"}
_WRONG: Any = object()


def _verdict(value: object) -> Any:
    if value is None or value == "":
        return None
    if isinstance(value, bool):
        return value
    return _WORDS.get(str(value).strip().lower(), _WRONG)


def _number(value: Any) -> Any:
    if value is None or value == "":
        return None
    try:
        number = float(value)
    except (TypeError, ValueError):
        return _WRONG
    return number if isfinite(number) and not isinstance(value, bool) else _WRONG


def _whole(value: object) -> object:
    number = _number(value)
    return number if number in (None, _WRONG) else int(number) if number == int(number) else _WRONG


def _check_repeats(labels: tuple[HumanLabel, ...], problems: list[str]) -> None:
    """Add a problem for each answer that one person labels twice."""
    seen: dict[tuple[str, str, int, str], int] = {}
    for label in labels:
        key = (label.dataset, label.record_id, label.sample, label.rater)
        first = seen.setdefault(key, label.line)
        if first != label.line:
            who = f" of '{label.rater}'" if label.rater else ""
            problems.append(f"{label.line}: a second label{who} for '{label.record_id}'; the first is on line {first}")
