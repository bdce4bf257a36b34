"""What an import says of itself: counts, what was refused, and everything that has no place here, by name."""

from collections import Counter
from typing import Any

import msgspec

from assay.datasets.converters.report import Remark, SourceCounts, Tally


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
    sources: tuple[SourceCounts, ...]
    remarks: tuple[Remark, ...]

    def to_dict(self) -> dict[str, Any]:
        """The report as plain values, with totals over the sources."""
        totals = {name: sum(getattr(counts, name) for counts in self.sources) for name in ("read", "emitted", "invalid", "skipped")}
        return {**msgspec.to_builtins(self), "totals": totals}


class Reading:
    """What is known of all sources while they are read."""

    def __init__(self, *, follows_files: bool = False, wants_turns: bool = False) -> None:
        self.wants_turns = wants_turns
        """Whole conversations are wanted, not only questions and answers."""
        self.follows_files = follows_files
        """Files that a source names are read too, as far as they are below its folder."""
        self.tool = ""
        self.version = ""
        self.model = ""
        """Who answered, where a file says it of all its answers."""
        self.created_at = ""
        """When the other tool made its run, in its own words."""
        self.tallies: list[Tally] = []
        self.left_out: Counter[str] = Counter()
        self.parameters: dict[str, Any] = {}
        """Sampling parameters that the source names."""

    def leave_out(self, name: str, times: int = 1) -> None:
        """Count something that has no place here."""
        if times:
            self.left_out[name] += times
