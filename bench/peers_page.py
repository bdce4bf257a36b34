"""Results of peers as Markdown: tables, and the page docs/explanation/comparison-with-other-tools.md with its chart."""

import json
from collections.abc import Iterable, Sequence
from functools import reduce
from pathlib import Path
from typing import Any, NamedTuple

from page import table
from peers_chart import Dot, dot_chart
from validate import smaller

DOCS = Path(__file__).parent.parent / "docs"
PEERS_PAGE = DOCS / "explanation" / "comparison-with-other-tools.md"
CHART = DOCS / "images" / "beside-other-tools.svg"
YARDSTICK = "bare loop"
MEGABYTE = 1_000_000
NOTHING = "-"
END = "<!-- end -->"


class Result(NamedTuple):
    """One measurement, as it is kept."""

    who: str
    version: str
    start: str
    """What was imported or asked for its version; empty for a run."""
    cases: int
    asked: int
    """Cases that there were: fewer where all of them would have taken longer than the limit, 0 where it was not worth a run."""
    latency: int
    """Milliseconds."""
    limit: float
    is_alone: bool
    """True without a network but loopback."""
    at: str
    machine: str
    load: float
    """Load average of the minute before."""
    cost: dict[str, Any]

    @property
    def key(self) -> tuple[str, str, str, int, int]:
        """Equal for two measurements of the same."""
        return (self.who, self.version, self.start, self.cases, self.latency)

    def is_smaller_than(self, other: "Result") -> bool:
        """True for a run over fewer cases under the same conditions."""
        return self._replace(cases=0).key == other._replace(cases=0).key and not self.start and self.cases < other.cases

    def is_cut_short_beside(self, other: "Result") -> bool:
        """True for a measurement of the same that had less time, and needed more."""
        return self.key == other.key and self.limit < other.limit and (self.asked < self.cases or "stopped" in self.cost)

    @property
    def finished(self) -> int:
        """Cases whose candidate and judge were asked."""
        return int(self.cost["judge"]) if "stopped" in self.cost else self.asked

    @property
    def milliseconds(self) -> float | None:
        """CPU for each finished case."""
        return self.cost["cpu"] / self.finished * 1000 if "cpu" in self.cost and self.finished else None


class Kept:
    """Results in a file, one in a line, each written as soon as it is known."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.parent.mkdir(exist_ok=True)
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        self.results = [Result(**json.loads(line)) for line in lines]

    def add(self, result: Result) -> None:
        """Keep one more, instead of those that had too little time."""
        self._keep([each for each in self.results if not each.is_cut_short_beside(result)])
        self.results.append(result)
        with self.path.open("a", encoding="utf-8") as file:
            print(json.dumps(result._asdict()), file=file, flush=True)

    def same(self, wanted: Result) -> list[Result]:
        """All measurements of the same but those that had too little time."""
        return [each for each in self.results if each.key == wanted.key and not each.is_cut_short_beside(wanted)]

    def forget(self, who: Sequence[str]) -> None:
        """Drop everything that was measured of them."""
        self._keep([each for each in self.results if each.who not in who])

    def _keep(self, results: list[Result]) -> None:
        if len(results) < len(self.results):
            self.results = results
            lines = [json.dumps(each._asdict()) + "\n" for each in results]
            self.path.write_text("".join(lines), encoding="utf-8")


class PeersPage(NamedTuple):
    """The parts of a report."""

    runs: str
    starts: str
    setting: str

    @property
    def text(self) -> str:
        """Everything, for a terminal."""
        return f"{self.runs}\n\n{self.starts}\n"


def report(results: list[Result]) -> PeersPage:
    """All tables as Markdown."""
    best = _best(results)
    starts = [each for each in best if each.start]
    runs = [each for each in best if not each.start]
    settings = dict.fromkeys((each.cases, each.latency) for each in sorted(runs, key=lambda each: (each.cases, each.latency)))
    tables = [_runs_table([each for each in runs if (each.cases, each.latency) == setting]) for setting in settings]
    return PeersPage(runs="\n\n".join(tables), starts=_starts_table(starts), setting=_setting(best))


def _best(results: Iterable[Result]) -> list[Result]:
    """One for each key: the smallest of repeated ones, each figure for itself."""
    groups: dict[Any, list[Result]] = {}
    for each in results:
        groups.setdefault(each.key, []).append(each)
    return [group[-1]._replace(cost=reduce(smaller, [each.cost for each in group])) for group in groups.values()]


def _runs_table(runs: list[Result]) -> str:
    cases, latency = runs[0].cases, runs[0].latency
    bare = next((each.milliseconds for each in runs if each.who == YARDSTICK), None)
    ordered = sorted(runs, key=lambda each: each.milliseconds or float("inf"))
    headings = ("who", "ms CPU per case", "/ bare loop", "wall s", "peak memory MB", "bytes left per case", "cases")
    return f"### {cases:,} cases, {latency} ms\n\n{table(headings, [_run_row(each, bare) for each in ordered])}"


def _run_row(each: Result, bare: float | None) -> tuple[str, ...]:
    cost, spent = each.cost, each.milliseconds
    if spent is None:
        return (each.who, *[NOTHING] * 5, _cases(each))
    is_finished = "stopped" not in cost
    return (
        each.who,
        _figure(spent),
        f"{spent / bare:.2f}" if bare else NOTHING,
        f"{cost['wall']:.1f}",
        f"{cost['memory'] / MEGABYTE:.0f}",
        f"{cost['left'] / each.asked:,.0f}" if is_finished else NOTHING,
        _cases(each),
    )


def _figure(value: float) -> str:
    return f"{value:.2f}" if value < 100 else f"{value:,.0f}"


def _cases(each: Result) -> str:
    """How many cases the figures are of, and why not of all."""
    if "refused" in each.cost:
        return f"failed: {each.cost['refused']}"
    if not each.asked:
        return f"not run: hardly more than in the smaller run would be done in {each.limit:g} s"
    shown = f"{each.asked:,}"
    if "stopped" in each.cost:
        shown = f"did not finish: {each.finished:,} of {each.asked:,} cases in {each.cost['stopped']:g} s"
    elif each.cost.get("graded", each.asked) < each.asked:
        shown += f", of which {each.asked - each.cost['graded']:,} were left without a result"
    return shown if each.asked == each.cases else f"{shown}; {each.cases:,} would take longer than {each.limit:g} s"


def _starts_table(starts: list[Result]) -> str:
    rows = [(each.start, f"{each.cost['cpu']:.2f}", f"{each.cost['wall']:.2f}") for each in starts if "cpu" in each.cost]
    return table(("what", "CPU s", "wall s"), rows)


def _setting(results: list[Result]) -> str:
    days = sorted({each.at[:10] for each in results})
    versions = dict.fromkeys(f"{'aiohttp' if each.who == YARDSTICK else each.who} {each.version}" for each in results)
    machines = dict.fromkeys(each.machine for each in results)
    loads = [each.load for each in results]
    network = "without a network but loopback" if all(each.is_alone for each in results) else "with the network that there was"
    when = days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
    return (
        f"Measured on {when} with {'; '.join(machines)}; {', '.join(versions)}; {network}. "
        f"The load average before a run was between {min(loads):.1f} and {max(loads):.1f}: others worked on the machine, "
        "so that CPU time says more than the clock."
    )


def write_peers_page(results: list[Result], *, page: Path = PEERS_PAGE, chart: Path = CHART) -> Path:
    """The parts of the page that were measured, made anew between their marks, and the chart."""
    text = page.read_text(encoding="utf-8")
    for name, part in report(results)._asdict().items():
        before, _, rest = text.partition(f"<!-- {name} -->")
        text = f"{before}<!-- {name} -->\n\n{part}\n\n{END}{rest.partition(END)[2]}"
    page.write_text(text, encoding="utf-8")
    chart.write_text(_chart(results), encoding="utf-8")
    return page


def _chart(results: list[Result]) -> str:
    """CPU for each case where the provider answers at once, over the smallest number of cases."""
    runs = [each for each in _best(results) if not each.start and each.milliseconds is not None]
    smallest = min((each.latency, each.cases) for each in runs)
    shown = [each for each in runs if (each.latency, each.cases) == smallest]
    dots = [
        Dot(each.who, each.milliseconds or 0.0, f"after {each.finished:,} cases" if "stopped" in each.cost else "")
        for each in sorted(shown, key=lambda each: each.milliseconds or 0.0)
    ]
    title = f"CPU for each case: a candidate and a judge are asked, {smallest[1]:,} cases"
    return dot_chart(dots, title, note="Milliseconds. Every line to the right is ten times the one before.")
