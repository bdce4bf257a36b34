"""Two runs beside each other as a page: what changed, whether it can be believed, which records flipped and how."""

from collections.abc import Iterator, Sequence
from typing import Any, Literal
from urllib.parse import urlencode

import msgspec

from assay import api
from assay.core.run_result import RunListing
from assay.surfaces.charts import Caption, FlipChartData, IntervalRow, PlottedEstimate, difference_plot, flip_chart
from assay.surfaces.pages import display_values
from assay.surfaces.pages.diffs import AnswerDiff, sides
from assay.surfaces.pages.display_values import DASH, Badge, DecisionView, DisplayValue, Fact, KeyMetric, Kind
from assay.surfaces.pages.links import PageLinks
from assay.surfaces.pages.tables import ChartPair, PageCell, PageColumn, PageTable, drawing, text_cell
from assay.surfaces.reporters.comparison_words import (
    conclusion,
    detectable_text,
    p_text,
    rate_change,
    score_change,
    shown_slices,
    told_notes,
)
from assay.surfaces.reporters.run_numbers import decimal, level_name, rate
from assay.surfaces.reporters.wording import counted, first_datasets

FLIPS = 10
"""Flips on one page."""
OFFERED = 500
"""Runs that a field offers; any other can be typed."""
SUGGESTED = 8
_KINDS: dict[str, Kind] = {"IMPROVED": "good", "WORSE": "bad", "UNDECIDED": "warn"}
_DIRECTIONS: dict[str, Badge] = {
    "worse": Badge("worse", "bad", "It passed before and does not pass any more."),
    "better": Badge("better", "good", "It did not pass before and passes now."),
}
Direction = Literal["worse", "better"]


class CompareChoice(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which runs a reader wants to see beside each other, and which of their flips."""

    before: str = ""
    after: str = ""
    cluster: str = ""
    """Member of the metadata whose records hang together; empty takes the plan's."""
    flips: Direction | None = None
    start: int = 0
    """The first flip of the page."""

    def address(self, path: str = "/compare", **changed: Any) -> str:
        """The same with some members changed; what is at its default is not said."""
        chosen = msgspec.structs.replace(self, **changed)
        defaults = CompareChoice()
        given = {name: getattr(chosen, name) for name in CompareChoice.__struct_fields__}
        said = {name: value for name, value in given.items() if value != getattr(defaults, name) and value is not None}
        return path + (f"?{urlencode(said)}" if said else "")


class RunOption(msgspec.Struct, frozen=True):
    """A run that can be chosen."""

    run_id: str
    text: str
    address: str = ""
    """The comparison with it, where the other run is chosen."""


class FlipSideView(msgspec.Struct, frozen=True, kw_only=True):
    """What one run says of a flip."""

    title: str
    mark: Badge
    score: str
    why: str
    address: str
    """The record's page in that run."""


class FlipView(msgspec.Struct, frozen=True, kw_only=True):
    """A record that changed sides."""

    number: int
    name: str
    mark: Badge
    scores: str
    before: FlipSideView
    after: FlipSideView
    answers: AnswerDiff
    address: str
    """The page of this flip alone."""


class ExcludedRecordsView(msgspec.Struct, frozen=True, kw_only=True):
    """Records that were not compared."""

    title: str
    says: str
    records: tuple[PageCell, ...]
    more: int


class ComparisonOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """What a comparison found."""

    verdict: DecisionView
    notes: tuple[str, ...]
    sides: PageTable
    differences: PageTable
    key_figures: tuple[KeyMetric, ...]
    drawings: tuple[ChartPair, ...]
    slices: PageTable | None
    n_flips: int
    flips: tuple[FlipView, ...]
    flips_problem: str
    """Why no answers can be shown."""
    filters: tuple[tuple[str, str, bool], ...]
    """Text, address, and whether it is chosen."""
    page: str
    previous_address: str
    next_address: str
    listings: tuple[ExcludedRecordsView, ...]


class ComparePage(msgspec.Struct, frozen=True, kw_only=True):
    """The page with two runs, or with the form that asks for them."""

    choice: CompareChoice
    offers: tuple[RunOption, ...]
    swapped_address: str
    suggestions: tuple[RunOption, ...] = ()
    """Runs on the same dataset as the one that is chosen."""
    problem: str = ""
    hint: str = ""
    outcome: ComparisonOutcome | None = None
    is_pending: bool = False
    """The runs are being compared at this moment."""
    records: int = 0
    """How many records that are."""


def compare_page(listings: Sequence[RunListing], choice: CompareChoice) -> ComparePage:
    """The form, with the runs that can be chosen; the caller adds what came of the choice."""
    finished = [listing for listing in listings if listing.is_finished]
    chosen = next((listing for listing in finished if listing.run_id in (choice.after, choice.before)), None)
    is_half = bool(choice.before) != bool(choice.after)
    alike = [run for run in finished if chosen and run.run_id != chosen.run_id and run.dataset == chosen.dataset]
    side = "before" if choice.after else "after"
    return ComparePage(
        choice=choice,
        offers=tuple(RunOption(listing.run_id, _offered(listing)) for listing in finished[:OFFERED]),
        swapped_address=choice.address(before=choice.after, after=choice.before, start=0) if choice.before and choice.after else "",
        suggestions=tuple(
            RunOption(run.run_id, _offered(run), choice.address(**{side: run.run_id})) for run in alike[:SUGGESTED] if is_half
        ),
        records=max((run.total_records for run in finished if run.run_id in (choice.before, choice.after)), default=0),
    )


def _offered(listing: RunListing) -> str:
    parts = (listing.candidate, listing.dataset, f"pass rate {rate(listing.pass_rate)}", listing.created_at[:10])
    return " · ".join(part for part in parts if part)


def outcome_of(measured: api.StoredComparison, choice: CompareChoice, *, place: PageLinks) -> ComparisonOutcome:
    """Everything that a comparison found; the caller adds the flips of the page."""
    found = measured.comparison
    word, reason = conclusion(found)
    wanted = chosen_flips(measured, choice.flips)
    last = min(choice.start + FLIPS, len(wanted))
    return ComparisonOutcome(
        verdict=DecisionView(Badge(word.lower(), _KINDS[word], "About the difference of pass rates, at 95 %."), reason),
        notes=tuple(told_notes(found)),
        sides=_sides(found, place),
        differences=_differences(found),
        key_figures=tuple(_key_figures(found)),
        drawings=tuple(_drawings(found)),
        slices=_slices(found) if found.slices else None,
        n_flips=found.n_flips,
        flips=(),
        flips_problem="",
        filters=tuple(_filters(found, choice)),
        page=f"{choice.start + 1:,} to {last:,} of {len(wanted):,}" if wanted else "none",
        previous_address=choice.address(start=max(0, choice.start - FLIPS)) + "#flips" if choice.start else "",
        next_address=choice.address(start=last) + "#flips" if last < len(wanted) else "",
        listings=tuple(_listings(found, place)),
    )


def chosen_flips(measured: api.StoredComparison, direction: Direction | None) -> tuple[int, ...]:
    """The numbers of the flips that a reader wants to see."""
    return tuple(number for number, flip in enumerate(measured.flips) if direction is None or flip.direction == direction)


def _datasets(names: tuple[str, ...]) -> str:
    listed, more = first_datasets(names)
    return ", ".join(listed) + (more and f" {more}")


def _sides(found: api.RunComparison, place: PageLinks) -> PageTable:
    rows = tuple(
        (
            text_cell(label),
            text_cell(side.run_id, address=place.run(side.run_id), is_code=True),
            text_cell(side.candidate),
            text_cell(", ".join(side.judges) or DASH),
            text_cell(_datasets(side.datasets)),
            text_cell(f"{side.records:,}"),
        )
        for label, side in (("Before", found.before), ("After", found.after))
    )
    columns = (
        PageColumn("Side"),
        PageColumn("Run"),
        PageColumn("Candidate", "The model that answered."),
        PageColumn("Judge", "Who graded the answers."),
        PageColumn("Dataset"),
        PageColumn("Records", "Records of this run, compared or not.", is_number=True),
    )
    return PageTable(caption="The two runs", columns=columns, rows=rows)


def _differences(found: api.RunComparison) -> PageTable:
    before, after, n = found.before, found.after, found.n
    rows = (
        _difference("Pass rate", (before.pass_rate, after.pass_rate), found.passes, p=found.p_passes, span=1.0, is_rate=True),
        # Without a common grade there is no scale that the scores share.
        _difference(
            f"Score {found.scale}" if n else "Score", (before.mean, after.mean), found.scores, p=found.p_scores, span=found.span
        ),
    )
    unit = "records" if found.n_clusters is None else f"records in {found.n_clusters:,} clusters by {found.cluster}"
    columns = (
        PageColumn("Figure"),
        PageColumn("Before", f"Over the {n:,} records that both runs graded.", is_number=True),
        PageColumn("After", f"Over the same {n:,} records.", is_number=True),
        PageColumn(
            "Difference", f"After minus before (pp: percentage points), with its 95 % interval over {n:,} {unit}.", is_number=True
        ),
        PageColumn(
            "p",
            "Probability of this difference or more if neither run is better: McNemar's test for results, t test for scores.",
            is_number=True,
        ),
    )
    return PageTable(caption="Differences", columns=columns, rows=rows, note=f"Over {n:,} {unit}.")


def _difference(
    name: str, levels: tuple[float | None, float | None], found: Any, *, p: float | None, span: float, is_rate: bool = False
) -> tuple[PageCell, ...]:
    interval = None if found.interval is None else (found.interval.low, found.interval.high)
    bar = display_values.whisker(found.value, interval, domain=(-span, span))
    shown = (rate_change if is_rate else score_change)(found, before=levels[0], after=levels[1])
    says = f"{name}: {shown} over {found.n:,}{f'; {found.reason}' if found.reason else ''}"
    return (
        text_cell(name),
        *(text_cell(display_values.shown((rate if is_rate else decimal)(level))) for level in levels),
        PageCell(figure=DisplayValue(display_values.shown(shown), says), bar=bar),
        text_cell(display_values.shown(p_text(p))),
    )


def _key_figures(found: api.RunComparison) -> Iterator[KeyMetric]:
    test, of_all = found.mcnemar, f"of {found.n:,} compared records"
    same = found.both_passed + found.both_failed
    left_out = found.unscored.count + found.changed.count + found.missing.count + found.added.count
    unit = "records" if found.n_clusters is None else "clusters"
    would_show = f"The smallest true difference in pass rate that 4 of 5 comparisons with this number of {unit} would detect."
    counts = (
        ("Compared", f"{found.n:,}", "Records that both runs graded, with the same contents."),
        ("Worse", f"{test.worse:,}", f"Passed before, not after; {of_all}."),
        ("Better", f"{test.better:,}", f"Passed after, not before; {of_all}."),
        ("Same result", f"{same:,}", f"{found.both_passed:,} passed in both, {found.both_failed:,} in neither; {of_all}."),
        ("Not compared", f"{left_out:,}", "Without a grade, changed, or in one run only; listed below."),
        ("Smallest detectable difference", display_values.shown(detectable_text(found)), would_show),
    )
    yield from (KeyMetric(label=label, figure=DisplayValue(text, says)) for label, text, says in counts)


def _drawings(found: api.RunComparison) -> Iterator[ChartPair]:
    test = found.mcnemar
    fates = FlipChartData(both_passed=found.both_passed, gained=test.better, lost=test.worse, both_failed=found.both_failed)
    note = f"{counted(found.n, 'record')} that both runs graded"
    yield drawing("Records by result", lambda width: flip_chart(fates, Caption("Records by result", note, width)))
    if found.slices:
        shown, omitted = shown_slices(found, is_verbose=False)
        rows = [_plotted(row) for row in sorted(shown, key=lambda row: row.slice)]
        title = "Difference of pass rates by slice"
        yield drawing(
            title, lambda width: difference_plot(rows, Caption(title, "after - before · 95 % intervals", width), omitted=omitted)
        )


def _plotted(row: Any) -> IntervalRow:
    interval = row.passes.interval
    ends = (None, None) if interval is None else (interval.low, interval.high)
    return IntervalRow(_value(row.value), PlottedEstimate(ends[0], row.passes.value, ends[1], row.n, is_rate=True), row.slice)


def _value(value: str | None) -> str:
    return "(none)" if value is None else value


def _slices(found: api.RunComparison) -> PageTable:
    shown, omitted = shown_slices(found, is_verbose=False)
    rows = tuple(
        (
            text_cell(f"{row.slice}: {_value(row.value)}"),
            text_cell(f"{row.n:,}"),
            text_cell(display_values.shown(rate_change(row.passes))),
            text_cell(display_values.shown(score_change(row.scores))),
            text_cell(display_values.shown(p_text(row.p_adjusted))),
        )
        for row in shown
    )
    columns = (
        PageColumn("Slice", "A member of the records and its value."),
        PageColumn("n", "Compared records with this value.", is_number=True),
        PageColumn("Pass rate", "After minus before in percentage points (pp), with its 95 % interval.", is_number=True),
        PageColumn("Score", "After minus before, with its 95 % interval.", is_number=True),
        PageColumn("p (Holm)", "For the pass rates, corrected for the number of slices (Holm).", is_number=True),
    )
    note = f"… and {counted(omitted, 'more value')}; the smallest p values come first." if omitted else ""
    return PageTable(caption="Slices", columns=columns, rows=rows, note=note)


def _filters(found: api.RunComparison, choice: CompareChoice) -> Iterator[tuple[str, str, bool]]:
    counts: tuple[tuple[str, Direction | None, int], ...] = (
        ("All", None, found.n_flips),
        ("Worse", "worse", found.mcnemar.worse),
        ("Better", "better", found.mcnemar.better),
    )
    for text, direction, count in counts:
        yield f"{text} {count:,}", choice.address(flips=direction, start=0) + "#flips", choice.flips == direction


def _listings(found: api.RunComparison, place: PageLinks) -> Iterator[ExcludedRecordsView]:
    first, second = found.before.run_id, found.after.run_id
    kinds = (
        (
            "Changed",
            found.changed,
            first,
            "The same id with other contents; their scores cannot be compared.",
        ),
        ("Only before", found.missing, first, "The second run does not have them."),
        ("Only after", found.added, second, "The first run does not have them."),
        ("Without a grade", found.unscored, first, "In both runs, but without a grade in at least one."),
    )
    for title, listed, run_id, says in kinds:
        if listed.count:
            cells = tuple(text_cell(name, address=place.records(run_id, text=name), is_code=True) for name in listed.record_ids)
            yield ExcludedRecordsView(title=f"{title}: {listed.count:,}", says=says, records=cells, more=listed.count - len(cells))


def flip_view(flip: api.Flip, number: int, *, choice: CompareChoice, place: PageLinks, is_whole: bool = False) -> FlipView:
    """A flip with its answers side by side; `number` is its place in the whole list."""
    before, after = flip.before, flip.after
    name = flip.record_id if not flip.sample else f"{flip.record_id} (sample {flip.sample})"
    return FlipView(
        number=number,
        name=name,
        mark=_DIRECTIONS[flip.direction],
        scores=f"{_score(before.score)} → {_score(after.score)}",
        before=_told("Before", before, address=place.record(choice.before, before.index)),
        after=_told("After", after, address=place.record(choice.after, after.index)),
        answers=sides(before.answer, after.answer, is_whole=is_whole),
        address=choice.address("/compare/flip", start=number),
    )


def _score(score: float | None) -> str:
    return DASH if score is None else level_name(score)


def _told(title: str, told: Any, *, address: str) -> FlipSideView:
    mark = Badge("passed", "good") if told.passed else Badge("not passed", "bad", told.label or "")
    return FlipSideView(title=title, mark=mark, score=_score(told.score), why=told.justification or "", address=address)


class FlipPage(msgspec.Struct, frozen=True, kw_only=True):
    """One flip alone, with all of both answers."""

    flip: FlipView
    facts: tuple[Fact, ...]
    back_address: str
    previous_address: str
    next_address: str
    position: str


def flip_page(flip: FlipView, measured: api.StoredComparison, *, choice: CompareChoice) -> FlipPage:
    """The page of one flip, with the way to its neighbours."""
    numbers = chosen_flips(measured, choice.flips)
    at = numbers.index(flip.number) if flip.number in numbers else 0
    found = measured.comparison
    return FlipPage(
        flip=flip,
        facts=(
            Fact("Before", f"{found.before.run_id} · {found.before.candidate}"),
            Fact("After", f"{found.after.run_id} · {found.after.candidate}"),
        ),
        back_address=choice.address(start=at - at % FLIPS) + "#flips",
        previous_address=choice.address("/compare/flip", start=numbers[at - 1]) if at else "",
        next_address=choice.address("/compare/flip", start=numbers[at + 1]) if at + 1 < len(numbers) else "",
        position=f"{at + 1:,} of {len(numbers):,}",
    )
