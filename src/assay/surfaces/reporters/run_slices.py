"""The slices of one or several runs into the rows of a table."""

from collections.abc import Sequence

import msgspec

from assay.surfaces.reporters.run_numbers import figure_text
from assay.surfaces.reporters.run_profile import headline_text, profile_name
from assay.surfaces.reporters.run_view import Json, RunReport, SliceValue

MAX_ROWS = 12
"""Rows that are shown unless all are called for."""
FEWEST_VALUES = 4
"""Values that are shown however many candidates have a row for each."""
NO_VALUE = "(none)"
HEADLINE = "headline"
"""The figure of a profile, which stands for the mean."""


class SliceMean(msgspec.Struct, frozen=True):
    """Which mean of the scores is shown, and what it is called."""

    member: str
    title: str

    def text(self, metrics: Json) -> str:
        """The mean with its interval."""
        if self.member == HEADLINE:
            return headline_text(metrics["profile"])
        return figure_text(metrics, self.member)


class SliceRow(msgspec.Struct, frozen=True, kw_only=True):
    """A value of a slice in one run; its texts are as they came."""

    name: str
    value: str
    candidate: str
    n: str
    """Records with a score."""
    pass_rate: str
    mean: str


class SliceTable(msgspec.Struct, frozen=True, kw_only=True):
    """The rows to show, and how many values have none."""

    rows: tuple[SliceRow, ...]
    omitted: int
    mean: SliceMean


def slice_table(views: Sequence[RunReport], *, is_verbose: bool) -> SliceTable:
    """A row for each value and run, those of one value below each other."""
    values: dict[tuple[str, str | None], list[tuple[RunReport, SliceValue]]] = {}
    for view in views:
        for found in view.slices:
            values.setdefault((found.name, found.value), []).append((view, found))
    limit = len(values) if is_verbose else max(FEWEST_VALUES, MAX_ROWS // len(views))
    shown = list(values.values())[:limit]
    mean = shared_mean(views)
    return SliceTable(
        rows=tuple(_row(view, found, mean=mean) for same in shown for view, found in same),
        omitted=len(values) - len(shown) + max(view.omitted_slice_values for view in views),
        mean=mean,
    )


def shared_mean(views: Sequence[RunReport]) -> SliceMean:
    """The headline of a profile that all runs share; else means, which on different scales say nothing unless brought to 0-1."""
    names = {profile_name(found) if (found := view.result.metrics.get("profile")) else "" for view in views if view.result.metrics}
    if len(names) == 1 and names != {""}:
        return SliceMean(HEADLINE, names.pop())
    scales = {view.result.metrics.get("scale") for view in views if view.result.metrics.get("n_scored")}
    return (
        SliceMean("score_mean", "mean of 0-1") if None in scales or len(scales) > 1 else SliceMean("raw_score_mean", "mean score")
    )


def _row(view: RunReport, found: SliceValue, *, mean: SliceMean) -> SliceRow:
    figures = found.figures
    return SliceRow(
        name=found.name,
        value=NO_VALUE if found.value is None else found.value,
        candidate=view.result.candidate or view.result.run_id,
        n=f"{figures['n_scored']:,}",
        pass_rate=figure_text(figures, "pass_rate"),
        mean=mean.text(figures),
    )
