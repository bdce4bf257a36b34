"""Several runs on one page: the candidates, their comparisons, and every record with what each of them answered."""

from collections.abc import Iterator, Sequence

import msgspec

from assay import api
from assay.core.artifact_lines import PredictionLine
from assay.core.errors import AssayError
from assay.presentation.comparison import CORRECTED, pair_table
from assay.presentation.decisions import decision_marks
from assay.presentation.matrix import result_text
from assay.presentation.run import candidate_table, result_cell, shared_mean
from assay.presentation.run_report import sketch_of
from assay.presentation.sections import DecisionView, Table, TextBlock, Timestamp, Tone
from assay.presentation.words import counted, sample_name
from assay.surfaces.pages.page_renderer import FileLinks, PageLinks, PageViewer, page

PAGE_RECORDS = 200
"""Records on the page of a server; a file may have more."""
MAX_COMPARED = 50_000
"""Records of all runs together up to which the page of a server compares them; `assay compare` has no limit."""
MAX_PAIRS = 45
"""Pairs that are compared: those of ten candidates; more take long and are read by nobody."""


class MatrixCellView(msgspec.Struct, frozen=True, kw_only=True):
    """What one candidate came to."""

    candidate: str
    result: str
    tone: Tone | str
    answer: TextBlock | None
    why: str
    link: str = ""


class MatrixRowView(msgspec.Struct, frozen=True, kw_only=True):
    """One record."""

    name: str
    question: TextBlock
    references: tuple[str, ...]
    is_changed: bool
    cells: tuple[MatrixCellView | None, ...]


class CandidateDecisions(msgspec.Struct, frozen=True, kw_only=True):
    """Decisions on one candidate."""

    name: str
    run_id: str
    verdicts: tuple[DecisionView, ...]


class GroupPage(msgspec.Struct, frozen=True, kw_only=True):
    """View of a group."""

    name: str
    summary: str
    candidates: Table
    decisions: tuple[CandidateDecisions, ...]
    pairs: Table | None
    notes: tuple[str, ...]
    columns: tuple[str, ...]
    rows: tuple[MatrixRowView, ...]
    left_out: str
    """What is not on the page; empty when everything is."""
    made: Timestamp | None


def group_page(group: api.RunGroup, *, place: PageLinks, limit: int | None, made: Timestamp | None = None) -> GroupPage:
    """Return the view of a group, with at most so many records: those that tell most. Unfinished runs have no column."""
    views = [sketch_of(run) for run in group.runs]
    matrix = api.run_matrix(group.runs)
    positions = matrix.telling(limit)
    more = len(matrix) - len(positions)
    pairs, notes = _compared(group, place)
    titles = ("candidate", "run", "state", "graded", "errors", "pass rate", shared_mean(views).title, "p95", "cost")
    return GroupPage(
        name=group.name,
        summary=f"{counted(len(views), 'run')} · {counted(len(matrix), 'record')} · {matrix.n_differing:,} on which they differ",
        candidates=candidate_table(views).only(*titles),
        decisions=tuple(
            CandidateDecisions(name=view.name, run_id=view.result.run_id, verdicts=decision_marks(view)) for view in views
        ),
        pairs=pairs,
        notes=(*notes, *(f"{run_id} has no column: {reason}" for run_id, reason in matrix.left_out.items())),
        columns=tuple(column.title for column in matrix.columns),
        rows=tuple(_rows(matrix, positions, group, place)),
        left_out=f"{counted(more, 'record')} on which the candidates differ less" if more else "",
        made=made,
    )


def _compared(group: api.RunGroup, place: PageLinks) -> tuple[Table | None, tuple[str, ...]]:
    """Return the table of the pairs, and what keeps a difference from being the candidates' alone."""
    number = len(group.runs)
    if number < len(("before", "after")):
        return None, ()
    if number * (number - 1) // 2 > MAX_PAIRS:
        return None, (f"{number} runs are too many to compare each with each: assay compare BEFORE AFTER compares two",)
    if place.is_server and sum(run.result.counts.total_records for run in group.runs) > MAX_COMPARED:
        return None, ("the runs are too large to compare them here: assay compare GROUP, or Compare on the page of a run",)
    try:
        found = api.compare_runs(group)
    except AssayError as problem:
        return None, (problem.message,)
    notes = dict.fromkeys([CORRECTED, *(note for pair in found.pairs for note in pair.comparison.notes), *found.skipped])
    return pair_table(found, links=place), tuple(notes)


def _rows(matrix: api.RunMatrix, positions: Sequence[int], group: api.RunGroup, place: PageLinks) -> Iterator[MatrixRowView]:
    runs = {run.result.candidate: run.folders.run_id for run in group.runs}
    for row in matrix.rows(positions):
        question = "" if row.case is None else api.question_of(row.case)
        yield MatrixRowView(
            name=sample_name(row.record_id, row.sample),
            question=TextBlock(title="question", text=question),
            references=() if row.case is None else row.case.references or row.case.correct_choice_ids,
            is_changed=row.is_changed,
            cells=tuple(
                None if line is None else _cell(line, column, runs.get(column.candidate, ""), place)
                for column, line in zip(matrix.columns, row.cells, strict=True)
            ),
        )


def _cell(line: PredictionLine, column: api.MatrixColumn, run_id: str, place: PageLinks) -> MatrixCellView:
    # A column of several runs leads nowhere: the index of a record is one of its own run.
    is_linked = place.is_server and column.run_ids == (run_id,)
    return MatrixCellView(
        candidate=column.title,
        result=result_text(line),
        tone=result_cell(line).tone,
        answer=TextBlock(title="answer", text=line.model_response) if line.model_response else None,
        why=line.error_message or line.justification or "",
        link=place.record(run_id, line.index) if is_linked else "",
    )


class GroupReportFile:
    """Finished runs of a group as one HTML file."""

    def __init__(self, group: api.RunGroup, *, limit: int | None) -> None:
        self.group = group
        self._limit = limit
        self.shown = 0

    def chunks(self, made: Timestamp) -> Iterator[str]:
        """Yield the file."""
        view = group_page(self.group, place=FileLinks(), limit=self._limit, made=made)
        self.shown = len(view.rows)
        yield page("group.html", view, place=FileLinks(), reader=PageViewer())
