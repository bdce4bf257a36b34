"""List of runs: which of them, in which order, and a row for each."""

from collections.abc import Sequence
from typing import Literal, get_args
from urllib.parse import urlencode

import msgspec

from assay.core.run_result import RunListing
from assay.core.runs import State
from assay.presentation.run_list import LIST_COLUMNS, ListedRun, Sort, listed_run
from assay.presentation.sections import Column
from assay.presentation.words import counted, is_live
from assay.surfaces.pages.page_renderer import PageLinks, titled

StateChoice = Literal[State, "interrupted", "damaged", "unreachable", "unfinished", "finished"]
PAGE = 50


class RunsChoice(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which runs a reader wants to see, and how."""

    q: str = ""
    """Found in an id, a dataset, a candidate or a judge, regardless of the case."""
    state: StateChoice | None = None
    dataset: str = ""
    model: str = ""
    sort: Sort = "created"
    order: Literal["asc", "desc"] = "desc"
    after: str = ""
    """Last run of the page before."""

    @property
    def is_filtered(self) -> bool:
        """True when some runs may be left out."""
        return bool(self.q or self.state or self.dataset or self.model)


class LiveChoice(RunsChoice, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Same for a page that follows the list, with what it showed: a run may start or end before the connection is open."""

    since: str = ""
    """When the newest run was created of which the list knew; without it that list is the one of now."""
    unfinished: str = ""
    """Ids of its rows that were to change, with commas between them."""


class RunListRow(msgspec.Struct, frozen=True, kw_only=True):
    """A run in the list."""

    run_id: str
    address: str
    dataset: str
    candidate: str
    judges: str
    done: int
    total: int
    note: str
    words: ListedRun
    pace: str = ""
    """How fast it goes and how long it will take, while that is known."""


class SortableColumn(msgspec.Struct, frozen=True, kw_only=True):
    """A column that the list can be sorted by."""

    text: str
    says: str
    address: str
    sorted: Literal["ascending", "descending", ""]
    is_number: bool = False


class FilterOption(msgspec.Struct, frozen=True):
    """A choice of a filter."""

    value: str
    text: str
    is_chosen: bool


class RunsView(msgspec.Struct, frozen=True, kw_only=True):
    """Page of runs."""

    choice: RunsChoice
    rows: tuple[RunListRow, ...]
    headings: tuple[SortableColumn, ...]
    states: tuple[FilterOption, ...]
    datasets: tuple[FilterOption, ...]
    models: tuple[FilterOption, ...]
    summary: str
    """How many there are, and how many are shown."""
    is_empty: bool
    """True when there is no run at all, with or without filters."""
    live_address: str
    next_address: str
    first_address: str
    clear_address: str
    server_address: str
    """Where programs reach this server."""


def runs_view(listings: Sequence[RunListing], choice: RunsChoice, *, place: PageLinks, server_address: str) -> RunsView:
    """Return one page of the runs that a reader wants to see; the listings are all there are, the newest first."""
    found = sort_runs([listing for listing in listings if is_wanted(listing, choice)], choice)
    # By id and not by a page number: new runs would move the rows between two clicks.
    start = next((number + 1 for number, listing in enumerate(found) if listing.run_id == choice.after), 0)
    shown = found[start : start + PAGE]
    more = len(found) > start + PAGE
    return RunsView(
        choice=choice,
        rows=tuple(run_row(listing, place=place) for listing in shown),
        headings=tuple(_heading(choice, place, sort, column) for sort, column in LIST_COLUMNS),
        states=_options(["unfinished", "finished", *get_args(State), "interrupted", "damaged", "unreachable"], choice.state or ""),
        datasets=_options(sorted({listing.dataset for listing in listings} - {""}), choice.dataset),
        models=_options(sorted({listing.candidate for listing in listings} - {""}), choice.model),
        summary=_summary(len(listings), len(found), start=start, shown=len(shown)),
        is_empty=not listings,
        # Only the first page follows the list: new runs appear at its top.
        live_address=_live_address(listings, shown, choice, place=place) if place.is_server and not choice.after else "",
        next_address=_address(place, choice, after=shown[-1].run_id) if more else "",
        first_address=_address(place, choice, after="") if start else "",
        clear_address=place.runs(),
        server_address=server_address,
    )


def _live_address(listings: Sequence[RunListing], shown: Sequence[RunListing], choice: RunsChoice, *, place: PageLinks) -> str:
    unfinished = ",".join(listing.run_id for listing in shown if is_live(listing))
    # The ids go into the address because the list may change between rendering and the opening of the stream.
    return "/live" + _address(place, choice, since=listings[0].created_at if listings else "", unfinished=unfinished)


def is_wanted(listing: RunListing, choice: RunsChoice) -> bool:
    """Return True for a run that no filter leaves out."""
    # All words have to occur, in any member and order.
    words = choice.q.casefold().split()
    text = " ".join((listing.run_id, listing.dataset, listing.candidate, *listing.judges)).casefold()
    # Both are groups of states; any other choice is one state.
    states = {None: True, "unfinished": is_live(listing), "finished": not is_live(listing)}
    return (
        states.get(choice.state, listing.standing == choice.state)
        and choice.dataset in ("", listing.dataset)
        and choice.model in ("", listing.candidate)
        and all(word in text for word in words)
    )


def sort_runs(listings: Sequence[RunListing], choice: RunsChoice) -> list[RunListing]:
    """Return the runs in the chosen order; those without the value come last in both directions, equals stay newest first."""
    # Listings come newest first, so there is nothing to sort.
    if choice.sort == "created":
        return list(listings) if choice.order == "desc" else list(reversed(listings))
    member = {"run": "run_id", "cost": "cost_usd"}.get(choice.sort, choice.sort)

    def key(listing: RunListing) -> str | float | None:
        found: str | float | None = getattr(listing, member)
        return found.casefold() if isinstance(found, str) else found

    # Apart, because None and a number cannot be compared.
    known = [listing for listing in listings if key(listing) not in (None, "")]
    unknown = [listing for listing in listings if key(listing) in (None, "")]
    return [*sorted(known, key=key, reverse=choice.order == "desc"), *unknown]  # type: ignore[arg-type]  # of one kind


def run_row(listing: RunListing, *, place: PageLinks, pace: str = "") -> RunListRow:
    """Return the row of one run."""
    return RunListRow(
        run_id=listing.run_id,
        address=place.run(listing.run_id),
        dataset=listing.dataset,
        candidate=listing.candidate,
        judges=", ".join(listing.judges),
        done=listing.done_records,
        total=listing.total_records,
        note=listing.note,
        words=listed_run(listing),
        pace=pace,
    )


def _heading(choice: RunsChoice, place: PageLinks, sort: Sort | None, column: Column) -> SortableColumn:
    is_sorted = sort == choice.sort
    # Names are looked for from A, numbers from the largest.
    first: Literal["asc", "desc"] = "asc" if sort in ("run", "dataset", "candidate") else "desc"
    turned: Literal["asc", "desc"] = "asc" if choice.order == "desc" else "desc"
    address = _address(place, choice, after="", sort=sort, order=turned if is_sorted else first) if sort else ""
    direction: Literal["ascending", "descending"] = "ascending" if choice.order == "asc" else "descending"
    return SortableColumn(
        text=titled(column.title),
        says=column.says,
        address=address,
        sorted=direction if is_sorted else "",
        is_number=column.is_number,
    )


def _options(values: Sequence[str], chosen: str) -> tuple[FilterOption, ...]:
    # A choice that no run has is still shown, or the form would drop it when it is sent again.
    known = [*values, *([chosen] if chosen and chosen not in values else [])]
    return tuple(
        FilterOption(value, value.replace("_", " ") if value in get_args(State) else value, value == chosen) for value in known
    )


def _summary(every: int, found: int, *, start: int, shown: int) -> str:
    which = counted(every, "run") if found == every else f"{found:,} of {counted(every, 'run')}"
    return which if shown == found else f"{which} · {start + 1:,} to {start + shown:,}"


def _address(place: PageLinks, choice: RunsChoice, **changes: str) -> str:
    """Return the address of the list with other choices; defaults are left out."""
    default = msgspec.structs.asdict(LiveChoice())
    wanted = {**msgspec.structs.asdict(choice), **changes}
    query = {name: value for name, value in wanted.items() if value != default[name] and value}
    return place.runs() + (f"?{urlencode(query)}" if query else "")
