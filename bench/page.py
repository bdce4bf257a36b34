"""Measurements as Markdown: tables, a bar chart in text, and the page docs/explanation/speed.md."""

import datetime
import importlib.metadata
import os
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

SPEED_PAGE = Path(__file__).parent.parent / "docs" / "explanation" / "speed.md"
PEERS = ("assay", "msgspec", "orjson", "numpy", "pydantic", "jsonschema-rs", "jsonschema")
BAR_WIDTH = 48


class Bar(NamedTuple):
    """One bar of a chart."""

    name: str
    value: float


class Target(NamedTuple):
    """A figure, what it should be at most, and what it is."""

    name: str
    limit: float
    value: float | None


class Page(NamedTuple):
    """The parts of a report."""

    targets: str
    costs: str
    chart: str

    @property
    def text(self) -> str:
        """Everything, for a terminal."""
        return f"{self.costs}\n\n{self.chart}\n\n{self.targets}"


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table that also reads well as text."""
    shown = [[cell.replace("|", "\\|") for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(headings, *shown, strict=True)]
    lines = [headings, ["-" * width for width in widths], *shown]
    return "\n".join(_line(line, widths) for line in lines)


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "| " + " | ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)) + " |"


def targets_table(targets: Sequence[Target]) -> str:
    """Targets with a mark where they are met."""
    rows = [(target.name, f"{target.limit:g}", _figure(target.value), _mark(target)) for target in targets]
    return table(("what", "at most", "measured", ""), rows)


def _figure(value: float | None) -> str:
    return "not measured" if value is None else f"{value:.2f}"


def _mark(target: Target) -> str:
    return "" if target.value is None else "✓" if target.value <= target.limit else "✗"


def bars(values: Sequence[Bar], title: str) -> str:
    """A bar chart in a code block."""
    longest = max((bar.value for bar in values), default=1)
    names = max((len(bar.name) for bar in values), default=0)
    lines = [f"{bar.name.ljust(names)}  {'█' * max(1, round(bar.value / longest * BAR_WIDTH))} {bar.value:.2f}" for bar in values]
    return "\n".join(["```text", title, *lines, "```"])


def write_page(page: Page, *, repeat: int, others: Mapping[str, str], stages: str) -> Path:
    """The page in the documentation, made anew; others are versions of what has an environment of its own."""
    setting = setting_line({**{name: version_of(name) for name in PEERS}, **others}, repeat=repeat)
    text = _PAGE.format(setting=setting, targets=page.targets, costs=page.costs, chart=page.chart, stages=stages)
    SPEED_PAGE.write_text(text, encoding="utf-8")
    return SPEED_PAGE


_PAGE = """# Validation speed

What validation costs, compared with other validators. The figures are ratios within one run on one machine; they
say little about another machine's seconds and much about its ratios. `make bench ARGS=validate` measures them again, with
`ARGS="validate --quick"` in a minute or two, and `ARGS="validate --write"` renews this page. [Runs](run-speed.md) have a
page of their own.

{setting}

## Aims

{targets}

## Costs

{chart}

{costs}

## What limits it

JSON Lines by their stages, 10 MB of each (`python bench/stages.py`). A share is one of what orjson takes per line just before
and after it.

{stages}

- **The floor is decoding.** A program that reads typed rows, by msgspec, has spent the first sum, and has checked nothing
  else. An aim of 1.3 leaves 0.35 to 0.4 for everything that types cannot say.
- **Names that appear twice** are what no fast parser tells, so that the strings of the text are counted. To mark the bytes of
  one value takes numpy 25 µs in a block of 384 KB, and quotation marks, backslashes and zeros have to be marked: 0.08 at the
  very least. What puts the marks together, and caches that decoding has just filled with something else, make it more than
  twice as much.
- **Rules** look at every text and part. To gather all texts in a list and to ask each one thing takes 0.04 to 0.06; a rule for
  each member, some 300 nanoseconds for a text, is as far as loops without a line of Python for each record get.
- **Added up,** the cheapest proofs that we know come to 1.05 to 1.1 of orjson, if putting them together cost nothing. What lies
  between that and the second sum is Python's interpreter: 10 MB take 253 and 257 million instructions, orjson's lines 168 and
  178 (counted by valgrind, which no neighbour disturbs): 1.51 and 1.44. Only compiled code of our own, in one pass over the
  bytes, would be much faster; it would have to be built for every platform, and assay is Python alone. Without it 1.3 is not in
  reach while every check stays, and every check stays.
- **Hashes** add what writing sorted and SHA-256 take. The processor has instructions for SHA-256, and does 1.5 GB in a second.
- **Bad records** go through rules in Python that name every place; a lone surrogate makes the search for all of them necessary,
  and lines and columns have every byte counted. The table above says what that comes to.
- **Two workers** share all but the first look at the pages, the cut into records, the report and the fork. What the first of two
  still spends itself is among the aims: no second core can make the wait shorter than that.

## How it was measured

- The files are generated and the same for every tool (`bench/generate.py`): mixed scripts, code, LaTeX, quotations; three records
  in ten are written with `\\u` escapes. A bad file has one bad record in fifty and comes with the list of what is wrong in it;
  "errors found" says how many of them are reported with the right record, code and path.
- The ratios among the aims are measured in turns: each of the two has a process of its own, which stays warm, one is measured right
  after the other, and the median of the ratios of such pairs counts (of the clock, which other programs stop, the ratio of the
  smallest). That varies by two to seven percent from one run to the next while other programs keep both cores busy.
- The costs below them come from fresh processes. The tools take turns, and the smallest result of each counts; on a busy machine
  two of these may be off by a fifth against each other.
- CPU seconds are user and system time of the process and its children. Of two workers the first does what cannot be shared, so
  its own CPU is what a clock would show with the second core idle. Parsers and other validators are given bytes that are
  already in memory, with their schemas compiled; assay is given a path. check-jsonschema is a command without a library: it is
  measured from its start to its end, without its memory; the first thing it cannot parse is all that it reports.
- orjson per line is the loop that people write: over the lines of an open file, with Python's own buffer of 8 KB. With a buffer of
  64 KB or more it takes 0.84 of that, and all ratios to it would be a fifth higher; the aim was set for the plain one.
- Peak memory is what the process grew by after its imports, mapped files included, divided by the size of the file.
- What the garbage collector adds to a parser differs between versions of Python, so there are two columns for orjson.
- json, orjson, pydantic and jsonschema check less: none of them sees duplicate names, duplicate ids, control characters,
  text that is not NFC, or sizes, and none hashes records. One lone surrogate makes most of them refuse the whole file.
"""


def setting_line(versions: Mapping[str, str], *, repeat: int) -> str:
    """When and where was measured, with which versions."""
    named = ", ".join(f"{name} {version}" for name, version in versions.items())
    today = datetime.datetime.now(tz=datetime.UTC).date()
    # Other work on the machine takes caches and cores away, and with them more from some tools than from others.
    load = f"The load average of the last quarter of an hour was {os.getloadavg()[2]:.1f}, of which measuring is 1."
    counted = "Everything was measured once." if repeat == 1 else f"The smallest of {repeat} counts."
    return f"Measured on {today} with {machine_line()}; {named}. {counted} {load}"


def machine_line() -> str:
    """What is measured on."""
    return f"Python {platform.python_version()}, {platform.system()} on {platform.machine()}, {os.cpu_count()} cores"


def version_of(name: str) -> str:
    """The installed version of a distribution."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "(not installed)"
