"""Records by candidate: what each candidate answered and came to, and the records of a run that did not pass."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence

import msgspec

from assay import api
from assay.core.artifact_lines import PredictionLine
from assay.core.canonical import JsonObject
from assay.presentation.run import CANDIDATE_LIMIT, ID_LIMIT, result_cell, score_of
from assay.presentation.run_report import failure_reason
from assay.presentation.sections import Cell, Column, Section, Table
from assay.presentation.words import ERROR, UNKNOWN, counted, cut, one_line, record_score, sample_name

MAX_ROWS = 20
"""Records of a matrix in a terminal or a comment unless all are asked for: as many as a golden dataset has."""
ANSWER_LIMIT = 40
"""Characters of an answer in a terminal's matrix; --verbose shows more."""
VERBOSE_LIMIT = 400
QUESTION_LIMIT, WHY_LIMIT = 80, 160
CHANGED = "a record with other contents in one of the runs is marked *"


def matrix_section(matrix: api.RunMatrix, *, is_verbose: bool = False, limit: int = MAX_ROWS) -> Section:
    """Return a row for each record with the score and the answer of each candidate; of many records those that tell most."""
    positions = matrix.telling(None if is_verbose else limit)
    table = matrix_table(matrix, positions, text_limit=VERBOSE_LIMIT if is_verbose else ANSWER_LIMIT)
    omitted = len(matrix) - len(positions)
    more = f"… and {counted(omitted, 'more record')} on which the candidates differ less (--verbose lists all)" if omitted else ""
    left_out = tuple(f"{run_id} has no column: {reason}" for run_id, reason in matrix.left_out.items())
    table = msgspec.structs.replace(table, note="; ".join(filter(None, (more, table.note))))
    return Section(title="Records by candidate", tables=(table,), notes=left_out)


def matrix_table(matrix: api.RunMatrix, positions: Sequence[int], *, text_limit: int) -> Table:
    """Return the rows at these positions; a cell has the score, the result and the answer."""
    rows = [(_name(row), *(_cell(line, text_limit) for line in row.cells)) for row in matrix.rows(positions)]
    note = CHANGED if any(name.text.endswith("*") for name, *_ in rows) else ""
    columns = (
        Column("record", is_name=True, limit=ID_LIMIT),
        *(Column(cut(column.title, CANDIDATE_LIMIT)) for column in matrix.columns),
    )
    return Table(title="Records by candidate", columns=columns, rows=tuple(rows), note=note)


def _name(row: api.MatrixRow) -> Cell:
    return Cell(sample_name(row.record_id, row.sample) + (" *" if row.is_changed else ""))


def _cell(line: PredictionLine | None, text_limit: int) -> Cell:
    if line is None:
        return Cell(UNKNOWN)
    found = result_cell(line)
    return Cell(result_text(line), tone=found.tone, detail=cut(one_line(line.model_response or ""), text_limit))


def result_text(line: PredictionLine) -> str:
    """Return `4 passed`, or `error timeout`."""
    found = result_cell(line)
    return f"{score_of(line)} {found.text}" if line.error_code is None else f"{found.text} {line.error_code}"


# Exports


def matrix_document(row: api.MatrixRow, columns: Sequence[api.MatrixColumn]) -> JsonObject:
    """Return a row as plain values: the question, what is right, and a member of `results` for each candidate that has it."""
    case = row.case
    results = {
        column.title: {
            "status": line.status,
            "passed": line.passed,
            "score": line.score,
            "raw_score": line.raw_score,
            "scale": line.scale,
            "label": line.label,
            "answer": line.model_response,
            "justification": line.justification,
            "error_code": line.error_code,
            **({"checks": {check.name: check.passed for check in line.checks}} if line.checks else {}),
        }
        for column, line in zip(columns, row.cells, strict=True)
        if line is not None
    }
    return {
        "record_id": row.record_id,
        "dataset": row.dataset,
        **({} if row.sample is None else {"sample": row.sample}),
        "question": None if case is None else api.question_of(case) or None,
        "references": [] if case is None else list(case.references),
        "correct_choice_ids": [] if case is None else list(case.correct_choice_ids),
        **({"is_changed": True} if row.is_changed else {}),
        "results": results,
    }


# Records that did not pass


class UnpassedRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A record that did not pass, or ended in an error."""

    record_id: str | None
    """None for an invalid record without an id."""
    index: int
    dataset: str = ""
    sample: int | None = None
    kind: str
    """`not_passed` or `error`."""
    reason: str
    """What is wrong with the answer, or the code of the error."""
    score: float | None = None
    raw_score: float | None = None
    scale: str | None = None
    question: str = ""
    answer: str | None = None
    why: str = ""
    """What the judge says, or the message of the error."""


def unpassed_records(run: api.RunReader, *, kinds: Collection[str], reason: str = "") -> Iterator[UnpassedRecord]:
    """Yield the records of these kinds in order, only those with a reason where one is named."""
    found = (line for line in run.failures() if line.kind in kinds)
    failures = {line.index: line for line in found if reason in ("", failure_reason(line), line.code)}
    if not failures:
        return
    for line, case in run.pairs():
        failure = failures.pop(line.index, None)
        if failure is None:
            continue
        is_error = failure.kind == "error"
        yield UnpassedRecord(
            record_id=line.record_id,
            index=line.index,
            dataset=line.dataset,
            sample=line.sample if isinstance(line.sample, int) else None,
            kind=failure.kind,
            reason=failure_reason(failure),
            score=line.score,
            raw_score=line.raw_score,
            scale=line.scale,
            question=api.question_of(case),
            answer=line.model_response,
            why=failure.message if is_error else line.justification or failure.message,
        )
    # What is left broke its contract, and was never asked.
    for index, failure in sorted(failures.items()):
        yield UnpassedRecord(
            record_id=failure.record_id, index=index, kind=failure.kind, reason=failure_reason(failure), why=failure.message
        )


def unpassed_reasons(run: api.RunReader, *, kinds: Collection[str]) -> list[str]:
    """Return the reasons of a run, the most frequent first."""
    return [reason for reason, _ in Counter(failure_reason(line) for line in run.failures() if line.kind in kinds).most_common()]


def unpassed_section(run: api.RunReader, records: Sequence[UnpassedRecord], *, is_verbose: bool = False) -> Section:
    """Return a row for each record: what was asked and answered, the score, and why it did not pass."""
    limits = (0, 0) if is_verbose else (QUESTION_LIMIT, WHY_LIMIT)
    columns = (
        Column("record", is_name=True, limit=ID_LIMIT),
        Column("score", is_number=True),
        Column("reason"),
        Column("question", limit=limits[0]),
        Column("answer", limit=limits[0]),
        Column("why", limit=limits[1]),
    )
    result = run.result
    heading = (Cell(result.run_id), Cell(result.candidate), Cell(counted(len(records), "record")))
    table = Table(title="Records that did not pass", columns=columns, rows=tuple(map(_unpassed_row, records)))
    return Section(title="Records that did not pass", heading=heading, tables=(table,) if records else ())


def _unpassed_row(found: UnpassedRecord) -> tuple[Cell, ...]:
    is_error = found.kind == "error"
    name = f"record {found.index}" if found.record_id is None else sample_name(found.record_id, found.sample)
    return (
        Cell(name),
        Cell(record_score(found.raw_score, found.scale or "")),
        Cell(f"{ERROR} {found.reason}" if is_error else found.reason, tone="warn" if is_error else "bad"),
        Cell(one_line(found.question)),
        Cell(one_line(found.answer or "")),
        Cell(one_line(found.why)),
    )
