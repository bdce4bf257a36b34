"""What an import is made of: the files, the questions, answers and scores in them, and a report of what was not carried over."""

from collections import Counter
from pathlib import Path
from typing import Any

import msgspec

from assay.core.errors import SourceUnreadable, UsageProblem
from assay.core.model_call import Usage
from assay.datasets.converters.report import ConversionCounts, ConversionNote, SourceCounts
from assay.datasets.converters.rows import Row
from assay.datasets.parsing.source import Source, open_source

ImportFormat = str
"""Name of a format, such as `inspect`; the integration `importers` lists them."""


class ImportedQuestion(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One question as a dataset would ask it; it says nothing of any answer, so that all runs over it share the record."""

    id: str
    dataset: str
    prompt: str
    context: str = ""
    messages: list[Row] = []
    """Sent instead of the prompt, where the source has more than one message."""
    references: list[str] = []
    rubric: list[Row] = []
    choices: list[Row] = []
    correct_choice_ids: list[str] = []
    metadata: Row = {}

    @property
    def is_open(self) -> bool:
        """Nothing says what a good answer is."""
        return not (self.references or self.rubric or self.choices)


class ImportedAnswer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a model said; what the source does not tell is None."""

    text: str
    model: str = ""
    """The model that the provider says has answered."""
    finish_reason: str = ""
    usage: Usage = Usage()
    cost: float | None = None
    request_id: str = ""


class ImportedScore(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one scorer of the other tool says of an answer."""

    scorer: str
    value: float | None = None
    """On the scorer's own scale; None where it has none, and then `reason` says why."""
    passed: bool | None = None
    """The tool's own verdict, where it has one."""
    explanation: str = ""
    reason: str = ""
    selected: str = ""
    """The choice, or the part of the answer, that the scorer looked at."""
    answer: str | None = None
    """What the scorer took for the answer, where that is not the item's own."""
    judge: str = ""
    """The model that graded, where the source names it."""


class ImportedItem(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One question, one candidate, one answer."""

    question: ImportedQuestion
    candidate: str = ""
    """Empty without answers: a dataset, not a run."""
    sample: int = 0
    """Which of several answers to the question it is."""
    answer: ImportedAnswer | None = None
    marks: tuple[ImportedScore, ...] = ()
    error_code: str = ""
    error: str = ""
    """What went wrong, in the tool's words; an item with an error has no score, whatever its marks say."""
    turns: list[Row] = []
    """The whole conversation, where it was asked for."""
    started_at: float | None = None
    latency_ms: float | None = None


_ZIP_MAGIC = b"PK\x03\x04"


class ImportSource:
    """One file to import."""

    def __init__(self, name: str) -> None:
        """Raises SourceUnreadable where it cannot be opened, UsageProblem for standard input."""
        if name == "-":
            raise UsageProblem("an import cannot be read from standard input", hint="name a file, whose hash the run will keep")
        self.name = name
        self.path = Path(name)
        if self.path.is_dir():
            raise SourceUnreadable(f"'{name}' is a folder", hint="name its files")
        self.opened: Source = open_source(self.path)
        self.tally = ConversionCounts(name)

    @property
    def is_zip(self) -> bool:
        """True for a zip archive."""
        return self.opened.head(len(_ZIP_MAGIC)) == _ZIP_MAGIC

    @property
    def ending(self) -> str:
        """The last ending of the name, lower case and without `.gz`: `.jsonl`."""
        return Path(self.path.name.lower().removesuffix(".gz")).suffix


_DIFFERS = object()
"""Stands for a parameter that is not the same in all requests."""


class SourceFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file that was read, known by its content."""

    name: str
    sha256: str
    size: int


class ImportReport(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of each source, every remark, and what was left behind."""

    format: str
    tool: str
    version: str
    """Of the tool that wrote the files; empty where they do not say it."""
    target: str
    """Contract of the dataset."""
    records: int
    """Questions in the dataset."""
    candidates: dict[str, int]
    """Answers of each candidate, scored or not."""
    scorers: dict[str, int]
    """Scores of each scorer."""
    left_out: dict[str, int]
    """Members and features that have no place in a dataset or a run, and how often they occurred."""
    incomplete: tuple[str, ...]
    """Which files hold less than the other tool was to evaluate, in words."""
    sources: tuple[SourceCounts, ...]
    remarks: tuple[ConversionNote, ...]

    def to_dict(self) -> dict[str, Any]:
        """The report as plain values, with totals over the sources."""
        totals = {name: sum(getattr(counts, name) for counts in self.sources) for name in ("read", "emitted", "invalid", "skipped")}
        return {**msgspec.to_builtins(self), "totals": totals}


class ImportState:
    """What is known of all sources while they are read."""

    def __init__(self, *, follows_files: bool = False, wants_turns: bool = False) -> None:
        self.wants_turns = wants_turns
        """Whole conversations are wanted, not only questions and answers."""
        self.follows_files = follows_files
        """Files that a source names are read too, as far as they are below its folder."""
        self.tool = ""
        self.left_out: Counter[str] = Counter()
        self.incomplete: list[str] = []
        """What is missing in files that the other tool has not finished, one sentence each."""
        self._versions: dict[str, None] = {}
        self._times: dict[str, None] = {}
        self._parameters: dict[str, dict[str, Any]] = {}

    @property
    def version(self) -> str:
        """Of the tool; all of them where the files come from several."""
        return ", ".join(self._versions)

    @property
    def created_at(self) -> str:
        """When the other tool made its runs, in its own words."""
        return ", ".join(self._times)

    def note_run(self, *, version: str = "", created_at: str = "") -> None:
        """Take down what a file says of its making."""
        self._versions |= {version: None} if version else {}
        self._times |= {created_at: None} if created_at else {}

    def note_parameters(self, candidate: str, given: dict[str, Any]) -> None:
        """Record the sampling parameters of one request, or of a whole file; values that differ between requests are dropped."""
        known = self._parameters.setdefault(candidate, given)
        for name in known.keys() | given.keys():
            if known.get(name) is not _DIFFERS and known.get(name) != given.get(name):
                known[name] = _DIFFERS
            self.leave_out(f"{name}, which differs between requests", int(known.get(name) is _DIFFERS))

    def parameters_of(self, candidate: str) -> dict[str, Any]:
        """The sampling parameters that all answers of a candidate were asked for with."""
        return {name: value for name, value in self._parameters.get(candidate, {}).items() if value is not _DIFFERS}

    def leave_out(self, name: str, times: int = 1) -> None:
        """Count something that has no place here."""
        if times:
            self.left_out[name] += times
