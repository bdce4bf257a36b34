"""Records of several finished runs side by side: a row for each record, a column for each candidate."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat

import msgspec

from assay.core.artifact_lines import PredictionLine
from assay.core.case import Case
from assay.core.contract import INPUT
from assay.core.errors import RunDamaged, RunNotFound
from assay.engine.comparison.alignment import PREDICTIONS, Key, LocatedPrediction, index_by_key, read_predictions
from assay.store.published_run import PublishedRun, decode_case_line, decoded_as

GONE = "its records were removed by retention"


class MatrixColumn(msgspec.Struct, frozen=True, kw_only=True):
    """A candidate and its runs: one, or one for each dataset of a suite."""

    title: str
    """Name of the candidate; of two runs of one candidate over the same records, also the id of the run."""
    candidate: str
    run_ids: tuple[str, ...]


class MatrixRow(msgspec.Struct, frozen=True, kw_only=True):
    """A record, and what each candidate came to."""

    record_id: str
    dataset: str
    sample: int | None
    """Number of the answer where each record has several; None otherwise."""
    case: Case | None
    """What was asked; None where retention has removed it."""
    cells: tuple[PredictionLine | None, ...]
    """One for each column; None where its runs lack the record."""
    is_changed: bool
    """The record has other contents in one of the runs, so that the results are not about the same question."""


class _CellPlace(msgspec.Struct, frozen=True):
    """Place of a prediction, and what rows are ordered by."""

    run: int
    offset: int
    case: int
    passed: bool | None
    score: float | None
    sha256: str


class _Column:
    """Runs of one candidate over different records."""

    def __init__(self, candidate: str) -> None:
        self.candidate = candidate
        self.run_ids: list[str] = []
        self.places: dict[Key, _CellPlace] = {}


class RunMatrix:
    """Matrix of several finished runs; texts are read row by row, so that memory holds ids and scores alone."""

    def __init__(self, runs: Sequence[PublishedRun]) -> None:
        self._runs = list(runs)
        self.left_out: dict[str, str] = {}
        """Runs without a column, each with the reason."""
        columns: list[_Column] = []
        for number, run in enumerate(self._runs):
            try:
                places = dict(_places(run, number))
            except RunNotFound:
                self.left_out[run.manifest.run_id] = GONE
                continue
            _column_for(run.manifest.candidate.name, places, columns).run_ids.append(run.manifest.run_id)
        self.columns = tuple(_titled(columns))
        keys = dict.fromkeys(key for column in columns for key in column.places)
        self._rows = [(key, tuple(column.places.get(key) for column in columns)) for key in keys]
        self.has_samples = any(sample for _, _, sample, _ in keys)

    def __len__(self) -> int:
        """Return the number of records."""
        return len(self._rows)

    @property
    def n_differing(self) -> int:
        """Number of records that some candidates passed and others did not."""
        return sum(_is_differing(cells) for _, cells in self._rows)

    def telling(self, limit: int | None) -> list[int]:
        """Return the positions of the rows that tell most about the candidates, in the order of the dataset.

        First those that only some candidates passed, then those that none passed, then the others; in each the largest difference
        of scores first.
        """
        ranked = sorted(range(len(self._rows)), key=lambda position: (*_rank(self._rows[position][1]), position))
        return sorted(ranked[:limit])

    def rows(self, positions: Iterable[int] | None = None) -> Iterator[MatrixRow]:
        """Read the rows at these positions, or all of them; raises RunNotFound when the artifacts are gone, RunDamaged."""
        chosen = self._rows if positions is None else [self._rows[position] for position in positions]
        firsts = [next(cell for cell in cells if cell is not None) for _, cells in chosen]
        answers: list[list[int]] = [[] for _ in self._runs]
        questions: list[list[int]] = [[] for _ in self._runs]
        for (_, cells), first in zip(chosen, firsts, strict=True):
            questions[first.run].append(first.case)
            for cell in cells:
                if cell is not None:
                    answers[cell.run].append(cell.offset)
        # One reader for each run, which goes through its file from row to row.
        lines = [_lines_at(run, places) for run, places in zip(self._runs, answers, strict=True)]
        cases = [_cases_at(run, places) for run, places in zip(self._runs, questions, strict=True)]
        for ((dataset, record_id, sample, _), cells), first in zip(chosen, firsts, strict=True):
            yield MatrixRow(
                record_id=record_id,
                dataset=dataset,
                sample=sample if self.has_samples else None,
                case=next(cases[first.run]),
                cells=tuple(None if cell is None else next(lines[cell.run]) for cell in cells),
                is_changed=any(cell is not None and cell.sha256 != first.sha256 for cell in cells),
            )


def _places(run: PublishedRun, number: int) -> Iterator[tuple[Key, _CellPlace]]:
    located = list(read_predictions(run))
    # Cases stand in the order of the predictions.
    try:
        offsets: Iterable[int] = [start for start, _ in run.raw_records()]
    except RunNotFound:
        offsets = repeat(-1, len(located))
    cases = dict(zip((one.offset for one in located), offsets, strict=False))
    if len(cases) != len(located):
        raise RunDamaged(f"{run.cases_name} of '{run.path}' has fewer records than {PREDICTIONS}")
    for key, one in index_by_key(located, is_by_id_alone=False).items():
        yield key, _place(one, number, case=cases[one.offset])


def _place(located: LocatedPrediction, number: int, *, case: int) -> _CellPlace:
    found = located.prediction
    return _CellPlace(
        run=number,
        offset=located.offset,
        case=case,
        passed=found.passed if found.is_scored else None,
        score=found.score,
        sha256=found.record_sha256,
    )


def _column_for(candidate: str, places: dict[Key, _CellPlace], columns: list[_Column]) -> _Column:
    """Add predictions to the column of their candidate; of a second run over the same records, to a new one."""
    column = next((one for one in columns if one.candidate == candidate and one.places.keys().isdisjoint(places)), None)
    if column is None:
        column = _Column(candidate)
        columns.append(column)
    column.places |= places
    return column


def _titled(columns: Sequence[_Column]) -> Iterator[MatrixColumn]:
    names = [column.candidate for column in columns]
    for column in columns:
        is_alone = names.count(column.candidate) == 1
        title = column.candidate if is_alone else f"{column.candidate} ({column.run_ids[0]})"
        yield MatrixColumn(title=title, candidate=column.candidate, run_ids=tuple(column.run_ids))


def _is_differing(cells: Sequence[_CellPlace | None]) -> bool:
    """Return True when some candidates passed and others did not, or have no grade."""
    return len({cell.passed for cell in cells if cell is not None}) > 1


def _rank(cells: Sequence[_CellPlace | None]) -> tuple[int, float]:
    scores = [cell.score for cell in cells if cell is not None and cell.score is not None]
    spread = max(scores, default=0.0) - min(scores, default=0.0)
    if _is_differing(cells):
        return 0, -spread
    return 1 if any(cell is not None and not cell.passed for cell in cells) else 2, -spread


def _lines_at(run: PublishedRun, offsets: Sequence[int]) -> Iterator[PredictionLine]:
    # Of a run without a column there is nothing to read, and its artifact may be gone.
    return run.lines_at(PREDICTIONS, PredictionLine, offsets) if offsets else iter(())


def _cases_at(run: PublishedRun, offsets: Sequence[int]) -> Iterator[Case | None]:
    """Read the cases at these byte offsets; None for each where the artifact is gone."""
    if any(offset < 0 for offset in offsets):
        yield from repeat(None, len(offsets))
        return
    path = run.path / run.cases_name
    for line in run.raw_lines_at(run.cases_name, offsets) if offsets else ():
        # In the input of an earlier version each record but the last ends in a comma.
        entry = decoded_as(decode_case_line, line.removesuffix(b",") if run.cases_name == INPUT else line, path)
        yield run.case_of(entry)
