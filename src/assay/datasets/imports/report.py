"""What an import says of itself: counts, what was refused, and everything that has no place here, by name."""

from collections import Counter
from typing import Any

import msgspec

from assay.datasets.converters.report import ConversionNote, SourceCounts

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
