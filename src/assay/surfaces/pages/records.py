"""Records of a run: which of them, in which order, and a row for each."""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from assay import api
from assay.core.artifact_lines import FailureLine, PredictionLine
from assay.core.record_query import STATUS_GROUPS, RecordSearch, Sort
from assay.presentation.record import STATUSES, cost_value, row_marks, score_mark, verdict_mark
from assay.presentation.sections import Badge, DisplayValue
from assay.presentation.words import ERROR, counted, latency, shown, without_code
from assay.surfaces.pages.page_renderer import PageLinks
from assay.surfaces.pages.runs import FilterOption, SortableColumn

PAGE = 50
EXCERPT = 240
"""Characters of a question or an answer that a row shows; the page of the record has all of it."""
_WORDS = {
    "status": "status",
    "passed": "verdict",
    "min_score": "score from",
    "max_score": "score to",
    "tag": "tag",
    "slice": "slice",
    "criterion": "criterion",
    "met": "criteria",
    "code": "code",
    "text": "text",
    "flips": "disagreement",
    "against": "flipped against",
}
_FLIPS = {"judges": "judges disagree", "repeats": "repeats disagree"}
_SORTS: tuple[tuple[Sort, str], ...] = (
    ("order", "in order"),
    ("score", "lowest score"),
    ("-score", "highest score"),
    ("-disagreement", "most disagreement"),
    ("-latency", "slowest"),
    ("-cost", "dearest"),
    ("id", "by id"),
)
_STATUS_WORDS = {
    "evaluated": "graded",
    "error": ERROR,
    "failed": "error: of a valid record",
    "timeout": "error: timeout",
    "evaluation_error": "error: no grade",
    "invalid_record": "error: invalid record",
}


class RecordsChoice(RecordSearch, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which records a reader wants to see, and which page of them."""

    # An upper limit keeps the offset that is computed from it within 64 bits.
    page: Annotated[int, Meta(ge=1, le=10_000_000)] = 1

    @property
    def search(self) -> RecordSearch:
        """Choice without the page."""
        return RecordSearch(**{name: getattr(self, name) for name in RecordSearch.__struct_fields__})

    def query(self, **changes: Any) -> dict[str, str]:
        """Return the query of an address; defaults are left out."""
        # A changed filter begins at the first page again.
        wanted = {**msgspec.structs.asdict(self), "page": 1, **changes}
        given = {name: value for name, value in wanted.items() if value != _DEFAULTS[name]}
        return {name: str(value).lower() if isinstance(value, bool) else _number(value) for name, value in given.items()}

    @property
    def filters(self) -> dict[str, object]:
        """Filters that are set."""
        return {name: getattr(self, name) for name in _WORDS if getattr(self, name) is not None}


# The defaults of the struct, so that an address leaves out what it need not say.
_DEFAULTS = msgspec.structs.asdict(RecordsChoice())


def _number(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


class RecordListRow(msgspec.Struct, frozen=True, kw_only=True):
    """A record in the list."""

    address: str
    name: str
    sample: str
    """Which of several answers it is; empty without several."""
    dataset: str
    verdict: Badge
    score: DisplayValue
    marks: tuple[Badge, ...]
    question: str
    answer: str
    latency: DisplayValue
    cost: DisplayValue


class ActiveFilter(msgspec.Struct, frozen=True):
    """A filter that is set, and the list without it."""

    text: str
    address: str


class OptionGroup(msgspec.Struct, frozen=True):
    """Options under a name."""

    name: str
    options: tuple[FilterOption, ...]


class Filters(msgspec.Struct, frozen=True, kw_only=True):
    """What there is to choose from."""

    verdicts: tuple[FilterOption, ...]
    statuses: tuple[FilterOption, ...]
    sorts: tuple[FilterOption, ...] = ()
    flips: tuple[FilterOption, ...] = ()
    tags: tuple[FilterOption, ...] = ()
    slices: tuple[OptionGroup, ...] = ()
    criteria: tuple[FilterOption, ...] = ()
    mets: tuple[FilterOption, ...] = ()
    codes: tuple[FilterOption, ...] = ()
    others: tuple[FilterOption, ...] = ()
    """Runs to look for flips against."""
    is_whole: bool = False
    """True for a run that has ended: only then can everything be asked for."""
    is_more_open: bool = False
    """True when one of the filters is set that are folded away."""


class RecordsView(msgspec.Struct, frozen=True, kw_only=True):
    """Page of records."""

    run_id: str
    choice: RecordsChoice
    filters: Filters | None = None
    rows: tuple[RecordListRow, ...] = ()
    headings: tuple[SortableColumn, ...] = ()
    chips: tuple[ActiveFilter, ...] = ()
    summary: str = ""
    run_address: str
    clear_address: str
    previous_address: str = ""
    next_address: str = ""
    first_address: str = ""
    last_address: str = ""
    is_live: bool = False
    indexed_percent: int | None = None
    """How far the index is while it is being made, and nothing can be shown yet."""


def indexing_view(run_id: str, choice: RecordsChoice, percent: int, *, place: PageLinks) -> RecordsView:
    """Return the page while the records cannot be searched yet."""
    return RecordsView(
        run_id=run_id, choice=choice, run_address=place.run(run_id), clear_address=place.records(run_id), indexed_percent=percent
    )


def records_view(
    run_id: str, found: api.RecordHits, choice: RecordsChoice, *, facets: api.Facets | None, others: Iterable[str], place: PageLinks
) -> RecordsView:
    """Return one page of the records that a reader wants to see; without facets the run has not ended."""
    # Rounded up; a list without records still has one page.
    pages = max(1, -(-found.total // PAGE))
    # A column with the same dataset in each row tells nothing.
    shows_dataset = facets is None or len(facets.slices.get("dataset", ())) > 1
    page = choice.page

    def at(number: int, *, is_there: bool) -> str:
        return place.records(run_id, **choice.query(page=number)) if is_there else ""

    return RecordsView(
        run_id=run_id,
        choice=choice,
        filters=_live_filters(choice) if facets is None else _filters(choice, facets, others),
        rows=tuple(
            record_row(run_id, record, choice.query(), place=place, shows_dataset=shows_dataset) for record in found.records
        ),
        headings=_headings(run_id, choice, place=place, is_sortable=facets is not None),
        chips=tuple(
            ActiveFilter(_chip(name, value), place.records(run_id, **choice.query(**{name: None})))
            for name, value in choice.filters.items()
        ),
        summary=_summary(found, facets, page=page, pages=pages),
        run_address=place.run(run_id),
        # The order is not a filter, so clearing the filters keeps it.
        clear_address=place.records(run_id, **RecordsChoice(sort=choice.sort).query()),
        previous_address=at(min(page - 1, pages), is_there=page > 1),
        # A page beyond the end leads back to the last one.
        next_address=at(page + 1, is_there=page < pages),
        first_address=at(1, is_there=page > 2),
        last_address=at(pages, is_there=page < pages - 1),
        is_live=facets is None,
    )


def record_row(
    run_id: str, record: api.RecordHit, query: Mapping[str, str], *, place: PageLinks, shows_dataset: bool = True
) -> RecordListRow:
    """Return the row of one record."""
    line = record.line
    prediction = line if isinstance(line, PredictionLine) else None
    code, message = _error(line)
    # The code has a badge in the row, so the message is shown without it.
    # A record without an answer shows why it has none.
    answer = (prediction and prediction.model_response) or without_code(code, message)
    time, cost = (None, None) if prediction is None else (prediction.latency_ms, prediction.cost)
    return RecordListRow(
        address=place.record(run_id, line.index, **query),
        name=line.record_id or f"record {line.index}",
        sample="" if line.sample is msgspec.UNSET else f"answer {line.sample}",
        dataset=prediction.dataset if prediction and shows_dataset else "",
        verdict=verdict_mark(line),
        score=score_mark(line),
        marks=tuple(row_marks(code, record.row)),
        question=excerpt(record.question),
        answer=excerpt(answer),
        latency=DisplayValue(shown(latency(time)), "How long the candidate took for this answer."),
        cost=cost_value(cost),
    )


def _error(line: PredictionLine | FailureLine) -> tuple[str, str]:
    """Return code and message of an error; both are empty without one."""
    if isinstance(line, FailureLine):
        return line.code, line.message
    return line.error_code or "", line.error_message or ""


def excerpt(text: str) -> str:
    """Return the beginning of a text as one line; its end is marked where it is left out."""
    # Cut before it is folded: an answer may have 200 KB, and the row shows 240 characters of it.
    flat = " ".join(text[: 4 * EXCERPT].split())
    return flat if len(flat) <= EXCERPT and len(text) <= 4 * EXCERPT else f"{flat[:EXCERPT].rstrip()}…"


def _chip(name: str, value: Any) -> str:
    if name == "passed":
        return "passed" if value else "not passed"
    if name == "met":
        return "criteria met" if value else "criteria not met"
    if name == "flips":
        return _FLIPS[value]
    if name == "status":
        return f"{_WORDS[name]}: {_STATUS_WORDS.get(value, value.replace('_', ' '))}"
    return f"{_WORDS[name]}: {_number(value)}"


def _summary(found: api.RecordHits, facets: api.Facets | None, *, page: int, pages: int) -> str:
    every = found.total if facets is None else facets.records
    which = counted(every, "record") if found.total == every else f"{found.total:,} of {counted(every, 'record')}"
    if len(found.records) == found.total:
        return which
    shown = f"{found.offset + 1:,} to {found.offset + len(found.records):,}" if found.records else "none"
    return f"{which} · {shown} on page {page:,} of {pages:,}"


def _live_filters(choice: RecordsChoice) -> Filters:
    # A ledger answers for status and result alone; a search for words would tell what redaction hides.
    return Filters(verdicts=_verdicts(choice), statuses=_status_options(dict.fromkeys(("evaluated", *STATUSES)), choice.status))


def _verdicts(choice: RecordsChoice, passed: str = "", failed: str = "") -> tuple[FilterOption, ...]:
    return (
        FilterOption("true", f"passed{passed}", choice.passed is True),
        FilterOption("false", f"not passed{failed}", choice.passed is False),
    )


def _filters(choice: RecordsChoice, facets: api.Facets, others: Iterable[str]) -> Filters:
    folded = ("min_score", "max_score", "tag", "slice", "criterion", "met", "code", "against")
    flips = {name: count for name, count in (("judges", facets.disagreements), ("repeats", facets.splits)) if count}
    return Filters(
        verdicts=_verdicts(choice, f" ({facets.passed:,})", f" ({facets.not_passed:,})"),
        statuses=_status_options(facets.statuses, choice.status),
        sorts=tuple(FilterOption(sort, text, sort == choice.sort) for sort, text in _sorts(choice)),
        # Filters without a match are not offered.
        flips=_options(flips, choice.flips, _FLIPS),
        tags=_options(facets.tags, choice.tag),
        slices=tuple(
            OptionGroup(name, _options(_prefixed(name, values), choice.slice, _bare(name, values)))
            for name, values in facets.slices.items()
        ),
        criteria=_options(facets.criteria, choice.criterion),
        mets=(FilterOption("true", "met", choice.met is True), FilterOption("false", "not met", choice.met is False))
        if facets.criteria
        else (),
        codes=_options(facets.codes, choice.code),
        others=_options(dict.fromkeys(others), choice.against),
        is_whole=True,
        is_more_open=any(name in folded for name in choice.filters),
    )


def _sorts(choice: RecordsChoice) -> Iterable[tuple[str, str]]:
    yield from _SORTS
    # An address may name an order that the menu lacks.
    if choice.sort not in dict(_SORTS):
        yield choice.sort, f"by {choice.sort.removeprefix('-')}"


def _prefixed(name: str, values: Mapping[str, int]) -> dict[str, int]:
    return {f"{name}:{value}": count for value, count in values.items()}


def _bare(name: str, values: Mapping[str, int]) -> dict[str, str]:
    return {f"{name}:{value}": value for value in values}


def _options(
    values: Mapping[str, int | None], chosen: str | None, words: Mapping[str, str] | None = None
) -> tuple[FilterOption, ...]:
    """Return each value with its count; a chosen one is offered even if it is missing, or the form would drop it."""
    known = values if words else _with(values, chosen)
    return tuple(FilterOption(value, _text(value, count, words or {}), value == chosen) for value, count in known.items())


def _status_options(values: Mapping[str, int | None], chosen: str | None) -> tuple[FilterOption, ...]:
    """Return the statuses in the words for users, after one option for every kind of error."""
    counts = [count for status, count in values.items() if status in STATUS_GROUPS["error"]]
    known = {**({"error": sum(count or 0 for count in counts) or None} if counts else {}), **values}
    return tuple(
        FilterOption(value, _text(value, count, _STATUS_WORDS), value == chosen) for value, count in _with(known, chosen).items()
    )


def _with(values: Mapping[str, int | None], chosen: str | None) -> dict[str, int | None]:
    """Return the values and the one that is chosen, which the form would drop if it were not among them."""
    return {**values, **({} if chosen is None or chosen in values else {chosen: None})}


def _text(value: str, count: int | None, words: Mapping[str, str]) -> str:
    text = words.get(value, value.replace("_", " ") if value in STATUSES else value)
    return text if count is None else f"{text} ({count:,})"


def _headings(run_id: str, choice: RecordsChoice, *, place: PageLinks, is_sortable: bool) -> tuple[SortableColumn, ...]:
    columns: tuple[tuple[str, str, str, bool], ...] = (
        ("id", "Record", "The id of the record; its page shows everything that is known of it.", False),
        ("", "Result", "Passed, not passed, or the error of a record without a grade.", False),
        ("score", "Score", "The score on the scale of the run.", True),
        ("", "Question and answer", "The beginning of the question and of the answer.", False),
        ("latency", "Latency", "How long the candidate took.", True),
        ("cost", "Cost", "US dollars of candidate and judges.", True),
    )
    return tuple(_heading(run_id, choice, column, place=place, is_sortable=is_sortable) for column in columns)


def _heading(
    run_id: str, choice: RecordsChoice, column: tuple[str, str, str, bool], *, place: PageLinks, is_sortable: bool
) -> SortableColumn:
    sort, text, says, is_number = column
    is_sorted = bool(sort) and choice.sort.removeprefix("-") == sort
    # The direction that a reader wants first: the worst score, the slowest, the dearest.
    first = sort if sort in ("id", "score") else f"-{sort}"
    turned = choice.sort.removeprefix("-") if choice.sort.startswith("-") else f"-{choice.sort}"
    address = place.records(run_id, **choice.query(sort=turned if is_sorted else first)) if sort and is_sortable else ""
    direction: Literal["ascending", "descending"] = "descending" if choice.sort.startswith("-") else "ascending"
    return SortableColumn(text=text, says=says, address=address, sorted=direction if is_sorted else "", is_number=is_number)
