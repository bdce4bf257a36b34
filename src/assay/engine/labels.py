"""Labels that people gave to the answers of a run: read from JSONL or CSV, every problem with its line."""

import csv
import io
from collections.abc import Iterator
from math import isfinite
from pathlib import Path
from typing import Any

import msgspec

from assay.core.json_door import parse_json
from assay.datasets.checks import nearest
from assay.datasets.source import open_source
from assay.engine.request import PlanProblems

MEMBERS = ("record_id", "dataset", "sample", "rater", "passed", "score", "note")
"""Members of a label; a file may have others, which are left alone."""
_WORDS = {"pass": True, "passed": True, "true": True, "yes": True, "1": True, "good": True}
_WORDS |= {"fail": False, "failed": False, "false": False, "no": False, "0": False, "bad": False}
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""First characters that make a spreadsheet calculate."""


class HumanLabel(msgspec.Struct, frozen=True, kw_only=True):
    """What one person said of one answer."""

    record_id: str
    dataset: str = ""
    sample: int = 0
    rater: str = ""
    passed: bool | None = None
    score: float | None = None
    """On the scale of the run."""
    line: int = 0


class LabelFile(msgspec.Struct, frozen=True):
    """The labels of a file, and how many of its rows nobody has filled in yet."""

    labels: tuple[HumanLabel, ...]
    empty: int


def read_labels(path: str | Path) -> LabelFile:
    """All labels of a file; raises PlanProblems with every line that is wrong, SourceUnreadable without a file."""
    text = bytes(open_source(path).buffer())
    problems: list[str] = []
    rows = _csv_rows(text) if str(path).lower().endswith((".csv", ".csv.gz")) else _json_rows(text, problems)
    read = [_label(row, line, problems) for line, row in rows]
    labels = tuple(label for label in read if label is not None and (label.passed is not None or label.score is not None))
    empty = sum(1 for label in read if label is not None and label.passed is None and label.score is None)
    _check_repeats(labels, problems)
    if not read and not problems:
        problems.append("1: the file has no labels")
    if problems:
        raise PlanProblems([f"{path}:{problem}" for problem in problems])
    return LabelFile(labels, empty)


def _json_rows(text: bytes, problems: list[str]) -> Iterator[tuple[int, dict[str, Any]]]:
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


def _csv_rows(text: bytes) -> Iterator[tuple[int, dict[str, Any]]]:
    reader = csv.DictReader(io.StringIO(text.decode("utf-8-sig", "replace"), newline=""))
    for row in reader:
        yield reader.line_num, {name: _unguarded(value) for name, value in row.items() if name and isinstance(value, str) and value}


def guarded(text: str) -> str:
    """A cell that no spreadsheet takes for a formula."""
    return f"'{text}" if text.startswith(_FORMULA) else text


def _unguarded(text: str) -> str:
    return text[1:] if text.startswith("'") and text[1:].startswith(_FORMULA) else text


def _label(row: dict[str, Any], line: int, problems: list[str]) -> HumanLabel | None:
    record_id = row.get("record_id")
    if not isinstance(record_id, str) or not record_id:
        guess = next((f" ({nearest('record_id', (name,))})" for name in row if nearest("record_id", (name,))), "")
        problems.append(f"{line}: record_id is missing{guess}")
        return None
    passed, score = _verdict(row.get("passed")), _number(row.get("score"))
    sample = _number(row.get("sample", 0))
    for name, value in (("passed", passed), ("score", score), ("sample", sample)):
        if value is _WRONG:
            problems.append(
                f"{line}: {name} is {row[name]!r}, which is no {'verdict (pass or fail)' if name == 'passed' else 'number'}"
            )
    if _WRONG in (passed, score, sample):
        return None
    return HumanLabel(
        record_id=record_id,
        dataset=str(row.get("dataset") or ""),
        sample=int(sample or 0),
        rater=str(row.get("rater") or ""),
        passed=passed,
        score=score,
        line=line,
    )


_WRONG: Any = object()


def _verdict(value: Any) -> Any:
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


def _check_repeats(labels: tuple[HumanLabel, ...], problems: list[str]) -> None:
    """One person labels an answer once."""
    seen: dict[tuple[str, str, int, str], int] = {}
    for label in labels:
        key = (label.dataset, label.record_id, label.sample, label.rater)
        first = seen.setdefault(key, label.line)
        if first != label.line:
            who = f" of '{label.rater}'" if label.rater else ""
            problems.append(f"{label.line}: a second label{who} for '{label.record_id}'; the first is on line {first}")
