"""Datasets of markers into tests: which records, one run for all of them, and what each test makes of its record."""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from hashlib import sha256
from itertools import chain, count
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from assay import api
from assay.core.artifact_lines import PredictionLine, RecordDetails
from assay.core.errors import AssayError, UsageProblem
from assay.core.report import ValidationReport
from assay.core.settings import Gates
from assay.core.text import printable, printable_lines
from assay.presentation.decisions import decision_note, decisions
from assay.presentation.run_report import RunReport
from assay.presentation.words import cost_text, counted, error_text, record_score
from assay.surfaces.cli.progress import LINE_EVERY, Throughput, plain_line
from assay.surfaces.python_api.runs import Run, open_run, plain, run

NAME = 100
"""Characters of an id that name a test; a longer one is identified by its hash."""
TEXT = 2_000
"""Characters of a text that a failure shows."""
MAX_PROBLEMS = 500
"""Problems of a dataset that are listed."""
_PATHS = ("responses", "config")
"""Options that name a file."""
Say = Callable[[str], None]
RunInTest = Callable[..., Run]
_CASE = pytest.StashKey["RecordCase"]()


class CaseKey(NamedTuple):
    """Record that a test is about."""

    record_id: str
    sample: int | None = None
    """Number of the answer, if each record has several."""

    @property
    def name(self) -> str:
        """Text in the brackets of a test's name; pytest escapes unprintable characters."""
        name = self.record_id
        if len(name) > NAME:
            name = f"{name[: NAME - 9]}~{sha256(name.encode()).hexdigest()[:8]}"
        return name if self.sample is None else f"{name}#{self.sample}"


class RecordCase(msgspec.Struct, frozen=True, kw_only=True):
    """A record with its answer and its grade, as a test sees it."""

    id: str
    sample: int | None
    """Number of the answer, if the record has several; else None."""
    question: str
    record: dict[str, Any]
    """Record of the dataset, redacted like the artifacts."""
    answer: str
    score: float
    """0..1 over all criteria."""
    raw_score: float
    """On the scale of the dataset."""
    scale: str
    passed: bool
    justification: str
    label: str
    """Kind of failure; empty for none."""
    prediction: dict[str, Any]
    """Everything else that is known of the answer: votes, tokens, times, cost."""
    run: Run


class MarkerTests(msgspec.Struct):
    """Tests of one marker."""

    source: str
    options: dict[str, Any]
    keys: tuple[CaseKey, ...]
    has_gates: bool
    """True when gates decide about the run as a whole, and not about single records."""
    run_id: str
    selected: tuple[CaseKey, ...] = ()
    """Those that are left after every choice of the command line."""
    outcome: Run | str | None = None
    """Run, or the error that prevented it; None before the first test."""

    @property
    def is_whole(self) -> bool:
        """True when every record is evaluated."""
        return set(self.selected) == set(self.keys)


class CaseRuns:
    """Runs of one session of pytest, shared by all workers of xdist; the first worker that needs a run makes it."""

    def __init__(self, runs_dir: Path, session: str, *, root: Path, say: Say | None = None) -> None:
        self._runs_dir = runs_dir
        self._session = session
        self._root = root
        self._say = say
        self._groups: dict[str, MarkerTests] = {}
        self._calls = 0

    def keys(self, function: pytest.Item, mark: pytest.Mark) -> tuple[CaseKey, ...]:
        """List the records for a marked function; raises CollectError with every problem."""
        try:
            if sum(own.name == mark.name for own in function.own_markers) > 1:
                raise UsageProblem("it has two markers, and a test is about one dataset", hint="write a function for each")
            source, options = self._settings(mark, function.path.parent)
            # Planned at collection, so that problems with the dataset are errors of collection and no test
            # begins.
            listed = api.list_records(source, **options)
        except AssayError as problem:
            raise pytest.Collector.CollectError(_complaint(function.name, problem)) from problem
        keys = tuple(CaseKey(record.record_id, record.sample) for record in listed.records)
        if not keys:
            raise pytest.Collector.CollectError(f"{function.name}: no records selected from '{printable(source)}'")
        place = _place(function)
        self._groups[place] = MarkerTests(source, options, keys, listed.gates != Gates(), self._run_id(place))
        return keys

    def _settings(self, mark: pytest.Mark, folder: Path) -> tuple[str, dict[str, object]]:
        options = dict(mark.kwargs)
        sources = [*mark.args, *([options.pop("dataset")] if "dataset" in options else [])]
        if len(sources) != 1:
            raise UsageProblem("the marker needs one dataset", hint='@pytest.mark.assay("cases.json", model=...)')
        taken = sorted({"run_id", "runs_dir", "records"} & set(options))
        if taken:
            raise UsageProblem(f"{taken[0]} is pytest's to choose", hint="leave it out; --assay-runs-dir names the folder")
        options |= {name: self._found(options[name], folder) for name in _PATHS if name in options}
        # A test about an invalid record would have nothing to test, so the default is to refuse the dataset.
        return self._found(sources[0], folder), {"on_invalid": "reject", **options}

    def _found(self, path: str | Path, folder: Path) -> str:
        """Find a file next to the test, else below the rootdir."""
        places = [folder / path, self._root / path]
        return str(next((place for place in places if place.exists()), places[0]))

    def _run_id(self, place: str) -> str:
        # The hash keeps two functions of one name in different files apart.
        return f"{self._session}-{_slug(place)}-{sha256(place.encode()).hexdigest()[:6]}"

    def gate_items(self, collector: pytest.Collector, first: pytest.Item) -> Iterator[pytest.Item]:
        """Make a test of the whole run if the marker sets gates."""
        group = self._groups.get(_place(first))
        if group is not None and group.has_gates:
            taken = {key.name for key in group.keys}
            # A record may be called `gate`.
            free = next(name for name in chain(("gate",), (f"gate-{number}" for number in count(2))) if name not in taken)
            name = f"{getattr(first, 'originalname', first.name)}[{free}]"
            item: GateItem = GateItem.from_parent(collector, name=name, runs=self, group=group)
            item.own_markers.extend(first.own_markers)
            yield item

    def select(self, items: Iterable[pytest.Item]) -> None:
        """Remember the selected records of each marker; all of them if only its gate is selected."""
        left: dict[str, dict[CaseKey, None]] = {}
        gated: list[str] = []
        for item in items:
            key = _key(item)
            if key is not None:
                left.setdefault(_place(item), {})[key] = None
            # The gate has no record; it counts as all of them if it is selected alone.
            elif isinstance(item, GateItem):
                gated.append(item.group.run_id)
        for place, group in self._groups.items():
            group.selected = tuple(left.get(place, group.keys if group.run_id in gated else ()))

    def case(self, item: pytest.Item) -> RecordCase:
        """Return the evaluated record of a test; fails the test if it has no grade."""
        found = item.stash.get(_CASE, None)
        if found is None:
            key = _key(item)
            assert key is not None
            evaluated = self.evaluated(self._groups[_place(item)])
            found = item.stash[_CASE] = _case(evaluated, key, item)
        return found

    def evaluated(self, group: MarkerTests) -> Run:
        """Return the run of a group; the first test in any process makes it, the others wait."""
        if group.outcome is None:
            # Kept in the group: an error is shown by every test and caused only once.
            group.outcome = self._evaluate(group)
        if isinstance(group.outcome, str):
            pytest.fail(group.outcome, pytrace=False)
        return group.outcome

    def _evaluate(self, group: MarkerTests) -> Run | str:
        # Only what is left after -k and the like: the rest would be paid for in vain.
        records = () if group.is_whole else tuple(dict.fromkeys(key.record_id for key in group.selected))
        try:
            # With an id the run is made once: other workers of xdist wait for its lock and then find it finished.
            made = self._made(group.source, {**group.options, "records": records}, group.run_id)
            # So that a record is found without reading all the others.
            api.index_run(made.folders.sealed)
        except AssayError as problem:
            return _complaint("assay", problem)
        return made

    def run(self, source: object, *, run_id: str = "", **options: Any) -> Run:
        """Run a dataset, a file or data in memory, inside a test.

        With a `run_id` the run is made once in a session, whichever worker of xdist asks first.
        """
        self._calls += 1
        test, worker = os.environ.get("PYTEST_CURRENT_TEST", "run"), os.environ.get("PYTEST_XDIST_WORKER", "main")
        folder = (self._root / test.partition("::")[0]).parent
        options |= {name: self._found(options[name], folder) for name in _PATHS if name in options}
        # PYTEST_CURRENT_TEST names the test; the worker and a number keep calls of one test apart.
        name = run_id or f"{_slug(test)}-{worker}-{self._calls}"
        found = self._found(source, folder) if isinstance(source, str | Path) else source
        return self._made(found, options, f"{self._session}-{name}")

    def _made(self, source: object, options: Mapping[str, Any], run_id: str) -> Run:
        self._keep()
        # Progress in a notebook's way would be drawn into captured output.
        made = run(source, runs_dir=str(self._runs_dir), run_id=run_id, progress=False, watch=self._watch(run_id), **options)
        if len(made) != 1:
            raise UsageProblem(f"{len(made)} candidates are named, and a test is about one", hint="name one with model=...")
        if made[0].result.is_resumable:
            raise UsageProblem(f"run '{run_id}' has failed: {made[0].result.problem}", hint=f"assay resume {run_id}")
        if not made[0].is_finished:
            raise UsageProblem(f"run '{run_id}' was stopped before its end", hint=f"assay resume {run_id}")
        return made[0]

    def _watch(self, run_id: str) -> Callable[[api.Snapshot], None] | None:
        """Print the progress of a long run on a terminal; pytest itself prints nothing meanwhile."""
        if self._say is None:
            return None
        say, pace, said = self._say, Throughput(), [0.0]

        def watch(now: api.Snapshot) -> None:
            pace.note(now)
            if now.elapsed_s - said[0] >= LINE_EVERY:
                said[0] = now.elapsed_s
                say(f"{run_id} · {plain_line(now, pace)}")

        return watch

    def _keep(self) -> None:
        """Create the folder of the runs, ignored by git; raises UsageProblem if that fails."""
        if self._runs_dir.exists():
            return
        try:
            self._runs_dir.mkdir(parents=True, exist_ok=True)
            # Runs hold prompts and answers, and must not be committed by accident.
            (self._runs_dir / ".gitignore").write_text("# Made by the pytest plugin of assay\n*\n", encoding="utf-8")
        except OSError as problem:
            reason = (problem.strerror or str(problem)).lower()
            raise UsageProblem(
                f"cannot store a run in '{self._runs_dir}': {reason}", hint="--assay-runs-dir names a folder"
            ) from problem

    def check(self, item: pytest.Function) -> None:
        """Fail a test whose record did not pass; if gates decide about the whole run, mark it as an expected failure."""
        case, group = self.case(item), self._groups[_place(item)]
        if case.passed:
            return
        reason = printable(" · ".join(filter(None, (_score(case), case.label, case.justification))), limit=TEXT)
        if group.has_gates:
            # xfail keeps the test visible without failing the session, which the gate decides.
            pytest.xfail(f"did not pass, and the gate decides: {reason}")
        pytest.fail(f"record {printable(case.id)!r} did not pass: {reason}", pytrace=False)


class GateItem(pytest.Item):
    """Test for the gates of a marker."""

    def __init__(self, *, runs: CaseRuns, group: MarkerTests, **place: Any) -> None:
        super().__init__(**place)
        # Keywords select tests (-m, -k), and setup tells gates from misused markers by this one.
        self.keywords["assay_case"] = True
        self.runs = runs
        self.group = group

    def runtest(self) -> None:
        """Fail if a gate was missed; skip if only some of the records were evaluated."""
        if not self.group.is_whole:
            pytest.skip(f"{len(self.group.selected):,} of {len(self.group.keys):,} records are selected, and gates are about all")
        made = self.runs.evaluated(self.group)
        self.user_properties += [("assay.run_id", made.run_id), ("assay.pass_rate", made.pass_rate.value)]
        if not made.gate.passed:
            view = RunReport(result=made.result, manifest=made.reader.run_manifest)
            # The decisions in words; `gate.reasons` holds rates as numbers.
            reasons = filter(None, (*(decision.reason for decision in decisions(view)), decision_note(view)))
            pytest.fail("\n".join([f"run {made.run_id} missed its gates", *map(printable, reasons)]), pytrace=False)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """Return the location for the report."""
        return self.path, None, self.name


def _slug(place: str) -> str:
    """Turn the name of a test function into a part of a folder's name."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", place.partition("[")[0].partition(" ")[0].rpartition("::")[2])[:60]


def _place(item: pytest.Item) -> str:
    """Return the id of the test function, without its parameters."""
    assert item.parent is not None
    return f"{item.parent.nodeid}::{getattr(item, 'originalname', None) or item.name}"


def _key(item: pytest.Item) -> CaseKey | None:
    found = getattr(getattr(item, "callspec", None), "params", {}).get("assay_case")
    return found if isinstance(found, CaseKey) else None


def _case(made: Run, key: CaseKey, item: pytest.Item) -> RecordCase:
    """Return the record of a test from its run; fails the test before it begins if the record has an error."""
    found = made.reader.record(key.record_id, sample=key.sample)
    assert isinstance(found, RecordDetails), "a run with an invalid record does not start"
    line = found.prediction
    item.user_properties += _properties(made, line)
    asked = api.question_of(found.input)
    # Before the grade is looked at, so that a failure shows what was asked.
    _tell(item, asked, line)
    if line.score is None or line.raw_score is None or line.passed is None:
        pytest.fail(f"record {printable(key.record_id)!r} has no grade: {_error(line)}", pytrace=False)
    return RecordCase(
        id=key.record_id,
        sample=key.sample,
        question=asked,
        record=plain(found.input),
        answer=line.model_response or "",
        score=line.score,
        raw_score=line.raw_score,
        scale=line.scale or "",
        passed=line.passed,
        justification=line.justification or "",
        label=line.label or "",
        prediction=plain(line),
        run=made,
    )


def _properties(made: Run, line: PredictionLine) -> list[tuple[str, object]]:
    """List the properties of a test for JUnit."""
    names = ("record_id", "status", "score", "raw_score", "passed", "label", "error_code", "cost")
    noted = ((name, getattr(line, name)) for name in names)
    return [("assay.run_id", made.run_id), *((f"assay.{name}", value) for name, value in noted if value is not None)]


def _tell(item: pytest.Item, asked: str, line: PredictionLine) -> None:
    """Add input and answer to the report of a failed test."""
    said = (("asked", asked), ("answered", line.model_response), ("why", line.justification))
    text = "\n".join(f"{who}: {printable_lines(_cut(words))}" for who, words in said if words)
    item.add_report_section("setup", "assay", text)


def _cut(text: str) -> str:
    return text if len(text) <= TEXT else f"{text[: TEXT - 1]}…"


def _error(line: PredictionLine) -> str:
    return printable(error_text(line.error_code or line.status, line.error_message), limit=TEXT)


def _score(case: RecordCase) -> str:
    return f"score {record_score(case.raw_score, case.scale)} on the scale {case.scale}"


def _complaint(name: str, problem: AssayError) -> str:
    """Format the problems, one line each."""
    refused = problem.refused if isinstance(problem, api.PlanProblems) else ()
    problems = problem.problems if isinstance(problem, api.PlanProblems) else (problem.message,)
    lines = list(map(printable, problems if not refused else (line for report in refused for line in _errors(report))))
    more = [f"... and {len(lines) - MAX_PROBLEMS:,} more"] if len(lines) > MAX_PROBLEMS else []
    hint = f"\nhint: {printable(problem.hint)}" if problem.hint and not refused else ""
    return "\n  ".join([f"{name}: {counted(len(lines), 'problem')}", *lines[:MAX_PROBLEMS], *more]) + hint


def _errors(report: ValidationReport) -> Iterator[str]:
    """List the errors of a dataset with their locations."""
    path = os.path.relpath(report.path)
    for issue in report.all_issues:
        if issue.severity == "error":
            hint = f" ({issue.hint})" if issue.hint else ""
            yield f"{path}:{issue.line or 1}:{issue.column or 1}: {issue.code}: {issue.path}: {issue.message}{hint}"


def write_summary(terminal: Any, runs_dir: Path, session: str) -> None:
    """Write a line for each run, with its folder and the command that shows it."""
    terminal.section("assay")
    folder = os.path.relpath(runs_dir)
    # Runs that were interrupted are listed too, with the command that resumes them.
    active = {path.name for path in runs_dir.glob(f".active/{session}-*")}
    names = sorted({path.name for path in runs_dir.glob(f"{session}-*")} | active)
    for name in names:
        for line in _run_lines(name, runs_dir):
            terminal.write_line(line)
    terminal.write_line(f"show one with: assay show {names[-1]} --runs-dir {printable(folder)}")


def _run_lines(name: str, runs_dir: Path) -> list[str]:
    try:
        run = open_run(name, runs_dir=runs_dir)
        place = printable(os.path.relpath(run.run_dir))
        last = place if run.is_finished else f"resume with: assay resume {name} --runs-dir {printable(os.path.relpath(runs_dir))}"
        return [f"{name} · {run.state.replace('_', ' ')}", f"    {_figures(run)}", f"    {last}"]
    except AssayError as problem:
        return [f"{name} · {printable(problem.message)}"]


def _figures(run: Run) -> str:
    counts, summary = run.counts, run.result.summary
    if summary is None:
        return f"{counts.evaluated_records:,} of {counted(counts.total_records, 'record')} evaluated"
    rate = f"pass rate {run.pass_rate} · {summary.pass_count:,} of {counted(summary.n_scored, 'record')}"
    invalid = f" · {counts.invalid_records:,} of them invalid" if counts.invalid_records else ""
    errors = counts.failed_records + counts.cancelled_records
    return f"{rate} · {counted(errors, 'error')}{invalid} · cost {cost_text(summary.cost_usd)}"
