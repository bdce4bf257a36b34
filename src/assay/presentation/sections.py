"""Sections of a report: facts, tables, notes and charts, with every number and state already in words.

A renderer decides how they look and cleans the texts, which may come from anywhere: the terminal, Markdown, a page, a card.
"""

from collections.abc import Sequence
from typing import Literal, Protocol

import msgspec

from assay.presentation.charts import Chart

MAX_TEXT, MAX_LINES = 4_000, 60
"""Characters and lines of a text from which a report folds or cuts it."""
BEGINNING = 600
"""Characters of a folded text that are shown before it is opened."""
Tone = Literal["good", "bad", "warn", "live", "quiet"]
"""How a word is meant; a renderer gives each a colour, and a page a shape as well."""


class DisplayValue(msgspec.Struct, frozen=True):
    """A number in words, and what it means."""

    text: str
    says: str = ""
    """Shown when it is pointed at or focused: what is counted, over how many, how."""
    n: str = ""
    """How many it is of, where that follows it."""


class Badge(msgspec.Struct, frozen=True):
    """A word that is good or bad news."""

    text: str
    kind: Tone
    says: str = ""


class Timestamp(msgspec.Struct, frozen=True):
    """A time: for machines as it is, for people without a script in UTC; a script shows it in the reader's zone."""

    iso: str
    text: str


class IntervalBar(msgspec.Struct, frozen=True):
    """An interval as a small bar on a line from 0 to 100."""

    low: float
    middle: float
    high: float


class KeyMetric(msgspec.Struct, frozen=True, kw_only=True):
    """A number that stands large on a page."""

    label: str
    figure: DisplayValue
    note: str = ""
    bar: IntervalBar | None = None


class BarSegment(msgspec.Struct, frozen=True, kw_only=True):
    """A part of all records, as a piece of one bar from 0 to 100."""

    label: str
    kind: Tone
    count: DisplayValue
    start: float
    width: float
    address: str = ""


class Fact(msgspec.Struct, frozen=True):
    """A label and what belongs to it; an empty label continues the fact before."""

    label: str
    text: str
    is_hash: bool = False
    tone: Tone | Literal[""] = ""
    """Of a decision, whose label is the word that was decided."""
    limit: int = 0
    """Characters of the text, or of each part, that a report in text shows; 0 for all."""
    parts: tuple[str, ...] = ()
    """Parts of the text, where each is cut for itself."""
    is_whole: bool = False
    """It is to be copied or is drawn, so that no line of it is folded."""


class DecisionView(msgspec.Struct, frozen=True):
    """A decision with its reason."""

    mark: Badge
    reason: str


class Column(msgspec.Struct, frozen=True):
    """Head of a column."""

    title: str
    says: str = ""
    """What its cells are, where a renderer can explain them."""
    is_number: bool = False
    is_name: bool = False
    """Its cells are names and ids: they are cut in their middle, and Markdown shows them as code."""
    is_path: bool = False
    """Its cells are paths: a terminal without room for one shows its end, which says more than its beginning."""
    limit: int = 0
    """Characters of a cell that a report in text shows; 0 for all."""
    width: int = 0
    """Least width of the column in a terminal."""


class Cell(DisplayValue, frozen=True):
    """A cell of a table."""

    interval: str = ""
    """Interval in brackets, which follows the text where no bar is drawn."""
    bar: IntervalBar | None = None
    tone: Tone | Literal[""] = ""
    link: str = ""
    is_code: bool = False
    names: tuple[str, ...] = ()
    """Ids that stand before the text."""
    detail: str = ""
    """Text that follows it, such as the answer after its result."""

    @property
    def full(self) -> str:
        """Text with its interval and its detail: `83.3 % [43.6 %, 97.0 %]`, `4 passed · The answer`."""
        text = f"{self.text} {self.interval}" if self.interval else self.text
        return " · ".join(filter(None, (text, self.detail)))


class Table(msgspec.Struct, frozen=True, kw_only=True):
    """Rows below columns; the first cell of a row names it."""

    title: str = ""
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""
    """What is left out of it, or true of all of it."""
    indent: int = 0
    """Columns by which a terminal indents it."""
    compact: tuple["CompactRow", ...] = ()
    """Rows for a terminal that is too narrow for the table."""

    def only(self, *titles: str) -> "Table":
        """Return the table with some of its columns, in that order."""
        places = [next(place for place, column in enumerate(self.columns) if column.title == title) for title in titles]
        columns = tuple(self.columns[place] for place in places)
        rows = tuple(tuple(row[place] for place in places) for row in self.rows)
        return msgspec.structs.replace(self, columns=columns, rows=rows)

    def titled(self, *titles: str) -> "Table":
        """Return the table with other titles above its columns."""
        columns = tuple(msgspec.structs.replace(column, title=title) for column, title in zip(self.columns, titles, strict=True))
        return msgspec.structs.replace(self, columns=columns)

    def first(self, limit: int | None) -> "Table":
        """Return the first rows of the table."""
        return msgspec.structs.replace(self, rows=self.rows[:limit])


class CompactRow(msgspec.Struct, frozen=True):
    """A row of a table in two lines: the cells that name it, and the rest in words."""

    heading: tuple[Cell, ...]
    text: str


class TextBlock(msgspec.Struct, frozen=True, kw_only=True):
    """A text under a title, such as a prompt or an answer."""

    title: str
    text: str
    is_code: bool = False
    note: str = ""

    @property
    def is_long(self) -> bool:
        """True when a page folds it; all of it is in the page."""
        return len(self.text) > MAX_TEXT or self.text.count("\n") > MAX_LINES

    @property
    def beginning(self) -> str:
        """Beginning of a folded text."""
        return "\n".join(self.text[:BEGINNING].split("\n")[:8])

    @property
    def size(self) -> str:
        """Length in words."""
        return f"{len(self.text):,} characters"


class FindingLine(msgspec.Struct, frozen=True, kw_only=True):
    """An issue, a remark or a problem: where it is, what kind it is, and what is said of it."""

    place: str = ""
    label: str
    tone: Tone
    text: str
    details: tuple[str, ...] = ()
    """Lines below it, such as the records that it is about."""


class CheckedItem(msgspec.Struct, frozen=True, kw_only=True):
    """Something that was checked, with the result and what to do about it."""

    mark: Badge
    name: str
    text: str
    hint: str = ""


class Section(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a report; a renderer shows its findings, tables, texts and checks, then its facts and notes."""

    title: str = ""
    heading: tuple[Cell, ...] = ()
    """Line above a report: a name, and the most important words about it."""
    findings: tuple[FindingLine, ...] = ()
    texts: tuple[TextBlock, ...] = ()
    checks: tuple[CheckedItem, ...] = ()
    tables: tuple[Table, ...] = ()
    facts: tuple[Fact, ...] = ()
    notes: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()
    """Sentences that need no label, such as how many runs a list has."""
    is_joined: bool = False
    """It continues the section before it, without an empty line between them."""
    more: str = ""
    """How much of it is left out, and how to see that."""
    charts: tuple[Chart, ...] = ()


def command_facts(commands: Sequence[str]) -> tuple[Fact, ...]:
    """Return the commands that a reader may want to call next, the first with a label."""
    return tuple(Fact("" if number else "next", command, is_whole=True) for number, command in enumerate(commands))


class RecordLinks(Protocol):
    """Addresses of what a section names; empty where a renderer cannot lead there."""

    def run(self, run_id: str) -> str:
        """Return a run."""
        ...

    def records(self, run_id: str, **query: str) -> str:
        """Return records of a run."""
        ...

    def artifact(self, run_id: str, name: str) -> str:
        """Return a file of a run."""
        ...


class NoLinks:
    """Leads nowhere: for text, and for notebooks."""

    def run(self, run_id: str) -> str:
        """Return no address."""
        del run_id
        return ""

    def records(self, run_id: str, **query: str) -> str:
        """Return no address."""
        del run_id, query
        return ""

    def artifact(self, run_id: str, name: str) -> str:
        """Return no address."""
        del run_id, name
        return ""


NO_LINKS = NoLinks()
