"""Parts of an import: files, questions, answers, scores, and a report of what was not carried over."""

from collections import Counter
from pathlib import Path
from typing import Literal

import msgspec

from assay.core.errors import SourceUnreadable, UsageProblem
from assay.core.model_call import Usage
from assay.datasets.converters.report import ConversionCounts, ConversionNote, SourceCounts
from assay.datasets.converters.rows import Row
from assay.datasets.parsing.source import Source, open_source

ImportFormat = str
"""Name of a format, such as `inspect`; the integration `importers` lists them."""


class ImportedQuestion(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One question of a dataset, without any answer, so that all runs over it share the record."""

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
    checks: list[Row] = []
    """Checks of the answer that no model is called for, in the form of `metadata.checks`."""
    metadata: Row = {}

    @property
    def is_open(self) -> bool:
        """Return whether nothing describes a good answer for a judge; checks may still grade it."""
        return not (self.references or self.rubric or self.choices)


class ImportedAnswer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Answer of a model; what the source does not state is None."""

    text: str
    model: str = ""
    """Model that answered, according to the provider."""
    finish_reason: str = ""
    usage: Usage = Usage()
    cost: float | None = None
    request_id: str = ""


class ImportedScore(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Score of an answer by one scorer of the other tool."""

    scorer: str
    value: float | None = None
    """Value on the scorer's own scale; None if there is none, and then `reason` says why."""
    passed: bool | None = None
    """Verdict of the other tool; None if there is none."""
    explanation: str = ""
    reason: str = ""
    selected: str = ""
    """Choice, or part of the answer, that the scorer compared."""
    answer: str | None = None
    """Text that the scorer graded, if it is not the item's own answer."""
    judge: str = ""
    """Model that graded; empty if the source does not name it."""


class ImportedItem(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One question, one candidate, one answer."""

    question: ImportedQuestion
    candidate: str = ""
    """Empty without answers: a dataset, not a run."""
    sample: int = 0
    """Number among several answers to the question."""
    answer: ImportedAnswer | None = None
    marks: tuple[ImportedScore, ...] = ()
    error_code: str = ""
    error: str = ""
    """Error in the tool's words; an item with an error has no score, regardless of what its marks are."""
    turns: list[Row] = []
    """Whole conversation, if it was requested."""
    started_at: float | None = None
    latency_ms: float | None = None


_ZIP_MAGIC = b"PK\x03\x04"


class ImportSource:
    """One file to import."""

    def __init__(self, name: str, *, root: Path | None = None) -> None:
        """Open the file; raises SourceUnreadable if that fails, UsageProblem for standard input."""
        # The manifest names an imported file by its hash, and lets others verify it; a pipe leaves nothing to compare.
        if name == "-":
            raise UsageProblem("an import cannot be read from standard input", hint="name a file, whose hash the run will keep")
        self.name = name
        self.path = Path(name)
        self.root = root or self.path.absolute().parent
        """Folder below which files that this one names may be read: the given folder, or the file's own."""
        if self.path.is_dir():
            raise SourceUnreadable(f"'{name}' is a folder", hint="name its files")
        self.opened: Source = open_source(self.path)
        self.tally = ConversionCounts(name)

    @property
    def is_zip(self) -> bool:
        """Return whether the file is a zip archive."""
        return self.opened.head(len(_ZIP_MAGIC)) == _ZIP_MAGIC

    @property
    def ending(self) -> str:
        """Last suffix of the name, lower case and without `.gz`: `.jsonl`."""
        return Path(self.path.name.lower().removesuffix(".gz")).suffix


_DIFFERS = object()
"""Value of a parameter that is not the same in all requests."""


class SourceFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file that was read, identified by its content."""

    name: str
    sha256: str
    size: int


class DetectedFormat(msgspec.Struct, frozen=True):
    """Format of some files, and what it was recognized by."""

    format: ImportFormat
    evidence: dict[str, str]
    """For each file in words: `members doc_id, doc`."""


class ImportAbsence(msgspec.Struct, frozen=True):
    """Reason why a source gave no question: what it contains instead."""

    source: str
    reason: str
    hint: str = ""


ImportStatus = Literal["complete", "partial", "empty"]
"""complete: nothing but settings of the other tool was left out; empty: there is no record."""


class ImportReport(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of each source, every remark, and everything left out."""

    format: str
    recognized_by: dict[str, str]
    """What the format of each source was recognized by; empty where the caller named it."""
    status: ImportStatus
    tool: str
    version: str
    """Version of the tool that wrote the files; empty if they do not state it."""
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
    settings: tuple[str, ...]
    """Those of them that are settings of the other tool: they change neither a question nor how it is graded."""
    absences: tuple[ImportAbsence, ...]
    """Sources without a question, and what they contain instead."""
    incomplete: tuple[str, ...]
    """Files that hold less than the other tool was to evaluate, in words."""
    sources: tuple[SourceCounts, ...]
    remarks: tuple[ConversionNote, ...]

    def to_dict(self) -> dict[str, object]:
        """Convert to plain values, with totals over the sources."""
        totals = {name: sum(getattr(counts, name) for counts in self.sources) for name in ("read", "emitted", "invalid", "skipped")}
        return {**msgspec.to_builtins(self), "totals": totals}


class ImportState:
    """Facts about all sources, collected while they are read."""

    def __init__(self, *, follows_files: bool = True, wants_turns: bool = False) -> None:
        self.wants_turns = wants_turns
        """True if whole conversations are wanted, not only questions and answers."""
        self.follows_files = follows_files
        """True if files named by a source are read too, as far as they are below its folder."""
        self.tool = ""
        self.left_out: Counter[str] = Counter()
        self.settings: dict[str, None] = {}
        """Names in `left_out` of settings of the other tool, which change neither a question nor how it is graded."""
        self.absences: list[ImportAbsence] = []
        self.incomplete: list[str] = []
        """Missing parts of files that the other tool has not finished, one sentence each."""
        self.models: dict[str, None] = {}
        """Models that the other tool would ask, as `provider/model`."""
        self.judges: dict[str, None] = {}
        """Models that it would ask as judges."""
        self.pass_shares: Counter[float | None] = Counter()
        """Score from which a question's answer passes, and how many questions have it; None where all demands have to be met."""
        self._versions: dict[str, None] = {}
        self._times: dict[str, None] = {}
        self._parameters: dict[str, dict[str, object]] = {}

    @property
    def version(self) -> str:
        """Return the version of the tool; all versions if the files come from several."""
        return ", ".join(self._versions)

    @property
    def created_at(self) -> str:
        """Times of the runs, in the other tool's own words."""
        return ", ".join(self._times)

    def note_run(self, *, version: str = "", created_at: str = "") -> None:
        """Record version and time that a file states."""
        self._versions |= {version: None} if version else {}
        self._times |= {created_at: None} if created_at else {}

    def note_parameters(self, candidate: str, given: dict[str, object]) -> None:
        """Record the sampling parameters of one request, or of a whole file; values that differ between requests are dropped."""
        # A run has one set of parameters; one that differs between requests is left out rather than guessed.
        known = self._parameters.setdefault(candidate, given)
        for name in known.keys() | given.keys():
            if known.get(name) is not _DIFFERS and known.get(name) != given.get(name):
                known[name] = _DIFFERS
            self.leave_out(f"{name}, which differs between requests", int(known.get(name) is _DIFFERS))

    def parameters_of(self, candidate: str) -> dict[str, object]:
        """Return the sampling parameters that all requests of a candidate share."""
        return {name: value for name, value in self._parameters.get(candidate, {}).items() if value is not _DIFFERS}

    def leave_out(self, name: str, times: int = 1, *, is_setting: bool = False) -> None:
        """Count something that has no place here."""
        if times:
            self.left_out[name] += times
            self.settings |= {name: None} if is_setting else {}

    def note_absence(self, source: ImportSource, reason: str, *, hint: str = "") -> None:
        """Record that a source has no question, and what it contains instead."""
        self.absences.append(ImportAbsence(source.name, reason, hint))
        source.tally.note("left_out", reason)
