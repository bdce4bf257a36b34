"""Pages about judges: their cards, and how far they agree with people."""

import asyncio
import secrets
from collections.abc import Iterable

import msgspec
from litestar import get, post
from litestar.params import FromPath

from assay import api
from assay.core.errors import AssayError, RunNotFound
from assay.core.plan import DEFAULT_PROJECT
from assay.core.run_result import RunListing
from assay.surfaces.pages.judge_pages import RunJudgePage, calibration_view, card_page, judges_page
from assay.surfaces.server.errors import HttpError
from assay.surfaces.server.forms import FileForm
from assay.surfaces.server.page_responses import PLACE, paged
from assay.surfaces.server.queries import AnyRequest
from assay.surfaces.server.server import Answer, Server, caller_of, server_of

LABEL_BYTES = 20 << 20
"""The largest file of labels."""
_ENDINGS = (".csv", ".jsonl", ".ndjson", ".json")


@get("/judges", sync_to_thread=True)
def show_judges(request: AnyRequest) -> Answer:
    """Everybody who judges here."""
    listings = server_of(request).visible(caller_of(request))
    kept = _visible_cards(request, listings)
    return paged(request, "judges.html", judges_page(listings, kept, place=PLACE))


@get("/judges/{card_id:str}", sync_to_thread=True)
def show_card(request: AnyRequest, card_id: FromPath[str]) -> Answer:
    """One judge card."""
    cards = _visible_cards(request, server_of(request).visible(caller_of(request))).cards
    found = next((kept for kept in cards if kept.id == card_id), None)
    if found is None:
        raise HttpError(404, "no such judge card", details={"hint": "`assay probe` makes one"})
    others = [kept for kept in cards if kept.card.judge == found.card.judge]
    return paged(request, "judge_card.html", card_page(found, others))


def _visible_cards(request: AnyRequest, listings: Iterable[RunListing]) -> api.KeptCards:
    """The cards that a caller may see: one that was made from a run goes with it, the others belong to the default project."""
    server, caller = server_of(request), caller_of(request)
    kept = api.kept_cards(server.runs_dir)
    if caller.sees_all:
        return kept
    sources = {f"run {listing.run_id}" for listing in listings}
    is_default = caller.sees(DEFAULT_PROJECT)
    cards = (one for one in kept.cards if one.card.source in sources or (is_default and not one.card.source.startswith("run ")))
    return api.KeptCards(tuple(cards), kept.damaged if is_default else ())


@get("/runs/{run_id:str}/judge")
async def show_run_judge(request: AnyRequest, run_id: FromPath[str]) -> Answer:
    """The judge of a run beside the people who labelled its answers on these pages."""
    page = await asyncio.to_thread(_judge_page, request, run_id)
    if page.source:
        page = await asyncio.to_thread(_calibrated, request, page)
    return await asyncio.to_thread(paged, request, "run_judge.html", page)


def _judge_page(request: AnyRequest, run_id: str) -> RunJudgePage:
    server, caller = server_of(request), caller_of(request)
    run = server.run(run_id, caller)
    server.sealed_path(run_id, caller)
    names = {judge["name"] for judge in run.shown_plan.get("judges", ())}
    listings = server.visible(caller)
    everybody = judges_page(listings, _visible_cards(request, listings), place=PLACE)
    labels = api.kept_labels(run)
    return RunJudgePage(
        run_id=run_id,
        judges=tuple(row for row in everybody.rows if row.judge in names),
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
        return msgspec.structs.replace(page, problems=tuple(text.replace(f"{labels}:", "line ") for text in listed))
    return msgspec.structs.replace(page, calibration=calibration_view(found))


@post("/runs/{run_id:str}/judge", status_code=200)
async def calibrate_form(request: AnyRequest, run_id: FromPath[str]) -> Answer:
    """The judge of a run against a file of labels, which is read and not kept."""
    server = server_of(request)
    page = await asyncio.to_thread(_judge_page, request, run_id)
    with server.uploads.of(caller_of(request).name):
        page = await _compared(request, server, page)
    return await asyncio.to_thread(paged, request, "run_judge.html", page, status=400 if page.problems else 200)


async def _compared(request: AnyRequest, server: Server, page: RunJudgePage) -> RunJudgePage:
    form = FileForm(request)
    await form.open_file()
    ending = next((ending for ending in _ENDINGS if form.file_name.lower().endswith(ending)), "")
    if not ending:
        raise HttpError(415, "labels are a table (.csv) or JSON lines (.jsonl)")
    path = server.submissions.temporary / f"labels-{secrets.token_hex(8)}{ending}"
    try:
        await form.spool(path, limit=LABEL_BYTES)
        page = msgspec.structs.replace(page, source=form.file_name[:200])
        return await asyncio.to_thread(_calibrated, request, page, str(path))
    finally:
        path.unlink(missing_ok=True)


HANDLERS = (show_judges, show_card, show_run_judge, calibrate_form)
