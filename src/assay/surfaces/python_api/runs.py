"""Runs for scripts and notebooks: start one, open one, ask it for figures, tables, comparisons and a page."""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

import msgspec

from assay import api
from assay.core.canonical import JsonObject
from assay.core.errors import UsageProblem
from assay.core.run_result import RunResult
from assay.core.runs import RUNS_DIR, RunCounts, State
from assay.core.settings import Gates
from assay.core.summary import GateResult
from assay.core.text import printable
from assay.surfaces.python_api import frames
from assay.surfaces.python_api.figures import Metric, pass_rate_of, score_of
from assay.surfaces.python_api.loop_bridge import run_outside_loop
from assay.surfaces.python_api.progress import shown_progress
from assay.surfaces.reporters.json_document import json_text

RECORDS = 5_000
"""Records that a report has unless told otherwise: it should open at once, and go into a mail."""
Mode = Literal["absolute", "superiority", "non-inferiority"]


class Run:
    """One run: its metrics, its records, and everything that can be made of them; shows itself in a notebook.

    Records are plain values here, as the artifacts have them, so that scripts can pass them on as JSON; `reader` has the structs.
    """

    def __init__(self, reader: api.RunReader) -> None:
        self.reader = reader
        self.folders = reader.folders

    @property
    def run_id(self) -> str:
        """The name of the run, which is that of its folder."""
        return self.folders.run_id

    @property
    def manifest(self) -> JsonObject:
        """The manifest as plain values; of an unfinished run its id, its state and its plan."""
        return self.reader.manifest_members() or {"run_id": self.run_id, "status": self.state, "plan": self.reader.shown_plan}

    @property
    def moments(self) -> JsonObject:
        """When the run was created, started and completed, and every state that it has entered."""
        return self.reader.moments

    @property
    def result(self) -> RunResult:
        """The state of the run, with its counts, metrics and gate."""
        return self.reader.result

    def artifacts(self) -> dict[str, Path]:
        """Return the files of a finished run by name; empty before its end."""
        return self.reader.artifacts()

    @property
    def run_dir(self) -> str:
        """Where the artifacts are; for an unfinished run, where its working state is."""
        return self.result.run_dir

    @property
    def state(self) -> State:
        """`completed`, `completed_with_failures`, `failed`, `cancelled`; anything else is under way or can be resumed."""
        return self.result.state

    @property
    def is_finished(self) -> bool:
        """True when the run has ended and its artifacts are sealed."""
        return self.result.is_finished

    @property
    def candidate(self) -> str:
        """Who was evaluated."""
        return self.result.candidate

    @property
    def counts(self) -> RunCounts:
        """How many records there are, and what became of them."""
        return self.result.counts

    @property
    def metrics(self) -> JsonObject:
        """The metrics summary; empty for a run that has not ended."""
        return self.result.metrics

    @property
    def gate(self) -> GateResult:
        """Whether the run reached what it was started with; `decide` asks for more."""
        return self.result.gate

    @property
    def blocked(self) -> str:
        """Why a provider took no more calls; empty when none refused."""
        return self.result.blocked

    @property
    def problem(self) -> str:
        """Why the run failed before its end; `resume` continues it. Empty for a run that did not."""
        return self.result.problem if self.result.is_resumable else ""

    @property
    def pass_rate(self) -> Metric:
        """The share of graded records that passed, with its interval."""
        return pass_rate_of(self.result.summary)

    @property
    def score(self) -> Metric:
        """The headline of the run's profile; without one, the mean score."""
        return score_of(self.result.summary)

    @property
    def error_rate(self) -> float | None:
        """The share of records without a grade because of an error; None before the end."""
        summary = self.result.summary
        return None if summary is None else summary.error_rate

    @property
    def cost(self) -> float | None:
        """US dollars of all calls with a known price; None where none is known."""
        summary = self.result.summary
        return None if summary is None else summary.cost_usd.sum

    def __iter__(self) -> Iterator[JsonObject]:
        """Iterate over the predictions."""
        return self.predictions()

    def predictions(self, start: int = 0) -> Iterator[JsonObject]:
        """Yield every valid record with what came of it, in order, from the one at `start` on."""
        return map(plain, self.reader.predictions(start))

    def record(self, record_id: str, *, sample: int | None = None) -> JsonObject:
        """Return one record by its id or its index: what was asked, what came of it, every attempt; raises RunNotFound.

        Of a record that was asked several times it is the first answer, or the one with the number `sample`.
        """
        return plain(self.reader.record(record_id, sample=sample))

    def failures(self, start: int = 0) -> Iterator[JsonObject]:
        """Yield every record that ended in an error or did not pass, from the one at `start` on."""
        return map(plain, self.reader.failures(start))

    def worst(self, limit: int) -> list[JsonObject]:
        """Return predictions that were graded and did not pass, the lowest scores first."""
        return list(map(plain, self.reader.worst(limit)))

    def attempts(self, record_id: str) -> Iterator[JsonObject]:
        """Yield every attempt at one record."""
        return map(plain, self.reader.attempts(record_id))

    def disagreements(self) -> list[JsonObject]:
        """Return every criterion on which the judges disagree, with all votes; the largest spread first."""
        return list(map(plain, self.reader.disagreements()))

    def slices(self) -> JsonObject:
        """Return slices by name as in metrics_by_slice.json; empty for an unfinished run."""
        return self.reader.slices()

    def to_dict(self) -> JsonObject:
        """The result as plain values, in the shape of `assay run --json`."""
        return self.result.to_dict()

    def to_arrow(self) -> Any:
        """A `pyarrow.Table` with a row for each valid record; raises MissingExtra."""
        return frames.arrow_table((self.reader,))

    def to_pandas(self) -> Any:
        """A `pandas.DataFrame` with a row for each valid record; raises MissingExtra."""
        return frames.pandas_frame((self.reader,))

    def to_polars(self) -> Any:
        """A `polars.DataFrame` with a row for each valid record; raises MissingExtra."""
        return frames.polars_frame((self.reader,))

    def compare(self, before: "Run | str", *, cluster: str | None = None, max_flips: int | None = 20) -> "Comparison":
        """What changed since another finished run, record by record: differences are this run - that one."""
        found = api.compare(_named(before), self._folder, runs_dir=self.folders.runs_dir, cluster=cluster, max_flips=max_flips)
        return Comparison(**msgspec.structs.asdict(found))

    def decide(
        self, *, baseline: "Run | str" = "", mode: Mode = "absolute", delta: float | None = None, **gates: float
    ) -> api.GateDecision:
        """The verdict on a finished run against thresholds (`pass_rate`, `min_score`, `max_error_rate`) and a baseline.

        The decision is written to the audit log, as `assay gate` does. Raises UsageProblem when there is nothing to decide by.
        """
        unknown = sorted(set(gates) - set(Gates.__struct_fields__))
        if unknown:
            raise UsageProblem(f"unknown threshold '{unknown[0]}'", hint=f"thresholds: {', '.join(Gates.__struct_fields__)}")
        demand = api.GateSpec(mode=mode, delta=delta, gates=Gates(**gates))
        return api.gate(self._folder, demand, runs_dir=self.folders.runs_dir, baseline=_named(baseline))

    def verify(self) -> list[str]:
        """One line for each artifact that is not as it was published; empty when no problem is found."""
        return api.verify(self._folder)

    def resume(self, *, progress: bool | None = None) -> "Run":
        """Go on with a run that has not ended, and give it as it stands then."""
        name, runs_dir = self.run_id, self.folders.runs_dir
        with shown_progress(name, is_wanted=progress) as shown:
            run_outside_loop(
                lambda watch, is_stopping: api.resume(name, runs_dir=runs_dir, watch=watch, is_stopping=is_stopping), shown.watch
            )
        return Run(api.RunReader(self.folders))

    def report(self, path: str | Path, *, records: int | None = RECORDS) -> Path:
        """Write the finished run as one HTML file, as `assay report` does; `records` is how many it has, None for all."""
        if not self.is_finished:
            raise UsageProblem(f"run '{self.run_id}' is unfinished", hint="resume it: run.resume()")
        return _write_report(self, Path(path), records)

    @property
    def _folder(self) -> str:
        """What names the run wherever the caller is; one that has not ended is named by its id."""
        folders = self.folders
        return str(folders.sealed.absolute()) if folders.is_sealed else folders.run_id

    def __repr__(self) -> str:
        parts = [self.run_id, self.state, self.candidate]
        if self.result.summary is not None:
            parts.append(f"pass rate {self.pass_rate}")
        return f"<assay.Run {' · '.join(printable(part, limit=120) for part in parts if part)}>"

    def _repr_html_(self) -> str:
        """The run as a notebook shows it."""
        return _cards([self])


def plain(line: object) -> JsonObject:
    """Convert a struct to the values that its JSON has: lists, never tuples."""
    found: JsonObject = msgspec.json.decode(json_text(line))
    return found


class Runs(tuple[Run, ...]):
    """The runs of one call, one for each candidate; shows itself in a notebook."""

    __slots__ = ()

    def to_arrow(self) -> Any:
        """A `pyarrow.Table` of all runs below each other; raises MissingExtra."""
        return frames.arrow_table([run.reader for run in self])

    def to_pandas(self) -> Any:
        """A `pandas.DataFrame` of all runs below each other; raises MissingExtra."""
        return frames.pandas_frame([run.reader for run in self])

    def to_polars(self) -> Any:
        """A `polars.DataFrame` of all runs below each other; raises MissingExtra."""
        return frames.polars_frame([run.reader for run in self])

    def _repr_html_(self) -> str:
        """The runs as a notebook shows them: one as itself, several beside each other first."""
        return _cards(self)


class Comparison(api.RunComparison, frozen=True, kw_only=True):
    """Two runs record by record; shows itself in a notebook."""

    def __repr__(self) -> str:
        word, reason = import_module("assay.presentation.comparison").conclusion(self)
        return f"<assay.Comparison {printable(f'{self.before.run_id} -> {self.after.run_id}: {word}: {reason}')}>"

    def _repr_html_(self) -> str:
        """The comparison as a notebook shows it."""
        html: str = import_module("assay.surfaces.python_api.cards").comparison_card(self)
        return html


def run(
    source: api.RunRequest | api.PlannedRuns | str | Path,
    *,
    progress: bool | None = None,
    watch: Any = None,
    **options: Any,
) -> Runs:
    """Run a request, a run file or a dataset, one run for each candidate; an unfinished run of the same id goes on.

    `options` are the members of RunRequest; `model` and `judge` may be used for one model each. A notebook shows how it is
    going; a script only with `progress=True`. Interrupted, it waits for the calls in flight and saves the progress.
    """
    name = Path(source).name if isinstance(source, str | Path) else "run"
    with shown_progress(name, is_wanted=progress, watch=watch) as shown:
        results: tuple[RunResult, ...] = run_outside_loop(
            lambda watch, is_stopping: api.run(source, watch=watch, is_stopping=is_stopping, **options), shown.watch
        )
    return Runs(opened(result) for result in results)


async def run_async(source: api.RunRequest | str | Path, **options: Any) -> Runs:
    """As `run`, for callers that have an event loop of their own: the run works in a thread beside it."""
    return Runs(opened(result) for result in await api.run_async(source, **options))


def open_run(run_name: str, *, runs_dir: str | Path = RUNS_DIR) -> Run:
    """A run to look at, by its id, the beginning of one, `latest`, or the path of its folder; raises RunNotFound."""
    return Run(api.open_run(run_name, runs_dir=runs_dir))


def opened(result: RunResult) -> Run:
    """The run that a result is of."""
    place = Path(result.run_dir)
    return open_run(result.run_id, runs_dir=place.parent if result.is_finished else place.parent.parent)


def _named(run: "Run | str") -> str:
    return run if isinstance(run, str) else run._folder


def _cards(runs: Iterable[Run]) -> str:
    html: str = import_module("assay.surfaces.python_api.cards").run_cards([run.reader for run in runs])
    return html


def _write_report(run: Run, path: Path, records: int | None) -> Path:
    streams, pages = import_module("assay.surfaces.cli.streams"), import_module("assay.surfaces.pages.report")
    made = import_module("assay.presentation.words").moment(datetime.now(UTC).isoformat(timespec="seconds"))
    streams.refuse_overwrite(str(path), map(str, run.artifacts().values()), option="path")
    streams.check_writable(str(path), option="path")
    report = pages.ReportFile(run.reader, limit=records)
    streams.write_file(str(path), streams.encoded(report.chunks(made, lambda *_: None)))
    return path
