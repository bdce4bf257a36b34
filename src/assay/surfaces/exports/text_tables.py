"""Records as CSV that no spreadsheet evaluates, and predictions as JSON and JSON Lines."""

import csv
import io
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import TypeVar

import msgspec

from assay.api import RecordTable, RunReader, StoredDataset, filled_eval_run, run_table
from assay.core.artifact_lines import ResponseLine, made_calls
from assay.core.canonical import json_text, pretty_json
from assay.core.errors import UsageProblem
from assay.core.tools import ToolCallResults
from assay.presentation.words import counted

Row = TypeVar("Row")


def _nobody(done: int) -> None:
    pass


class ExportProgress:
    """Counts the records that are done, and keeps what had to be changed or left out, in words."""

    def __init__(self, watch: Callable[[int], None] = _nobody) -> None:
        self.notes: list[str] = []
        self.left_out = 0
        """Records that were not written, because they have nothing to write."""
        self.watch = watch

    def counted(self, rows: Iterable[Row]) -> Iterator[Row]:
        """Yield the same rows; each is counted when it is done."""
        for number, row in enumerate(rows, 1):
            yield row
            self.watch(number)


GUARD = "'"
"""Goes before a text that a spreadsheet might evaluate, and before one that begins with it: removing it gives the text."""
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "|", "%", GUARD, "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""What makes a spreadsheet evaluate a cell, or hide its first character."""
MARK = b"\xef\xbb\xbf"
"""Byte order mark, by which Excel knows UTF-8."""

_UNSEEN = "ZC"
"""Categories of characters (separators; controls, formats and others) that a spreadsheet may pass over before it evaluates."""


def csv_chunks(run: RunReader, progress: ExportProgress) -> Iterator[bytes]:
    """Yield the records of a run."""
    return table_csv(run_table(run), progress)


def table_csv(table: RecordTable, progress: ExportProgress) -> Iterator[bytes]:
    """Yield a line of names, and one for each row; lists and objects are cells of JSON."""
    rows = ([cell(row[name]) for name in table.columns] for row in progress.counted(table.rows()))
    # The first line is read before anything is sent: what cannot be read can then still be said.
    first = list(islice(rows, 1))
    yield _text([table.columns, *first])
    for row in rows:
        yield _text([row])


def _text(rows: Iterable[Iterable[object]]) -> bytes:
    text = io.StringIO()
    # RFC 4180 ends lines with CRLF, and spreadsheets expect it.
    csv.writer(text, lineterminator="\r\n").writerows(rows)
    # A lone surrogate cannot be encoded.
    return text.getvalue().encode("utf-8", "replace")


def cell(value: object) -> object:
    """Return a value as a cell: numbers stay numbers, what is not known is empty, and no text is evaluated."""
    if value is None:
        return ""
    # Before the number: a bool is an int in Python.
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return value
    text = value if isinstance(value, str) else json_text(value)
    if text[:1].isalnum():
        # Most texts: a letter or a digit is seen, and begins no formula.
        return text
    return GUARD + text if text.startswith(FORMULA) or _is_hidden_formula(text) else text


def _is_hidden_formula(text: str) -> bool:
    # Some spreadsheets trim spaces and invisible characters before they look for a formula.
    seen = next((character for character in text if unicodedata.category(character)[0] not in _UNSEEN), "")
    return seen in FORMULA


class _AnswerLine(msgspec.Struct):
    """Members of a prediction that make a response."""

    record_id: str
    candidate_name: str
    model_response: str | None
    sample: int | msgspec.UnsetType = msgspec.UNSET
    tool_calls: ToolCallResults | msgspec.UnsetType = msgspec.UNSET


def json_chunks(run: RunReader, progress: ExportProgress) -> Iterator[bytes]:
    """Yield one document with the lines of predictions.jsonl."""
    yield b'{"records":['
    for number, line in enumerate(progress.counted(run.predictions())):
        yield (b",\n" if number else b"\n") + json_text(line).encode()
    yield b"\n]}\n"


def json_lines_chunks(run: RunReader, progress: ExportProgress) -> Iterator[bytes]:
    """Yield the lines of predictions.jsonl."""
    for line in progress.counted(run.predictions()):
        yield json_text(line).encode() + b"\n"


def table_json_lines(table: RecordTable, progress: ExportProgress) -> Iterator[bytes]:
    """Yield a line for each row of a table."""
    for row in progress.counted(table.rows()):
        yield json_text(row).encode() + b"\n"


def eval_results_chunks(run: RunReader, progress: ExportProgress) -> Iterator[bytes]:
    """golden_v1's EvalRun with a score for every case: 1, not passed, where a case errored."""
    found = filled_eval_run(run)
    filled = found["filled_in"]
    if filled:
        progress.notes.append(f"{counted(len(filled), 'case')} with an error: score 1 and passed false stand for no score")
    # golden_v1 has no null for these members, so a run of errors alone would otherwise read like a bad one.
    if len(filled) == len(found["results"]):
        progress.notes.append("no case has a score: pass_rate 0 and average_score 1 stand for undefined figures")
    yield pretty_json(found)


def dataset_chunks(run: RunReader, progress: ExportProgress) -> Iterator[bytes]:
    """Yield the dataset that the run has stored, in its own contract."""
    stored = StoredDataset(run)
    if stored.options:
        progress.notes.append(f"validate and run the file with {' and '.join(stored.options)}, as this run needed")
    return stored.chunks()


def responses_chunks(run: RunReader, progress: ExportProgress) -> Iterator[bytes]:
    """Yield the answers, as `assay run --responses` and other runners take them: a row for each record that has one."""
    for line in _answered(run, progress):
        row = ResponseLine(line.record_id, line.candidate_name, line.model_response or "", line.sample, made_calls(line))
        yield json_text(msgspec.to_builtins(row)).encode() + b"\n"


def response_object_chunks(run: RunReader, progress: ExportProgress) -> Iterator[bytes]:
    """Yield the answers of the one candidate as one object of record id and text; raises UsageProblem where ids are not enough."""
    seen: set[str] = set()
    for line in _answered(run, progress):
        name = line.record_id
        # An object has one value for each name; a second answer would silently replace the first.
        if name in seen:
            raise UsageProblem(
                f"record '{name}' has several answers, and an object holds one for each id", hint="write rows: -o answers.jsonl"
            )
        yield (b",\n" if seen else b"{\n") + json_text(name).encode() + b":" + json_text(line.model_response).encode()
        seen.add(name)
    yield b"\n}\n" if seen else b"{}\n"


def _answered(run: RunReader, progress: ExportProgress) -> Iterator[_AnswerLine]:
    """Yield the predictions that have an answer; note the others, and what was redacted."""
    for line in progress.counted(run.predictions_as(_AnswerLine)):
        if line.model_response is None:
            progress.left_out += 1
        else:
            yield line
    if progress.left_out:
        progress.notes.append(f"left out: {counted(progress.left_out, 'record')} without an answer")
    # Candidates answered the original text; graded elsewhere, a redacted answer may come out otherwise.
    redacted = sum(run.run_manifest.redactions.values())
    if redacted:
        progress.notes.append(f"redacted in the run: {counted(redacted, 'text')}; answers among them may be graded differently")
