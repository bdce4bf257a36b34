"""Comparisons over HTTP and as pages, the audit log, and pages about judges: their cards, and their agreement with labels."""

import asyncio
import secrets
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path

import msgspec
from litestar import get, post
from litestar.params import FromPath

from assay import api
from assay.core.errors import AssayError, RunNotFound, UsageProblem
from assay.core.http_answers import AuditView, ComparisonView
from assay.core.plan import DEFAULT_PROJECT
from assay.core.run_result import RunListing
from assay.surfaces.pages.comparison_page import (
    FLIPS,
    CompareChoice,
    ComparePage,
    ComparisonOutcome,
    chosen_flips,
    compare_page,
    flip_page,
    flip_view,
    outcome_of,
)
from assay.surfaces.pages.group import PAGE_RECORDS, group_page
from assay.surfaces.pages.judge_pages import RunJudgePage, calibration_view, card_page, judges_page
from assay.surfaces.server.errors import AnyRequest, HttpError, request_id_of
from assay.surfaces.server.keys import Caller
from assay.surfaces.server.queries import CompareQuery, PageQuery, read_query
from assay.surfaces.server.server import (
    PLACE,
    BytesResponse,
    Server,
    caller_of,
    json_response,
    page_response,
    read_choice,
    server_of,
)
from assay.surfaces.server.uploads import FileForm


@get("/v1/compare", sync_to_thread=True, query=CompareQuery, answer=ComparisonView, errors=(400, 404, 410))
def compare_runs(request: AnyRequest) -> BytesResponse:
    """Compare two finished runs record by record and test the difference."""
    query, server, caller = read_query(request, CompareQuery), server_of(request), caller_of(request)
    # Both runs are checked before any is read: a run of another project looks like one that does not exist.
    before, after = server.sealed_path(query.before, caller), server.sealed_path(query.after, caller)
    found = api.compare(before, after, runs_dir=server.runs_dir, cluster=query.cluster, max_flips=query.flips)
    return json_response(ComparisonView(comparison=found.to_dict(), request_id=request_id_of(request)))


@get("/v1/audit", sync_to_thread=True, query=PageQuery, answer=AuditView, errors=(400,))
def list_audit(request: AnyRequest) -> BytesResponse:
    """List who submitted, cancelled, resumed and decided what, the oldest first."""
    query = read_query(request, PageQuery)
    start = int(query.cursor or 0)
    # One more than asked for tells whether there is a next page.
    entries = list(islice(api.audit(server_of(request).runs_dir), start, start + query.limit + 1))
    cursor = str(start + query.limit) if len(entries) > query.limit else None
    return json_response(AuditView(entries=tuple(entries[: query.limit]), next_cursor=cursor, request_id=request_id_of(request)))


@get("/groups/{group:str}", sync_to_thread=True)
def show_group(request: AnyRequest, group: FromPath[str]) -> BytesResponse:
    """Show the runs of a group side by side: the candidates, their comparisons, and the records that tell most."""
    server, caller = server_of(request), caller_of(request)
    # Runs of other projects are not listed, so that a group is what the caller may see of it.
    listed = [listing.run_id for listing in server.visible(caller) if listing.group == group]
    if not listed:
        raise RunNotFound(f"there is no group '{group[:128]}'", hint="list the runs")
    runs = tuple(server.run(run_id, caller) for run_id in reversed(listed))
    return page_response(request, "group.html", group_page(api.RunGroup(group, runs), place=PLACE, limit=PAGE_RECORDS))


_PREDICTIONS = "predictions.jsonl"


@get("/compare")
async def show_comparison(request: AnyRequest) -> BytesResponse:
    """Show the comparison of two runs, or the form that chooses them."""
    server, caller, choice = server_of(request), caller_of(request), _choice(request)
    # In threads, because listing and rendering read files.
    page = compare_page(await asyncio.to_thread(server.visible, caller), choice)
    if not (choice.before and choice.after):
        return page_response(request, "compare.html", page)
    try:
        measured = await _load_comparison(server, caller, choice)
        page = await asyncio.to_thread(_fill_page, request, page, measured)
    except (RunNotFound, UsageProblem) as problem:
        page = msgspec.structs.replace(page, problem=problem.message, hint=problem.hint)
        return page_response(request, "compare.html", page, status=404 if isinstance(problem, RunNotFound) else 400)
    return await asyncio.to_thread(page_response, request, "compare.html", page)


@get("/compare/flip")
async def show_flip(request: AnyRequest) -> BytesResponse:
    """Show one flip with both whole answers."""
    choice = _choice(request)
    measured = await _load_comparison(server_of(request), caller_of(request), choice)
    if measured is None:
        return page_response(request, "compare.html", ComparePage(choice=choice, offers=(), swapped_address="", is_pending=True))
    if choice.start >= len(measured.flips):
        raise HttpError(404, "no such changed result", details={"hint": f"the comparison has {len(measured.flips):,}"})
    return await asyncio.to_thread(_flip_page, request, measured)


def _choice(request: AnyRequest) -> CompareChoice:
    choice = read_choice(request, CompareChoice)
    if choice.start < 0:
        raise HttpError(400, "invalid address: no result before the first one")
    return choice


async def _load_comparison(server: Server, caller: Caller, choice: CompareChoice) -> api.StoredComparison | None:
    """Return the comparison; None while it is being computed. Raises RunNotFound and UsageProblem."""
    before, after = await asyncio.to_thread(_run_dirs, server, caller, choice)
    cluster = choice.cluster or None
    kept = await asyncio.to_thread(api.kept_comparison, before, after, runs_dir=server.runs_dir, cluster=cluster)
    if kept is not None:
        return kept
    # The size decides whether the pool uses a thread or a process.
    size = sum(_size(path) for path in (before, after))

    async def make() -> None:
        await server.validation_pool.run("", size, api.keep_comparison, before, after, runs_dir=server.runs_dir, cluster=cluster)

    # The name has everything that the result depends on: two pages may wait for one computation.
    if not await server.background.is_ready(f"compare {before} {after} {choice.cluster}", make):
        return None
    return await asyncio.to_thread(api.kept_comparison, before, after, runs_dir=server.runs_dir, cluster=cluster)


def _run_dirs(server: Server, caller: Caller, choice: CompareChoice) -> tuple[str, str]:
    return server.sealed_path(choice.before, caller), server.sealed_path(choice.after, caller)


def _size(run_dir: str) -> int:
    predictions = Path(run_dir, _PREDICTIONS)
    return predictions.stat().st_size if predictions.is_file() else 0


def _fill_page(request: AnyRequest, page: ComparePage, measured: api.StoredComparison | None) -> ComparePage:
    if measured is None:
        return msgspec.structs.replace(page, is_pending=True)
    outcome = outcome_of(measured, page.choice, place=PLACE)
    return msgspec.structs.replace(page, outcome=_with_flips(request, outcome, measured=measured, choice=page.choice))


def _with_flips(
    request: AnyRequest, outcome: ComparisonOutcome, *, measured: api.StoredComparison, choice: CompareChoice
) -> ComparisonOutcome:
    numbers = chosen_flips(measured, choice.flips)[choice.start : choice.start + FLIPS]
    try:
        flips = _flips(request, measured, numbers, choice=choice)
    except AssayError as problem:
        # The comparison is still worth showing when the answers are gone.
        return msgspec.structs.replace(outcome, flips_problem=problem.message)
    shown = (flip_view(flip, number, choice=choice, place=PLACE) for flip, number in zip(flips, numbers, strict=True))
    return msgspec.structs.replace(outcome, flips=tuple(shown))


def _flips(
    request: AnyRequest, measured: api.StoredComparison, numbers: Sequence[int], *, choice: CompareChoice
) -> tuple[api.Flip, ...]:
    server = server_of(request)
    before, after = _run_dirs(server, caller_of(request), choice)
    return api.read_flips([measured.flips[number] for number in numbers], before=before, after=after, runs_dir=server.runs_dir)


def _flip_page(request: AnyRequest, measured: api.StoredComparison) -> BytesResponse:
    choice = _choice(request)
    (flip,) = _flips(request, measured, (choice.start,), choice=choice)
    view = flip_view(flip, choice.start, choice=choice, place=PLACE, is_whole=True)
    return page_response(request, "flip.html", flip_page(view, measured, choice=choice))


LABEL_BYTES = 20 << 20
"""Largest file of labels."""
_ENDINGS = (".csv", ".jsonl", ".ndjson", ".json")


@get("/judges", sync_to_thread=True)
def show_judges(request: AnyRequest) -> BytesResponse:
    """List the judges."""
    listings = server_of(request).visible(caller_of(request))
    kept = _visible_cards(request, listings)
    return page_response(request, "judges.html", judges_page(listings, kept, place=PLACE))


@get("/judges/{card_id:str}", sync_to_thread=True)
def show_card(request: AnyRequest, card_id: FromPath[str]) -> BytesResponse:
    """Show one judge card."""
    cards = _visible_cards(request, server_of(request).visible(caller_of(request))).cards
    found = next((kept for kept in cards if kept.id == card_id), None)
    if found is None:
        raise HttpError(404, "no such judge card", details={"hint": "`assay probe` makes one"})
    others = [kept for kept in cards if kept.card.judge == found.card.judge]
    return page_response(request, "judge_card.html", card_page(found, others))


def _visible_cards(request: AnyRequest, listings: Iterable[RunListing]) -> api.KeptCards:
    """List the judge cards that a caller may see: those of visible runs; cards without a run belong to the default project."""
    server, caller = server_of(request), caller_of(request)
    kept = api.kept_cards(server.runs_dir)
    if caller.sees_all:
        return kept
    visible = {listing.run_id for listing in listings}
    is_default = caller.sees(DEFAULT_PROJECT)
    # A card of a run quotes its records, so it is as private as the run.
    cards = (one for one in kept.cards if (one.card.run_id in visible if one.card.run_id else is_default))
    return api.KeptCards(tuple(cards), kept.damaged if is_default else ())


@get("/runs/{run_id:str}/judge")
async def show_run_judge(request: AnyRequest, run_id: FromPath[str]) -> BytesResponse:
    """Show the agreement of a run's judge with the labels given on these pages."""
    page = await asyncio.to_thread(_judge_page, request, run_id)
    if page.source:
        page = await asyncio.to_thread(_calibrated, request, page)
    return await asyncio.to_thread(page_response, request, "run_judge.html", page)


def _judge_page(request: AnyRequest, run_id: str) -> RunJudgePage:
    server, caller = server_of(request), caller_of(request)
    run = server.run(run_id, caller)
    # Raises where the artifacts are elsewhere; the page needs them.
    server.sealed_path(run_id, caller)
    names = {judge.name for judge in run.plan.judges}
    listings = server.visible(caller)
    all_judges = judges_page(listings, _visible_cards(request, listings), place=PLACE)
    labels = api.kept_labels(run)
    return RunJudgePage(
        run_id=run_id,
        judges=tuple(row for row in all_judges.rows if row.judge in names),
        source="labels that people gave on the pages of its records" if labels else "",
        records_address=PLACE.records(run_id),
        labels_address=PLACE.run(run_id, "labels.jsonl") if labels else "",
    )


def _calibrated(request: AnyRequest, page: RunJudgePage, labels: str | None = None) -> RunJudgePage:
    server = server_of(request)
    try:
        found = api.calibrate(server.sealed_path(page.run_id, caller_of(request)), labels, runs_dir=server.runs_dir)
    except RunNotFound:
        raise
    except AssayError as problem:
        listed = getattr(problem, "problems", ()) or (problem.message,)
        # Problems name the uploaded file by its temporary path, which the caller does not know.
        return msgspec.structs.replace(page, problems=tuple(text.replace(f"{labels}:", "line ") for text in listed))
    return msgspec.structs.replace(page, calibration=calibration_view(found))


@post("/runs/{run_id:str}/judge", status_code=200)
async def calibrate_form(request: AnyRequest, run_id: FromPath[str]) -> BytesResponse:
    """Show the agreement of a run's judge with a file of labels, which is not stored."""
    server = server_of(request)
    page = await asyncio.to_thread(_judge_page, request, run_id)
    with server.uploads.of(caller_of(request).name):
        page = await _compared(request, server, page)
    return await asyncio.to_thread(page_response, request, "run_judge.html", page, status=400 if page.problems else 200)


async def _compared(request: AnyRequest, server: Server, page: RunJudgePage) -> RunJudgePage:
    form = FileForm(request)
    await form.open_file()
    ending = next((ending for ending in _ENDINGS if form.file_name.lower().endswith(ending)), "")
    if not ending:
        raise HttpError(415, "labels are a table (.csv) or JSON lines (.jsonl)")
    # A random name in the private folder: the name that the client gave is never part of a path.
    path = server.submissions.temporary / f"labels-{secrets.token_hex(8)}{ending}"
    try:
        await form.spool(path, limit=LABEL_BYTES)
        page = msgspec.structs.replace(page, source=form.file_name[:200])
        return await asyncio.to_thread(_calibrated, request, page, str(path))
    # Labels are read and forgotten: nothing that a caller sends is stored without being asked for.
    finally:
        path.unlink(missing_ok=True)


HANDLERS = (
    compare_runs,
    list_audit,
    show_comparison,
    show_group,
    show_flip,
    show_judges,
    show_card,
    show_run_judge,
    calibrate_form,
)
