"""Runs over HTTP and as pages: options, lists, progress, cancellation and resumption."""

import asyncio
import hashlib
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from datetime import datetime
from itertools import dropwhile, islice
from pathlib import PurePath

import msgspec
from litestar import HttpMethod, Response, get, post, route
from litestar.params import FromPath
from litestar.response import Stream

from assay import api
from assay.core.canonical import json_text
from assay.core.errors import RunSealed
from assay.core.http_answers import RunsPage, RunStatus
from assay.core.run_result import RunListing, RunResult
from assay.core.runs import TERMINAL
from assay.presentation.run_list import pace_text
from assay.presentation.run_report import sketch_of
from assay.surfaces.pages.page_renderer import MEDIA_TYPES, STATIC_NAMES, PageViewer, page, static
from assay.surfaces.pages.run import RunProgressView, progress_view, run_page
from assay.surfaces.pages.runs import LiveChoice, RunsChoice, is_wanted, run_row, runs_view
from assay.surfaces.server.concurrency import POLL_SECONDS
from assay.surfaces.server.errors import AnyRequest, HttpError, request_id_of
from assay.surfaces.server.keys import Caller
from assay.surfaces.server.queries import NoQuery, RunsQuery, read_query
from assay.surfaces.server.server import (
    PLACE,
    BytesResponse,
    Server,
    caller_of,
    json_response,
    page_response,
    read_choice,
    server_of,
    viewer_of,
)

_PARTS = ("records", "errors", "failures", "distribution", "events", "artifacts", "export")


@get("/v1/runs", sync_to_thread=True, query=RunsQuery, answer=RunsPage, errors=(400, 404))
def list_runs(request: AnyRequest) -> BytesResponse:
    """List the runs, the newest first."""
    query = read_query(request, RunsQuery)
    runs = iter(server_of(request).listed(caller_of(request)))
    if query.cursor is not None:
        runs = _after(runs, query.cursor)
    # One more than asked for tells whether there is a next page.
    found = list(islice((run for run in runs if _is_wanted(run, query)), query.limit + 1))
    shown = found[: query.limit]
    cursor = shown[-1].run_id if len(found) > query.limit else None
    return json_response(RunsPage(runs=tuple(shown), next_cursor=cursor, request_id=request_id_of(request)))


@route("/v1/runs", http_method=HttpMethod.OPTIONS, status_code=204)
async def options_of_runs() -> Response[None]:
    """Return the methods of the one address that has two; registered first, or the framework would name one of them only."""
    return Response(None, status_code=204, headers={"Allow": "GET, OPTIONS, POST"})


def _after(runs: Iterator[RunListing], cursor: str) -> Iterator[RunListing]:
    # A cursor is the id of the last run: new runs at the top do not move the pages behind it.
    rest = dropwhile(lambda run: run.run_id != cursor, runs)
    if next(rest, None) is None:
        raise HttpError(404, "the cursor names no page")
    return rest


def _is_wanted(run: RunListing, query: RunsQuery) -> bool:
    # `interrupted` is not a state of the ledger but of the process that is missing, in any state.
    state = run.standing if query.state == "interrupted" else run.state
    pairs = ((query.state, state), (query.dataset, run.dataset), (query.model, run.candidate), (query.group, run.group))
    return all(wanted is None or wanted == found for wanted, found in pairs)


@get("/v1/runs/{run_id:str}", sync_to_thread=True, query=NoQuery, answer=RunStatus, errors=(404,))
def show_run(request: AnyRequest, run_id: FromPath[str]) -> BytesResponse:
    """Show one run: its state and times, counts, what is left to do, and its metrics when it has ended."""
    read_query(request, NoQuery)
    return json_response(run_view(server_of(request), run_id, caller=caller_of(request), request_id=request_id_of(request)))


@post("/v1/runs/{run_id:str}/cancel", status_code=200, sync_to_thread=True, query=NoQuery, answer=RunStatus, errors=(404, 409))
def cancel_run(request: AnyRequest, run_id: FromPath[str]) -> BytesResponse:
    """End a run for good; finished records stay, and the artifacts are sealed."""
    read_query(request, NoQuery)
    server, caller = server_of(request), caller_of(request)
    # In the audit log before anything changes, and only where something does.
    if not server.run(run_id, caller).result.is_finished:
        server.submissions.note("run_cancelled", by=caller.name, run_id=run_id, request_id=request_id_of(request))
    api.cancel(run_id, runs_dir=server.runs_dir, placement=server.placement)
    # A run that waits here would otherwise be started only to find that it was cancelled.
    server.queue.leave(run_id)
    return json_response(run_view(server, run_id, caller=caller, request_id=request_id_of(request)))


@post("/v1/runs/{run_id:str}/resume", status_code=202, sync_to_thread=True, query=NoQuery, answer=RunStatus, errors=(404, 409))
def resume_run(request: AnyRequest, run_id: FromPath[str]) -> BytesResponse:
    """Resume an interrupted run."""
    read_query(request, NoQuery)
    server, caller = server_of(request), caller_of(request)
    result = server.run(run_id, caller).result
    if result.is_finished:
        raise RunSealed(
            f"run '{run_id}' has ended: {result.state}",
            hint="its upload is deleted and its artifacts stay as they are: submit the records with an error again, as a new run",
        )
    # Repeating the request while the run is queued is not an error.
    if not server.queue.has(run_id):
        if server.is_driven(run_id):
            raise HttpError(409, "another process works on this run")
        # Resuming takes a place like a submission, or resumed runs could overfill the queue.
        with server.queue.reserve():
            # At once, so that a client that polls does not take the failure from before for the end.
            api.leave_failure(run_id, server.runs_dir)
            server.submissions.set_problem(run_id, "")
            server.submissions.note("run_resumed", by=caller.name, run_id=run_id, request_id=request_id_of(request))
            server.queue.add(run_id, caller.owner)
    return json_response(run_view(server, run_id, caller=caller, request_id=request_id_of(request)), status=202)


def run_view(server: Server, run_id: str, *, caller: Caller, request_id: str) -> RunStatus:
    """Build the current state of a run."""
    view = server.read_run(run_id, caller, lambda run: _view(server, run, request_id=request_id))
    # A view is put together from several reads of a ledger that other processes write.
    if (view.completed_at is not None) != (view.state in TERMINAL):
        # It ended between two looks of one view, which would say so by half; what has ended stays as it is.
        view = server.read_run(run_id, caller, lambda run: _view(server, run, request_id=request_id))
    return view


def _view(server: Server, run: api.RunReader, *, request_id: str) -> RunStatus:
    run_id = run.folders.run_id
    # Asked before the run is read: a run that ends in between has not stopped early.
    is_waiting = server.queue.has(run_id)
    result, moments, plan = run.result, run.moments, run.plan
    total, done = _progress(server, result)
    dataset = plan.datasets[0]
    return RunStatus(
        run_id=result.run_id,
        state=result.state,
        is_interrupted=result.is_interrupted and not is_waiting,
        is_resumable=result.is_resumable,
        created_at=moments["created_at"],
        started_at=moments["started_at"],
        completed_at=moments["completed_at"],
        states=tuple(moments["states"]),
        dataset_id=dataset.dataset_id,
        dataset_version=dataset.dataset_version,
        dataset_file=dataset.source_file,
        model=result.candidate,
        project=plan.project,
        group=plan.group or "",
        counts=msgspec.structs.replace(result.counts, total_records=total),
        done_records=done,
        eta_seconds=None if result.is_finished else _eta(server, run_id, started=moments["started_at"], total=total, done=done),
        metrics=result.metrics if result.is_finished else None,
        # Metrics of a run under way would be those of a part of its records.
        gate=result.gate if result.is_finished else None,
        # A reason from before must not be shown next to a run that is waiting to be resumed.
        problem=("" if is_waiting and not result.is_finished else server.problem(run_id, result)) or None,
        links={"self": f"/v1/runs/{run_id}", **{part: f"/v1/runs/{run_id}/{part}" for part in _PARTS}},
        request_id=request_id,
    )


def _progress(server: Server, result: RunResult) -> tuple[int, int]:
    """Return the numbers of all and of finished records; before the run has read its input, as its submission counted them."""
    counts = result.counts
    if result.is_finished:
        return counts.total_records, counts.total_records
    # The ledger has its records only when the input was read; the submission counted them before.
    if counts.total_records == 0:
        row = server.submissions.of(result.run_id)
        return (0 if row is None else msgspec.json.decode(row.answer)["summary"]["total_records"]), 0
    return counts.total_records, counts.evaluated_records + counts.failed_records


def _eta(server: Server, run_id: str, *, started: str | None, total: int, done: int) -> float | None:
    """Estimate the seconds left, from the pace since this server drives the run, or since another server started it."""
    snapshot = server.queue.snapshot(run_id)
    # This process knows the rate of its own calls.
    if snapshot is not None:
        return None if snapshot.rate is None else round((snapshot.total - snapshot.done) / snapshot.rate, 1)
    # Another server drives it: what is left is estimated from the ledger alone, without its waits and retries.
    if server.shared is not None and started is not None:
        elapsed = time.time() - datetime.fromisoformat(started).timestamp()
        return round((total - done) * elapsed / done, 1) if done and elapsed > 0 else None
    return None


KEEP_ALIVE_SECONDS = 15.0


@get("/v1/runs/{run_id:str}/events", query=NoQuery, answer=str, media_types=("text/event-stream",), errors=(404,))
async def follow_run(request: AnyRequest, run_id: FromPath[str]) -> Stream:
    """Follow a run to its end, or until work on it stops: an event whenever its state, a count or a problem changes."""
    read_query(request, NoQuery)
    server, look = server_of(request), _look_at(request, run_id)
    # What is wrong with a run is said before the answer has begun.
    await asyncio.to_thread(look)
    # The id of an event names the state, so a client that comes back is sent nothing it has seen.
    seen = request.headers.get("last-event-id", "")
    # Asks nginx not to buffer the stream.
    headers = {"X-Accel-Buffering": "no"}
    return Stream(_events(server, run_id, look, seen=seen), media_type="text/event-stream", headers=headers)


async def _events(server: Server, run_id: str, look: Callable[[], RunStatus], *, seen: str) -> AsyncIterator[bytes]:
    quiet = 0.0
    # One poll serves all followers of the run: the access of each was checked above.
    async for view in server.polling.follow(run_id, look):
        if event_id(view) != seen:
            seen, quiet = event_id(view), 0.0
            yield _event(view)
        # With a problem nothing will change until a user does something; the client gets an event and can follow again.
        if view.completed_at or view.problem:
            return
        quiet += POLL_SECONDS
        # A comment line, which clients ignore and proxies count as traffic.
        if quiet >= KEEP_ALIVE_SECONDS or server.queue.is_stopping:
            yield b": still there\n\n"
            quiet = 0.0
        if server.queue.is_stopping:
            return


def _look_at(request: AnyRequest, run_id: str) -> Callable[[], RunStatus]:
    """Return a function that reads a run; one of a shared ledger is read again only when a query for all of them shows a change."""
    server, caller, request_id = server_of(request), caller_of(request), request_id_of(request)
    kept: dict[str, RunStatus] = {}

    def look() -> RunStatus:
        # Without a mark the run is driven here, and reading it is cheap.
        mark = server.mark(run_id)
        if not mark or mark not in kept:
            kept.clear()
            kept[mark] = run_view(server, run_id, caller=caller, request_id=request_id)
        return kept[mark]

    return look


def event_id(view: RunStatus) -> str:
    """Derive the id of an event from its content, without the time."""
    problem = f"-{hashlib.sha256(view.problem.encode()).hexdigest()[:8]}" if view.problem else ""
    # A new problem is a change even where no count has changed.
    return f"{view.state}-{view.done_records}{problem}"


def _event(view: RunStatus) -> bytes:
    # `stopped` is not the end: the run can be resumed, and is followed again then.
    kind = "stopped" if view.is_resumable else "end" if view.completed_at else "stopped" if view.problem else "progress"
    members = {"run_id": view.run_id, "state": view.state, "counts": view.counts, "done_records": view.done_records}
    # The estimate changes with every look, so it is not part of the event's id.
    text = json_text({**members, "eta_seconds": view.eta_seconds, "problem": view.problem})
    return f"id: {event_id(view)}\nevent: {kind}\ndata: {text}\n\n".encode()


PAGE_POLL_SECONDS = 1.0
MAX_FAILURES = 5


@get("/", status_code=302)
async def home() -> BytesResponse:
    """Redirect to the list of runs, the first page."""
    return Response(b"", status_code=302, headers={"Location": PLACE.runs()})


@get("/static/{name:str}")
async def static_file(request: AnyRequest, name: FromPath[str]) -> BytesResponse:
    """Return a style, script or picture; browsers may cache it forever under the address with its hash."""
    # A fixed set of names: nothing of the path reaches the file system.
    if name not in STATIC_NAMES:
        raise HttpError(404, "no such file")
    media_type = MEDIA_TYPES[PurePath(name).suffix]
    # A page from before an update asks for another hash, and must not cache what it gets.
    is_this_one = PLACE.static(name).endswith(f"?v={request.query_params.get('v', '')}")
    headers = {"Cache-Control": "public, max-age=31536000, immutable" if is_this_one else "no-cache"}
    return Response(static(name).encode(), media_type=media_type, headers=headers)


@get("/runs", sync_to_thread=True)
def runs_page(request: AnyRequest) -> BytesResponse:
    """Show the list of runs."""
    server, choice = server_of(request), read_choice(request, RunsChoice)
    listings = server.listed(caller_of(request))
    # From the Host header, which was checked: it is the address under which this reader reaches the server.
    address = f"{request.url.scheme}://{request.headers['host']}"
    view = runs_view(listings, choice, place=PLACE, server_address=address)
    return page_response(request, "runs.html", view)


@get("/live/runs")
async def live_runs(request: AnyRequest) -> Stream:
    """Stream the rows of unfinished runs when they change."""
    choice, server, caller = read_choice(request, LiveChoice), server_of(request), caller_of(request)
    # Before the answer begins: what starts after a page has it is news.
    listings, unfinished = await asyncio.to_thread(_listed, server, caller), choice.unfinished.split(",")
    known = {
        # None differs from every listing, so rows that were unfinished are sent again at once.
        run_id: None if run_id in unfinished else listing
        for run_id, listing in listings.items()
        if not choice.since or listing.created_at <= choice.since
    }
    return _stream(_row_events(server, caller, choice=choice, known=known, reader=viewer_of(request)))


def _stream(events: AsyncIterator[bytes]) -> Stream:
    return Stream(events, media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})


async def _row_events(
    server: Server, caller: Caller, *, choice: RunsChoice, known: Mapping[str, RunListing | None], reader: PageViewer
) -> AsyncIterator[bytes]:
    """Stream changed rows; `known` has the runs of the page with the shown state, None if unknown."""
    # A first comment at once, so that the browser knows that the stream is open.
    quiet, sent = KEEP_ALIVE_SECONDS, 0
    while not server.queue.is_stopping:
        quiet += PAGE_POLL_SECONDS
        if quiet >= KEEP_ALIVE_SECONDS:
            yield b": still there\n\n"
            quiet = 0.0
        await asyncio.sleep(PAGE_POLL_SECONDS)
        listings = await asyncio.to_thread(_listed, server, caller)
        for run_id, listing in listings.items():
            if run_id in known and known[run_id] != listing:
                row = run_row(listing, place=PLACE, pace=pace_text(server.queue.snapshot(run_id)))
                yield part_event(_RowView(row), "parts/run_row_alone.html", reader=reader)
        news = sum(run_id not in known and is_wanted(listing, choice) for run_id, listing in listings.items())
        # Only changes of the count: the note on the page replaces the one before it.
        if news not in (0, sent):
            sent = news
            yield part_event(_RowsPart(news, PLACE.runs()), "parts/news_alone.html", reader=reader)
        # Rows that the page does not show are never sent; it only gets their number.
        known = {run_id: listings[run_id] for run_id in known if run_id in listings}


def _listed(server: Server, caller: Caller) -> dict[str, RunListing]:
    """Return the caller's runs by id; all followers of the list share one scan of the folder."""
    return {listing.run_id: listing for listing in server.listed(caller, max_age=PAGE_POLL_SECONDS / 2)}


class _RowView(msgspec.Struct, frozen=True):
    row: msgspec.Struct


class _RowsPart(msgspec.Struct, frozen=True):
    count: int
    address: str


def part_event(view: msgspec.Struct, template: str, *, reader: PageViewer) -> bytes:
    """Render a part of a page as an event; it replaces the element with its id."""
    text = page(template, view, place=PLACE, reader=reader)
    # A field of an event ends with the line, so each line of the markup is a `data` line.
    lines = "".join(f"data: {line}\n" for line in text.splitlines())
    return f"event: part\n{lines}\n".encode()


@get("/runs/{run_id:str}", sync_to_thread=True)
def show_run_page(request: AnyRequest, run_id: FromPath[str]) -> BytesResponse:
    """Show one run; with `verify=1` its files are verified first."""
    # Verifying reads everything, about a second for 50,000 records, so only a link asks for it.
    choice, server = read_choice(request, RunPageQuery), server_of(request)
    return server.read_run(run_id, caller_of(request), lambda run: _run_page(request, run, is_verified=choice.verify))


class RunPageQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Parameters of the page of a run."""

    verify: bool = False


def _run_page(request: AnyRequest, run: api.RunReader, *, is_verified: bool) -> BytesResponse:
    view, server = sketch_of(run), server_of(request)
    # The page is about this folder, not about the run that its manifest names, which differs in a copy.
    view = msgspec.structs.replace(view, result=msgspec.structs.replace(view.result, run_id=run.folders.run_id))
    is_finished = view.result.is_finished
    # Raises where the artifacts are on another machine, with words on what to do.
    if is_finished and not run.artifacts():
        server.sealed_path(run.folders.run_id, caller_of(request))
    problems = api.file_problems(run.folders.run_id, runs_dir=server.runs_dir) if is_verified and is_finished else None
    standing = None if is_finished else run_progress(server, run, reader=viewer_of(request))
    made = run_page(view, place=PLACE, moments=run.moments, files=run.artifacts(), standing=standing, problems=problems)
    return page_response(request, "run.html", made)


@get("/live/runs/{run_id:str}")
async def live_run(request: AnyRequest, run_id: FromPath[str]) -> Stream:
    """Stream the progress of a run until its end."""
    server, caller = server_of(request), caller_of(request)
    # Checked before the stream begins: afterwards there is no status to answer with.
    await asyncio.to_thread(server.run, run_id, caller)
    return _stream(_progress_events(server, run_id, caller=caller, reader=viewer_of(request)))


async def _progress_events(server: Server, run_id: str, *, caller: Caller, reader: PageViewer) -> AsyncIterator[bytes]:
    seen = event = b""
    marked, quiet = "", 0.0
    while not server.queue.is_stopping:
        # In a thread, as every look at a ledger.
        mark = await asyncio.to_thread(server.mark, run_id)
        # Rendered again only if something changed, regardless of the number of followers.
        if not mark or mark != marked:
            event = await asyncio.to_thread(
                server.read_run, run_id, caller, lambda run: _progress_event(server, run, reader=reader)
            )
            marked = mark
        if event != seen:
            yield event
            seen, quiet = event, 0.0
        if event == ENDED:
            return
        await asyncio.sleep(PAGE_POLL_SECONDS)
        quiet += PAGE_POLL_SECONDS
        if quiet >= KEEP_ALIVE_SECONDS:
            yield b": still there\n\n"
            quiet = 0.0


ENDED = b"event: end\ndata:\n\n"
"""Event after which the browser reloads: a finished run has another page."""


def _progress_event(server: Server, run: api.RunReader, *, reader: PageViewer) -> bytes:
    if run.result.is_finished:
        return ENDED
    return part_event(_ProgressPart(run_progress(server, run, reader=reader)), "parts/standing.html", reader=reader)


class _ProgressPart(msgspec.Struct, frozen=True):
    standing: RunProgressView


def run_progress(server: Server, run: api.RunReader, *, reader: PageViewer) -> RunProgressView:
    """Build the progress view of an unfinished run."""
    result = run.result
    result = msgspec.structs.replace(result, is_interrupted=server.is_interrupted(result))
    return progress_view(
        result,
        place=PLACE,
        snapshot=server.queue.snapshot(result.run_id),
        # Failures are read from the ledger; invalid ones are counted without it.
        failures=run.latest_failures(MAX_FAILURES) if result.counts.failed_records > result.counts.invalid_records else [],
        problem=server.problem(result.run_id, result),
        may_cancel=reader.may_write,
        may_resume=reader.may_write and not _is_worked_on(server, result.run_id),
    )


def _is_worked_on(server: Server, run_id: str) -> bool:
    return server.queue.has(run_id) or server.is_driven(run_id)


@post("/runs/{run_id:str}/cancel", status_code=303, sync_to_thread=True)
def cancel_form(request: AnyRequest, run_id: FromPath[str]) -> BytesResponse:
    """Cancel a run permanently, and redirect to it."""
    # The same function as over HTTP; the form only leads back to the page.
    cancel_run.fn(request, run_id)
    return Response(b"", status_code=303, headers={"Location": PLACE.run(run_id)})


@post("/runs/{run_id:str}/resume", status_code=303, sync_to_thread=True)
def resume_form(request: AnyRequest, run_id: FromPath[str]) -> BytesResponse:
    """Resume a run, and redirect to it."""
    resume_run.fn(request, run_id)
    return Response(b"", status_code=303, headers={"Location": PLACE.run(run_id)})


HANDLERS = (
    list_runs,
    show_run,
    cancel_run,
    resume_run,
    follow_run,
    home,
    static_file,
    runs_page,
    live_runs,
    show_run_page,
    live_run,
    cancel_form,
    resume_form,
)
