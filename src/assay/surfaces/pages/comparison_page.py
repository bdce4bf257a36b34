"""The page of a comparison: what changed between two runs, whether it is significant, which records flipped and how."""

from collections.abc import Iterator, Sequence
from typing import Any, Literal
from urllib.parse import urlencode

import msgspec

from assay import api
from assay.core.run_result import RunListing
from assay.presentation.comparison import (
    comparison_charts,
    conclusion_mark,
    difference_table,
    flip_mark,
    flip_name,
    flip_scores,
    further_notes,
    key_metrics,
    named_table,
    score_text,
    shown_slices,
    side_table,
    slice_table,
)
from assay.presentation.sections import Badge, Cell, DecisionView, Fact, KeyMetric, Table
from assay.presentation.words import NOT_PASSED, PASSED, counted, rate
from assay.surfaces.pages.diffs import AnswerDiff, sides
from assay.surfaces.pages.page_renderer import ChartPair, PageLinks, chart_pair, text_cell

FLIPS = 10
"""Flips on one page."""
OFFERED = 500
"""Runs that a field offers; any other can be typed."""
SUGGESTED = 8
Direction = Literal["worse", "better"]


class CompareChoice(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Runs that a reader compares, and which of their flips are shown."""

    before: str = ""
    after: str = ""
    cluster: str = ""
    """Member of the metadata by which records are clustered; empty takes the plan's."""
    flips: Direction | None = None
    start: int = 0
    """First flip of the page."""

    def address(self, path: str = "/compare", **changed: object) -> str:
        """Return the address with some members changed; defaults are left out."""
        chosen = msgspec.structs.replace(self, **changed)
        defaults = CompareChoice()
        given = {name: getattr(chosen, name) for name in CompareChoice.__struct_fields__}
        # Short addresses can be read, and a page has one address however it was reached.
        said = {name: value for name, value in given.items() if value != getattr(defaults, name) and value is not None}
        return path + (f"?{urlencode(said)}" if said else "")


class RunOption(msgspec.Struct, frozen=True):
    """A run that can be chosen."""

    run_id: str
    text: str
    address: str = ""
    """Comparison with it, where the other run is chosen."""


class FlipSideView(msgspec.Struct, frozen=True, kw_only=True):
    """What one run says of a flip."""

    title: str
    mark: Badge
    score: str
    why: str
    address: str
    """Record's page in that run."""


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
    """Page of this flip alone."""


class ExcludedRecordsView(msgspec.Struct, frozen=True, kw_only=True):
    """Records that were not compared."""

    title: str
    says: str
    records: tuple[Cell, ...]
    more: int


class ComparisonOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """What a comparison found."""

    verdict: DecisionView
    notes: tuple[str, ...]
    sides: Table
    differences: Table
    key_figures: tuple[KeyMetric, ...]
    drawings: tuple[ChartPair, ...]
    named: Table | None
    """Checks and graders that both runs have."""
    slices: Table | None
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
    """Page with two runs, or with the form that asks for them."""

    choice: CompareChoice
    offers: tuple[RunOption, ...]
    swapped_address: str
    suggestions: tuple[RunOption, ...] = ()
    """Runs on the same dataset as the one that is chosen."""
    problem: str = ""
    hint: str = ""
    outcome: ComparisonOutcome | None = None
    is_pending: bool = False
    """Runs are being compared at this moment."""
    records: int = 0
    """How many records that are."""


def compare_page(listings: Sequence[RunListing], choice: CompareChoice) -> ComparePage:
    """Return the form, with the runs that can be chosen; the caller adds what came of the choice."""
    finished = [listing for listing in listings if listing.is_finished]
    # The newer run first: suggestions are runs on its dataset.
    chosen = next((listing for listing in finished if listing.run_id in (choice.after, choice.before)), None)
    # With one run chosen the other side is suggested; with two or none there is nothing to complete.
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
    """Return everything that a comparison found; the caller adds the flips of the page."""
    found = measured.comparison
    verdict = conclusion_mark(found)
    wanted = chosen_flips(measured, choice.flips)
    last = min(choice.start + FLIPS, len(wanted))
    return ComparisonOutcome(
        # Pages write a mark in lower case, where capitals would shout next to a heading.
        verdict=DecisionView(msgspec.structs.replace(verdict.mark, text=verdict.mark.text.lower()), verdict.reason),
        notes=tuple(further_notes(found)),
        sides=side_table(found, place),
        differences=_differences(found),
        key_figures=tuple(key_metrics(found)),
        drawings=tuple(map(chart_pair, comparison_charts(found))),
        named=named_table(found) if found.checks or found.graders else None,
        slices=_slices(found) if found.slices else None,
        n_flips=found.n_flips,
        # Filled in by the caller, which reads only the ten flips of the page from the artifacts.
        flips=(),
        flips_problem="",
        filters=tuple(_filters(found, choice)),
        page=f"{choice.start + 1:,} to {last:,} of {len(wanted):,}" if wanted else "none",
        # The fragment keeps the reader at the list when the page loads again.
        previous_address=choice.address(start=max(0, choice.start - FLIPS)) + "#flips" if choice.start else "",
        next_address=choice.address(start=last) + "#flips" if last < len(wanted) else "",
        listings=tuple(_listings(found, place)),
    )


def chosen_flips(measured: api.StoredComparison, direction: Direction | None) -> tuple[int, ...]:
    """Return the numbers of the flips that a reader wants to see."""
    return tuple(number for number, flip in enumerate(measured.flips) if direction is None or flip.direction == direction)


def _differences(found: api.RunComparison) -> Table:
    table = difference_table(found).titled("figure", "before", "after", "difference", "p")
    rows = tuple((msgspec.structs.replace(name, text=name.text.capitalize()), *others) for name, *others in table.rows)
    unit = "records" if found.n_clusters is None else f"records in {found.n_clusters:,} clusters by {found.cluster}"
    return msgspec.structs.replace(table, rows=rows, note=f"Over {found.n:,} {unit}.")


def _slices(found: api.RunComparison) -> Table:
    omitted = shown_slices(found, is_verbose=False)[1]
    note = f"… and {counted(omitted, 'more value')}; the smallest p values come first." if omitted else ""
    return msgspec.structs.replace(slice_table(found, is_verbose=False), note=note)


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
        # The first run has the record in all cases but one, so that is where its link leads.
    )
    for title, listed, run_id, says in kinds:
        if listed.count:
            cells = tuple(text_cell(name, address=place.records(run_id, text=name), is_code=True) for name in listed.record_ids)
            yield ExcludedRecordsView(title=f"{title}: {listed.count:,}", says=says, records=cells, more=listed.count - len(cells))


def flip_view(flip: api.Flip, number: int, *, choice: CompareChoice, place: PageLinks, is_whole: bool = False) -> FlipView:
    """Return a flip with its answers side by side; `number` is its place in the whole list."""
    before, after = flip.before, flip.after
    return FlipView(
        number=number,
        name=flip_name(flip),
        mark=flip_mark(flip),
        scores=flip_scores(flip),
        before=_flip_side("Before", before, address=place.record(choice.before, before.index)),
        after=_flip_side("After", after, address=place.record(choice.after, after.index)),
        answers=sides(before.answer, after.answer, is_whole=is_whole),
        address=choice.address("/compare/flip", start=number),
    )


def _flip_side(title: str, side: Any, *, address: str) -> FlipSideView:
    mark = Badge(PASSED, "good") if side.passed else Badge(NOT_PASSED, "bad", side.label or "")
    return FlipSideView(title=title, mark=mark, score=score_text(side), why=side.justification or "", address=address)


class FlipPage(msgspec.Struct, frozen=True, kw_only=True):
    """One flip alone, with all of both answers."""

    flip: FlipView
    facts: tuple[Fact, ...]
    back_address: str
    previous_address: str
    next_address: str
    position: str


def flip_page(flip: FlipView, measured: api.StoredComparison, *, choice: CompareChoice) -> FlipPage:
    """Return the page of one flip, with the way to its neighbours."""
    numbers = chosen_flips(measured, choice.flips)
    # A flip of the other direction may be opened by its address; then the list begins at its first.
    at = numbers.index(flip.number) if flip.number in numbers else 0
    found = measured.comparison
    return FlipPage(
        flip=flip,
        facts=(
            Fact("Before", f"{found.before.run_id} · {found.before.candidate}"),
            Fact("After", f"{found.after.run_id} · {found.after.candidate}"),
        ),
        # Back to the page of the list that has this flip.
        back_address=choice.address(start=at - at % FLIPS) + "#flips",
        previous_address=choice.address("/compare/flip", start=numbers[at - 1]) if at else "",
        next_address=choice.address("/compare/flip", start=numbers[at + 1]) if at + 1 < len(numbers) else "",
        position=f"{at + 1:,} of {len(numbers):,}",
    )
