"""Runs for scripts and notebooks: start one, open one, ask it for figures, tables, comparisons and a page."""

from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, TypedDict, Unpack

import msgspec

from assay import api
from assay.core.canonical import JsonObject, json_text
from assay.core.errors import UsageProblem
from assay.core.run_result import RunResult
from assay.core.runs import RUNS_DIR, RunCounts, State
from assay.core.settings import Gates
from assay.core.summary import GateResult, MetricValue, Summary
from assay.core.text import printable
from assay.presentation.words import decimal, ends_of, rate, with_interval
from assay.surfaces.python_api import frames
from assay.surfaces.python_api.loop_bridge import run_outside_loop
from assay.surfaces.python_api.progress import shown_progress
from assay.surfaces.python_api.run_keywords import RunKeywords


class GateKeywords(TypedDict, total=False):
    """Thresholds as keyword arguments."""

    pass_rate: float | None
    min_score: float | None
    max_error_rate: float | None
    max_truncated: float | None
    min_tool_calls: float | None


RECORDS = 5_000
"""Default maximum of records in a report: it should open at once, and fit into a mail."""
MAX_NAME = 200
"""Characters of a path whose file is named while it runs."""
Mode = Literal["absolute", "superiority", "non-inferiority"]


class Metric(msgspec.Struct, frozen=True, kw_only=True):
    """A number with its 95 % interval; what is not known is None, never 0."""

    value: float | None
    low: float | None
    high: float | None
    n: int
    """Records that it rests on."""
    scale: str = "0-1"
    is_rate: bool = False
    """A share of records, which is shown as a percentage."""

    def __str__(self) -> str:
        ends = None if self.low is None or self.high is None else (self.low, self.high)
        return with_interval(self.value, ends, rate if self.is_rate else decimal)


def pass_rate_of(metrics: Summary | None) -> Metric:
    """Return the pass rate of a run, with the interval that accounts for clusters if it has some."""
    return _NONE if metrics is None else _metric(metrics.pass_rate_metric, is_rate=True)


def score_of(metrics: Summary | None) -> Metric:
    """Return the score of a run: the headline of its profile, or else the mean, with mixed scales normalized to 0-1."""
    if metrics is None:
        return Metric(value=None, low=None, high=None, n=0)
    if metrics.profile is not None:
        return _metric(metrics.profile.metric, scale=metrics.profile.scale)
    if metrics.scale is not None:
        return _metric(metrics.raw_score_mean_metric, scale=metrics.scale)
    return _metric(metrics.score_mean_metric)


# Where clusters were declared, the metric carries the interval over them.
def _metric(found: MetricValue, *, scale: str = "0-1", is_rate: bool = False) -> Metric:
    low, high = ends_of(found.interval) or (None, None)
    return Metric(value=found.value, low=low, high=high, n=found.n, scale=scale, is_rate=is_rate)


_NONE = Metric(value=None, low=None, high=None, n=0, is_rate=True)


class Run:
    """One run: its metrics, its records, and everything that can be made of them; shows itself in a notebook.

    Records are plain values here, as the artifacts have them, so that scripts can pass them on as JSON; `reader` has the structs.
    """

    def __init__(self, reader: api.RunReader) -> None:
        self.reader = reader
        self.folders = reader.folders

    @property
    def run_id(self) -> str:
        """Id of the run, and name of its folder."""
        return self.folders.run_id

    @property
    def manifest(self) -> JsonObject:
        """Manifest as plain values; id, state and plan of an unfinished run."""
        return self.reader.manifest_members() or {"run_id": self.run_id, "status": self.state, "plan": self.reader.plan_members}

    @property
    def moments(self) -> JsonObject:
        """When the run was created, started and completed, and every state that it has entered."""
        return self.reader.moments

    @property
    def result(self) -> RunResult:
        """State of the run, with its counts, metrics and gate."""
        return self.reader.result

    def artifacts(self) -> dict[str, Path]:
        """Return the files of a finished run by name; empty before its end."""
        return self.reader.artifacts()

    @property
    def run_dir(self) -> str:
        """Folder of the artifacts; for an unfinished run, of its working state."""
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
        """Name of the candidate."""
        return self.result.candidate

    @property
    def counts(self) -> RunCounts:
        """Numbers of records by their results."""
        return self.result.counts

    @property
    def metrics(self) -> JsonObject:
        """Metrics summary; empty for an unfinished run."""
        return self.result.metrics

    @property
    def gate(self) -> GateResult:
        """Result of the gates that the run was started with; `decide` checks others."""
        return self.result.gate

    @property
    def blocked(self) -> str:
        """Reason why a provider refused further calls; empty if none did."""
        return self.result.blocked

    @property
    def problem(self) -> str:
        """Reason why the run failed before its end, empty if it did not; `resume` continues it."""
        return self.result.problem if self.result.is_resumable else ""

    @property
    def pass_rate(self) -> Metric:
        """Share of graded records that passed, with its interval."""
        return pass_rate_of(self.result.summary)

    @property
    def score(self) -> Metric:
        """Headline of the run's profile; without a profile, the mean score."""
        return score_of(self.result.summary)

    @property
    def error_rate(self) -> float | None:
        """Share of records with an error; None before the end."""
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

    def records(self) -> Iterator[JsonObject]:
        """Yield a row for each valid record, as an export has it: what was asked, what is right, the answer and its grade."""
        return map(plain, api.table_rows(self.reader))

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
        """Convert the result to plain values, in the shape of `assay run --json`."""
        return self.result.to_dict()

    def to_arrow(self) -> Any:
        """Build a `pyarrow.Table` with a row for each valid record; raises MissingExtra."""
        return frames.arrow_table((self.reader,))

    def to_pandas(self) -> Any:
        """Build a `pandas.DataFrame` with a row for each valid record; raises MissingExtra."""
        return frames.pandas_frame((self.reader,))

    def to_polars(self) -> Any:
        """Build a `polars.DataFrame` with a row for each valid record; raises MissingExtra."""
        return frames.polars_frame((self.reader,))

    def compare(self, before: "Run | str", *, cluster: str | None = None, max_flips: int | None = 20) -> "Comparison":
        """Compare this run with another finished one, record by record; differences are this run - the other one."""
        found = api.compare(_named(before), self._folder, runs_dir=self.folders.runs_dir, cluster=cluster, max_flips=max_flips)
        # The comparison of this surface: the same members, and it shows itself.
        return Comparison(**msgspec.structs.asdict(found))

    def decide(
        self,
        *,
        baseline: "Run | str" = "",
        mode: Mode = "absolute",
        delta: float | None = None,
        **gates: Unpack[GateKeywords],
    ) -> api.GateDecision:
        """Check the finished run against thresholds and a baseline.

        The decision is written to the audit log, as `assay gate` does. Raises UsageProblem when there is nothing to decide by.
        """
        unknown = sorted(set(gates) - set(Gates.__struct_fields__))
        # A misspelt threshold would silently demand nothing.
        if unknown:
            raise UsageProblem(f"unknown threshold '{unknown[0]}'", hint=f"thresholds: {', '.join(Gates.__struct_fields__)}")
        demand = api.GateSpec(mode=mode, delta=delta, gates=msgspec.convert(gates, Gates))
        return api.gate(self._folder, demand, runs_dir=self.folders.runs_dir, baseline=_named(baseline))

    def verify(self) -> list[str]:
        """List the artifacts that differ from what was published, one line each; empty when none does."""
        return api.verify(self._folder)

    def resume(self, *, progress: bool | None = None) -> "Run":
        """Resume an unfinished run and return it."""
        name, runs_dir = self.run_id, self.folders.runs_dir
        with shown_progress(name, is_wanted=progress) as shown:
            run_outside_loop(
                lambda watch, is_stopping: api.resume(name, runs_dir=runs_dir, watch=watch, is_stopping=is_stopping), shown.watch
            )
        # Opened again: the folder was moved at the end of the run.
        return Run(api.RunReader(self.folders))

    def report(self, path: str | Path, *, records: int | None = RECORDS) -> Path:
        """Write the finished run as one HTML file, as `assay report` does; `records` is how many it has, None for all."""
        if not self.is_finished:
            raise UsageProblem(f"run '{self.run_id}' is unfinished", hint="resume it: run.resume()")
        return _write_report(self, Path(path), records)

    @property
    def _folder(self) -> str:
        """Path of the run's folder, valid in any working directory; the id of an unfinished run."""
        folders = self.folders
        return str(folders.sealed.absolute()) if folders.is_sealed else folders.run_id

    def __repr__(self) -> str:
        parts = [self.run_id, self.state, self.candidate]
        if self.result.summary is not None:
            parts.append(f"pass rate {self.pass_rate}")
        return f"<assay.Run {' · '.join(printable(part, limit=120) for part in parts if part)}>"

    def _repr_html_(self) -> str:
        """Render the run for a notebook."""
        return _cards([self])


def plain(line: object) -> JsonObject:
    """Convert a struct to the values that its JSON has: lists, never tuples."""
    # By way of JSON, so that a value is the same as one that was read from the artifact.
    found: JsonObject = msgspec.json.decode(json_text(line))
    return found


class Runs(tuple[Run, ...]):
    """Runs of one call or one group, one for each candidate; shows itself in a notebook."""

    __slots__ = ()

    @property
    def group(self) -> str:
        """Common name of the runs, by which `open_group` and the commands find them; empty for one run without a group."""
        names = {str(run.reader.plan.group or "") for run in self}
        return names.pop() if len(names) == 1 else ""

    def matrix(self) -> list[JsonObject]:
        """Return a row for each record: the question, what is right, and in `results` what each candidate came to."""
        found = api.run_matrix([run.reader for run in self])
        document = import_module("assay.presentation.matrix").matrix_document
        return [plain(document(row, found.columns)) for row in found.rows()]

    def compare(self, *, cluster: str | None = None) -> api.GroupComparison:
        """Compare the finished runs in pairs; their p values are corrected for the number of pairs (Holm)."""
        return api.compare_runs(api.RunGroup(self.group or "runs", tuple(run.reader for run in self)), cluster=cluster)

    def to_arrow(self) -> Any:
        """Build a `pyarrow.Table` of all runs below each other; raises MissingExtra."""
        return frames.arrow_table([run.reader for run in self])

    def to_pandas(self) -> Any:
        """Build a `pandas.DataFrame` of all runs below each other; raises MissingExtra."""
        return frames.pandas_frame([run.reader for run in self])

    def to_polars(self) -> Any:
        """Build a `polars.DataFrame` of all runs below each other; raises MissingExtra."""
        return frames.polars_frame([run.reader for run in self])

    def _repr_html_(self) -> str:
        """Render the runs for a notebook: one as itself, several with a comparison of the candidates first."""
        return _cards(self)


class Comparison(api.RunComparison, frozen=True, kw_only=True):
    """Two runs record by record; shows itself in a notebook."""

    def __repr__(self) -> str:
        word, reason = import_module("assay.presentation.comparison").conclusion(self)
        return f"<assay.Comparison {printable(f'{self.before.run_id} -> {self.after.run_id}: {word}: {reason}')}>"

    def _repr_html_(self) -> str:
        """Render the comparison for a notebook."""
        html: str = import_module("assay.surfaces.python_api.cards").comparison_card(self)
        return html


def run(
    source: object = None,
    *,
    progress: bool | None = None,
    watch: Callable[[api.Snapshot], None] | None = None,
    **options: Unpack[RunKeywords],
) -> Runs:
    """Run a dataset or a run file, one run for each candidate; an unfinished run of the same id is resumed.

    The source is a path, or data: a list of dicts, a document, bytes, a DataFrame, an Arrow table or a dataset of Hugging Face.
    `model` and `judge` are names, functions, async functions, or lists of them. A notebook shows how it is going; a script only
    with `progress=True`. Interrupted, it waits for the calls in flight and saves the progress. A wrong source or option raises
    an AssayError that says what to do.
    """
    name = Path(source).name if isinstance(source, str | Path) and len(str(source)) <= MAX_NAME else "run"
    given = _with_keywords(source, options)
    own_stop = given.pop("is_stopping", None)
    with shown_progress(name, is_wanted=progress, watch=watch) as shown:
        results: tuple[RunResult, ...] = run_outside_loop(
            lambda watch, is_stopping: api.run(source, watch=watch, is_stopping=_either(own_stop, is_stopping), **given),
            shown.watch,
        )
    return Runs(opened(result) for result in results)


async def run_async(
    source: object = None, *, watch: Callable[[api.Snapshot], None] | None = None, **options: Unpack[RunKeywords]
) -> Runs:
    """Do what `run` does, for callers with an event loop: the run works in a thread."""
    return Runs(opened(result) for result in await api.run_async(source, watch=watch, **_with_keywords(source, options)))


def _either(first: Callable[[], bool] | None, second: Callable[[], bool] | None) -> Callable[[], bool] | None:
    """Return a function that is true when one of the two is; what is no function is returned, for the error about it."""
    if first is None or second is None or not callable(first):
        return second if first is None else first
    return lambda: first() or second()


def _with_keywords(source: object, options: RunKeywords) -> dict[str, Any]:
    """Return the options of a call, with problems named by its keyword arguments."""
    given: dict[str, Any] = {**options}
    return given if isinstance(source, api.RunRequest | api.PlannedRuns) else {**given, "has_keywords": True}


def open_run(run_name: str, *, runs_dir: str | Path = RUNS_DIR) -> Run:
    """Open a run by its id, a unique prefix of it, `latest`, or the path of its folder; raises RunNotFound."""
    return Run(api.open_run(run_name, runs_dir=runs_dir))


def open_group(name: str, *, runs_dir: str | Path = RUNS_DIR) -> Runs:
    """Open the runs that were started together by their common name, or one run as `open_run` does; raises RunNotFound."""
    return Runs(map(Run, api.open_group(name, runs_dir=runs_dir).runs))


def opened(result: RunResult) -> Run:
    """Open the run of a result."""
    place = Path(result.run_dir)
    # Unfinished runs are one level deeper, in `.active`.
    return open_run(result.run_id, runs_dir=place.parent if result.is_finished else place.parent.parent)


def _named(run: "Run | str") -> str:
    return run if isinstance(run, str) else run._folder


def _cards(runs: Iterable[Run]) -> str:
    html: str = import_module("assay.surfaces.python_api.cards").run_cards([run.reader for run in runs])
    return html


def _write_report(run: Run, path: Path, records: int | None) -> Path:
    # Loaded here: most scripts write no report.
    streams, pages = import_module("assay.surfaces.cli.streams"), import_module("assay.surfaces.pages.report")
    made = import_module("assay.presentation.words").moment(datetime.now(UTC).isoformat(timespec="seconds"))
    streams.refuse_overwrite(str(path), map(str, run.artifacts().values()), option="path")
    streams.check_writable(str(path), option="path")
    report = pages.ReportFile(run.reader, limit=records)
    streams.write_file(str(path), streams.encoded(report.chunks(made, lambda *_: None)))
    return path
