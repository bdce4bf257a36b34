"""Verdicts on tool calls into counts and rates, in all and for each tool."""

from collections import Counter

import msgspec

from assay.core.summary import MeanBounds, ToolCallSummary, ToolMetrics
from assay.core.tools import ToolCallResults
from assay.metrics.intervals import wilson


class ToolCallCounter:
    """Counts of a run, added record by record; they need no memory for records."""

    def __init__(self) -> None:
        self.records = 0
        self._total: Counter[str] = Counter()
        self._tools: dict[str, Counter[str]] = {}

    def add(self, results: ToolCallResults) -> None:
        """Add the calls of one record."""
        self.records += 1
        for one in results.verdicts:
            wanted = None if one.expected is None else results.expected[one.expected].name
            made = None if one.made is None else results.made[one.made].name
            # Where any call is right, the tool was called when it should be.
            is_free = wanted is None and one.verdict == "correct"
            is_named = made is not None and (made == wanted or is_free)
            is_unreadable = made is not None and results.made[one.made or 0].arguments is None
            for counts in (self._total, *([self._of(wanted)] if wanted is not None else [])):
                if wanted is not None:
                    counts["expected"] += 1
                    counts["unknown"] += one.verdict == "unknown"
                    counts["name_correct"] += is_named
                    counts["arguments_correct"] += one.verdict == "correct"
            for counts in (self._total, *([self._of(made)] if made is not None else [])):
                if made is not None:
                    counts["made"] += 1
                    counts["wanted"] += is_named
                    counts["not_json"] += is_unreadable
            # In all, a wrong tool in the place of another is one call of each; for the tools it is one missing and one extra.
            if wanted is not None and made is None and one.verdict == "missing":
                self._total["missing"] += 1
            if made is not None and wanted is None and not is_free:
                self._total["extra"] += 1
            if wanted is not None and not is_named and one.verdict != "unknown":
                self._of(wanted)["missing"] += 1
            if made is not None and not is_named:
                self._of(made)["extra"] += 1

    def _of(self, tool: str) -> Counter[str]:
        return self._tools.setdefault(tool, Counter())

    def summary(self) -> ToolCallSummary:
        """Return the counts with their rates and intervals."""
        tools = {name: _metrics(self._tools[name]) for name in sorted(self._tools)}
        return ToolCallSummary(**msgspec.structs.asdict(_metrics(self._total)), records=self.records, tools=tools)


def _metrics(counts: Counter[str]) -> ToolMetrics:
    expected, made, unknown = counts["expected"], counts["made"], counts["unknown"]
    scored, correct, named = expected - unknown, counts["arguments_correct"], counts["name_correct"]
    return ToolMetrics(
        expected=expected,
        scored=scored,
        made=made,
        name_correct=named,
        arguments_correct=correct,
        missing=counts["missing"],
        extra=counts["extra"],
        not_json=counts["not_json"],
        unknown=unknown,
        called_rate=_rate(named, scored),
        called_rate_interval=wilson(named, scored),
        correct_rate=_rate(correct, scored),
        correct_rate_interval=wilson(correct, scored),
        correct_rate_bounds=MeanBounds(worst=_rate(correct, expected), best=_rate(correct + unknown, expected), n=expected),
        wanted_rate=_rate(counts["wanted"], made),
        wanted_rate_interval=wilson(counts["wanted"], made),
    )


def _rate(part: int, whole: int) -> float | None:
    return part / whole if whole else None
