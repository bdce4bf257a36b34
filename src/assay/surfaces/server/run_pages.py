"""Pages for people: the list of runs and one run, both updated by server-sent events."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from pathlib import PurePath

import msgspec
from litestar import Response, get, post
from litestar.params import FromPath
from litestar.response import Stream

from assay import api
from assay.core.run_result import RunListing
from assay.presentation.run_list import pace_text
from assay.presentation.run_report import sketch_of
from assay.surfaces.pages.page_renderer import MEDIA_TYPES, STATIC_NAMES, PageViewer, page, static
from assay.surfaces.pages.run import RunProgressView, progress_view, run_page
from assay.surfaces.pages.runs import LiveChoice, RunsChoice, is_wanted, run_row, runs_view
from assay.surfaces.server.errors import HttpError
from assay.surfaces.server.keys import Caller
from assay.surfaces.server.page_responses import PLACE, paged, read_choice, reader_of
from assay.surfaces.server.queries import AnyRequest
from assay.surfaces.server.run_routes import cancel_run, resume_run
from assay.surfaces.server.server import Answer, Server, caller_of, server_of

POLL_SECONDS = 1.0
KEEP_ALIVE_SECONDS = 15.0
MAX_FAILURES = 5


@get("/", status_code=302)
async def home() -> Answer:
    """The list of runs is the first page."""
    return Response(b"", status_code=302, headers={"Location": PLACE.runs()})


@get("/static/{name:str}")
async def static_file(request: AnyRequest, name: FromPath[str]) -> Answer:
    """A style, script or picture of the pages; under the address that names its content a browser may keep it for good."""
    if name not in STATIC_NAMES:
        raise HttpError(404, "no such file")
    media_type = MEDIA_TYPES[PurePath(name).suffix]
    is_this_one = PLACE.static(name).endswith(f"?v={request.query_params.get('v', '')}")
    headers = {"Cache-Control": "public, max-age=31536000, immutable" if is_this_one else "no-cache"}
    return Response(static(name).encode(), media_type=media_type, headers=headers)


@get("/runs", sync_to_thread=True)
def runs_page(request: AnyRequest) -> Answer:
    """The list of runs."""
    server, choice = server_of(request), read_choice(request, RunsChoice)
    listings = server.listed(caller_of(request))
    address = f"{request.url.scheme}://{request.headers['host']}"
    view = runs_view(listings, choice, place=PLACE, server_address=address)
    return paged(request, "runs.html", view)


@get("/live/runs")
async def live_runs(request: AnyRequest) -> Stream:
    """The rows of unfinished runs whenever they change."""
    choice, server, caller = read_choice(request, LiveChoice), server_of(request), caller_of(request)
    # Before the answer begins: whatever starts once a page has it is news.
    listings, unfinished = await asyncio.to_thread(_listed, server, caller), choice.unfinished.split(",")
    known = {
        run_id: None if run_id in unfinished else listing
        for run_id, listing in listings.items()
        if not choice.since or listing.created_at <= choice.since
    }
    return _stream(_row_events(server, caller, choice=choice, known=known, reader=reader_of(request)))


def _stream(events: AsyncIterator[bytes]) -> Stream:
    return Stream(events, media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})


async def _row_events(
    server: Server, caller: Caller, *, choice: RunsChoice, known: Mapping[str, RunListing | None], reader: PageViewer
) -> AsyncIterator[bytes]:
    """`known` are the runs of the page, each as it stands there, or None where that is not known any more."""
    quiet, told = KEEP_ALIVE_SECONDS, 0
    while not server.queue.is_stopping:
        quiet += POLL_SECONDS
        if quiet >= KEEP_ALIVE_SECONDS:
            yield b": still there\n\n"
            quiet = 0.0
        await asyncio.sleep(POLL_SECONDS)
        listings = await asyncio.to_thread(_listed, server, caller)
        for run_id, listing in listings.items():
            if run_id in known and known[run_id] != listing:
                row = run_row(listing, place=PLACE, pace=pace_text(server.queue.snapshot(run_id)))
                yield part_event(_RowView(row), "parts/run_row_alone.html", reader=reader)
        news = sum(run_id not in known and is_wanted(listing, choice) for run_id, listing in listings.items())
        if news not in (0, told):
            told = news
            yield part_event(_News(news, PLACE.runs()), "parts/news_alone.html", reader=reader)
        known = {run_id: listings[run_id] for run_id in known if run_id in listings}


def _listed(server: Server, caller: Caller) -> dict[str, RunListing]:
    """The caller's runs by id; everybody who follows the list shares one look at the folder."""
    return {listing.run_id: listing for listing in server.listed(caller, max_age=POLL_SECONDS / 2)}


class _RowView(msgspec.Struct, frozen=True):
    row: msgspec.Struct


class _News(msgspec.Struct, frozen=True):
    count: int
    address: str


def part_event(view: msgspec.Struct, template: str, *, reader: PageViewer) -> bytes:
    """A part of a page as an event; it takes the place of the element with its id."""
    text = page(template, view, place=PLACE, reader=reader)
    lines = "".join(f"data: {line}\n" for line in text.splitlines())
    return f"event: part\n{lines}\n".encode()


@get("/runs/{run_id:str}", sync_to_thread=True)
def show_run_page(request: AnyRequest, run_id: FromPath[str]) -> Answer:
    """One run; with `verify=1` after a look at all its files."""
    choice, server = read_choice(request, RunPageQuery), server_of(request)
    return server.look(run_id, caller_of(request), lambda run: _run_page(request, run, is_verified=choice.verify))


class RunPageQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a run is shown."""

    verify: bool = False


def _run_page(request: AnyRequest, run: api.RunReader, *, is_verified: bool) -> Answer:
    view, server = sketch_of(run), server_of(request)
    # The page is about this folder, whatever run its manifest names: a copy is not to be taken for what it was copied from.
    view = msgspec.structs.replace(view, result=msgspec.structs.replace(view.result, run_id=run.folders.run_id))
    is_finished = view.result.is_finished
    if is_finished and not run.artifacts():
        server.sealed_path(run.folders.run_id, caller_of(request))
    problems = api.verify(run.folders.run_id, runs_dir=server.runs_dir) if is_verified and is_finished else None
    standing = None if is_finished else run_standing(server, run, reader=reader_of(request))
    made = run_page(view, place=PLACE, moments=run.moments, files=run.artifacts(), standing=standing, problems=problems)
    return paged(request, "run.html", made)


@get("/live/runs/{run_id:str}")
async def live_run(request: AnyRequest, run_id: FromPath[str]) -> Stream:
    """How a run goes, whenever that changes, until it has ended."""
    server, caller = server_of(request), caller_of(request)
    await asyncio.to_thread(server.run, run_id, caller)
    return _stream(_standing_events(server, run_id, caller=caller, reader=reader_of(request)))


async def _standing_events(server: Server, run_id: str, *, caller: Caller, reader: PageViewer) -> AsyncIterator[bytes]:
    seen = told = b""
    marked, quiet = "", 0.0
    while not server.queue.is_stopping:
        mark = await asyncio.to_thread(server.mark, run_id)
        if not mark or mark != marked:
            told = await asyncio.to_thread(server.look, run_id, caller, lambda run: _told(server, run, reader=reader))
            marked = mark
        if told != seen:
            yield told
            seen, quiet = told, 0.0
        if told == ENDED:
            return
        await asyncio.sleep(POLL_SECONDS)
        quiet += POLL_SECONDS
        if quiet >= KEEP_ALIVE_SECONDS:
            yield b": still there\n\n"
            quiet = 0.0


ENDED = b"event: end\ndata:\n\n"
"""The page of a run that has ended is another one."""


def _told(server: Server, run: api.RunReader, *, reader: PageViewer) -> bytes:
    if run.result.is_finished:
        return ENDED
    return part_event(_Alone(run_standing(server, run, reader=reader)), "parts/standing.html", reader=reader)


class _Alone(msgspec.Struct, frozen=True):
    standing: RunProgressView


def run_standing(server: Server, run: api.RunReader, *, reader: PageViewer) -> RunProgressView:
    """How a run goes that has not ended."""
    result = run.result
    result = msgspec.structs.replace(result, is_interrupted=server.is_interrupted(result))
    return progress_view(
        result,
        place=PLACE,
        snapshot=server.queue.snapshot(result.run_id),
        failures=run.latest_failures(MAX_FAILURES) if result.counts.failed_records > result.counts.invalid_records else [],
        problem=server.problem(result.run_id, result),
        may_cancel=reader.may_write,
        may_resume=reader.may_write and not _is_worked_on(server, result.run_id),
    )


def _is_worked_on(server: Server, run_id: str) -> bool:
    return server.queue.has(run_id) or server.is_driven(run_id)


@post("/runs/{run_id:str}/cancel", status_code=303, sync_to_thread=True)
def cancel_form(request: AnyRequest, run_id: FromPath[str]) -> Answer:
    """End a run for good, and show it."""
    cancel_run.fn(request, run_id)
    return Response(b"", status_code=303, headers={"Location": PLACE.run(run_id)})


@post("/runs/{run_id:str}/resume", status_code=303, sync_to_thread=True)
def resume_form(request: AnyRequest, run_id: FromPath[str]) -> Answer:
    """Go on with a run, and show it."""
    resume_run.fn(request, run_id)
    return Response(b"", status_code=303, headers={"Location": PLACE.run(run_id)})


HANDLERS = (home, static_file, runs_page, live_runs, show_run_page, live_run, cancel_form, resume_form)
