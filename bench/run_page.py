"""Measurements of runs as Markdown: the aims, the calls, the stages, and the page docs/explanation/run-speed.md."""

from pathlib import Path
from typing import Any, NamedTuple

from page import Bar, bars, setting_line, table, version_of

RUN_PAGE = Path(__file__).parent.parent / "docs" / "explanation" / "run-speed.md"
OURS = ("assay", "msgspec", "httptools", "aiohttp", "uvloop", "orjson")
MEGABYTE = 1_000_000
NOTHING = "-"
STAGES = {
    "plan": "read the dataset and validate it",
    "input": "write the cases to the ledger",
    "append": "append two attempts and an outcome to the ledger, durably",
    "finalise": "write, hash and seal all artifacts, with metrics",
    "whole": "all of a run, with models that answer in the same process",
}


class Aim(NamedTuple):
    """A figure, what it should be at most (or at least), and what it is."""

    name: str
    limit: float
    value: float | None
    is_least: bool = False

    @property
    def is_met(self) -> bool:
        """True when the figure is on the right side of its limit."""
        return self.value is not None and (self.value >= self.limit if self.is_least else self.value <= self.limit)


class Called(NamedTuple):
    """What the same calls cost somebody."""

    name: str
    cases: int
    cost: dict[str, Any]


class Stage(NamedTuple):
    """What one more record costs in a stage, in microseconds of CPU."""

    name: str
    microseconds: float


class Measured:
    """Everything that was measured so far."""

    def __init__(self) -> None:
        self.aims: list[Aim] = []
        self.called: list[Called] = []
        self.stages: list[Stage] = []
        self.span = ""
        """The two sizes whose difference gives the cost of one more record."""
        self.memory: list[tuple[int, int | None]] = []
        self.given: list[tuple[int, dict[str, Any]]] = []
        """The costs of runs with given answers, by their records."""


class RunPage(NamedTuple):
    """The parts of a report; empty where nothing was measured."""

    aims: str
    chart: str
    calls: str
    stages: str
    given: str

    @property
    def text(self) -> str:
        """Everything, for a terminal."""
        return "\n\n".join(part for part in (self.calls, self.chart, self.stages, self.given, self.aims) if part)


def report(measured: Measured) -> RunPage:
    """All tables as Markdown."""
    return RunPage(
        aims=_aims_table(measured.aims),
        chart=_chart(measured.called),
        calls=_calls_table(measured.called) if measured.called else "",
        stages=_stages_text(measured),
        given=_given_table(measured.given) if measured.given else "",
    )


def _aims_table(aims: list[Aim]) -> str:
    rows = [(aim.name, f"{'≥' if aim.is_least else '≤'} {aim.limit:g}", _figure(aim.value), _mark(aim)) for aim in aims]
    return table(("what", "aim", "measured", ""), rows)


def _figure(value: float | None) -> str:
    return "not measured" if value is None else f"{value:.2f}" if value < 100 else f"{value:.0f}"


def _mark(aim: Aim) -> str:
    return "" if aim.value is None else "✓" if aim.is_met else "✗"


def _chart(called: list[Called]) -> str:
    done = [Bar(each.name, each.cost["cpu"]) for each in called if "cpu" in each.cost]
    return bars(done, f"CPU seconds, {called[0].cases:,} cases, candidate and judge") if done else ""


def _calls_table(called: list[Called]) -> str:
    yardstick = called[0].cost.get("cpu")
    headings = ("who", "CPU s", "ms CPU per case", "/ bare loop", "wall s", "peak memory MB", "MB sent")
    return table(headings, [_calls_row(each, yardstick) for each in called])


def _calls_row(each: Called, yardstick: float | None) -> tuple[str, ...]:
    cost = each.cost
    if "cpu" not in cost:
        return (each.name, cost.get("absent") or cost["refused"], *[NOTHING] * 5)
    return (
        each.name,
        f"{cost['cpu']:.2f}",
        f"{cost['cpu'] / each.cases * 1000:.2f}",
        f"{cost['cpu'] / yardstick:.2f}" if yardstick else NOTHING,
        f"{cost['wall']:.2f}",
        f"{cost['memory'] / MEGABYTE:.0f}",
        f"{cost['bytes'] / MEGABYTE:.2f}",
    )


def _stages_text(measured: Measured) -> str:
    parts = []
    if measured.stages:
        rows = [(STAGES[stage.name], f"{stage.microseconds:.0f}") for stage in measured.stages]
        parts.append(table((f"one more record, between {measured.span}", "µs CPU"), rows))
    if measured.memory:
        shown = [(f"{count:,}", NOTHING if size is None else f"{size / MEGABYTE:.0f}") for count, size in measured.memory]
        parts.append(table(("records of a run", "peak memory MB"), shown))
    return "\n\n".join(parts)


def _given_table(given: list[tuple[int, dict[str, Any]]]) -> str:
    rows = [
        (f"{count:,}", f"{cost['cpu']:.1f}", f"{cost['cpu'] / count * 1_000_000:.0f}", f"{cost['memory'] / MEGABYTE:.0f}")
        for count, cost in given
    ]
    return table(("given answers", "CPU s", "µs CPU for each", "peak memory MB"), rows)


def write_run_page(page: RunPage, *, repeat: int, parts: str) -> Path:
    """The page in the documentation, made anew; the parts are those of the CPU of a run."""
    setting = setting_line({name: version_of(name) for name in OURS}, repeat=repeat)
    RUN_PAGE.write_text(_PAGE.format(setting=setting, parts=parts, **page._asdict()), encoding="utf-8")
    return RUN_PAGE


_PAGE = """# Run speed

A run does more than its calls: it validates, writes every reply to disk before it goes on, grades, and leaves hashed evidence. This
page compares its cost with a loop that does the calls and nothing else. Figures are ratios within one run on one machine.
`make bench ARGS=run` measures them again, with `ARGS="run --quick"` roughly and in two minutes, and `ARGS="run --write"` renews
this page. [Validation](speed.md) and [other tools](comparison-with-other-tools.md) have pages of their own.

{setting}

## Aims

{aims}

## The same calls

Every case is one call of a candidate and one of a judge, 64 in flight, to a provider on the same machine that answers at once.

{chart}

{calls}

## One more record

Without calls, so that nothing hides behind them.

{stages}

## Given answers

Questions of multiple choice whose answers stand in a file: no model is called, so that all of the time is assay's own. Of a record
that is done nothing stays in memory but 30 to 60 bytes: while answers are looked up, a hash of its id and the place of its answer;
at the end, its scores and its row in each slice.

{given}

## What limits a run

Where the CPU of `assay run` goes (`python bench/where.py`): the timer counts CPU and not the clock, and asks what is being done
some 250 times in each second of it.

{parts}

- **The bare loop is the floor** for these calls with aiohttp. The calls alone take assay less than that: a request
  is one write, and a reply is read by the parser of Node.js ([what a run may cost](../decisions/007-what-a-run-costs.md)).
- **The start** is paid once: numpy, which reads datasets and makes intervals, asyncio with TLS, click, and the types of assay's own
  values. The larger a run, the less of it.
- **Artifacts** are eight files with every attempt and score, a chain of hashes and a look for secrets in each text: about as
  much as the two calls. It is a flat profile of Python making lines, with nothing in it that stands out.
- **Grading and order** are what Python takes to fill a judge's prompt, to read its reply, and to keep slots, rates and retries
  apart.
- **The ledger** writes rows in groups, in a thread of its own, and waits for the disk once for each group. What it costs is
  what SQLite takes; a slow disk costs time and no CPU.
- With a real provider none of this is what one waits for: see the share of the calls in the time of a run among the aims.

## How it was measured

- Every figure is of a fresh process, from its start to its end, imports included: user and system time of it and its children, and
  its largest resident memory. They take turns, and the smallest result of each counts. The
  ratio to the bare loop is the median of those of nine turns, since the speed of a machine changes from one minute to the next.
- The provider (`bench/stub.py`) is a process of its own, and its time is not counted. It counts what arrives; a job that does not
  make one call of the candidate and one of the judge for every case has no figure.
- The bare loop (`bench/drivers/bare_loop.py`) is aiohttp, uvloop and orjson with one line in a file for each case, neither synced
  nor hashed. Its request bodies are those that assay sends, to the byte count, because a longer prompt is a larger job; it neither
  validates nor retries, and a crash loses everything.
- The cost of one more record is the difference between two sizes, divided by the records between them. Its stages are measured
  alone (`bench/run_tasks.py`), on a ledger that holds for each record what a judged one leaves: two attempts and a grade.
- The ideal wall time is that of the calls alone: two for each record, so many at once.
- Folders are on the disk of the repository. Every group of results is synced to it before the run goes on.
"""
