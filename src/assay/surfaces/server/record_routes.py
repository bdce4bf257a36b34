"""Records over HTTP and as pages: results, issues, failures, the distribution of scores, and human labels."""

from asyncio import to_thread
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Annotated
from urllib.parse import unquote

import msgspec
from litestar import Response, get, post
from litestar.params import FromPath
from msgspec import Meta

from assay import api
from assay.core.artifact_lines import FailureLine, InvalidRecord, PredictionLine, RecordDetails
from assay.core.canonical import JsonObject, json_text
from assay.core.errors import RunNotFound
from assay.core.http_answers import LinesPage, RecordResponse, ScoreDistribution, SubmissionResponse
from assay.core.issue import RecordIssue
from assay.core.record_query import VALID, RecordSearch
from assay.presentation.record import label_view
from assay.surfaces.pages.record import RecordNavigation, RecordView, record_view
from assay.surfaces.pages.records import PAGE, RecordsChoice, indexing_view, records_view
from assay.surfaces.server.errors import AnyRequest, HttpError, request_id_of
from assay.surfaces.server.queries import NoQuery, PageQuery, RecordQuery, RecordsQuery, read_query
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
from assay.surfaces.server.uploads import FORM_BYTES, read_fields

PAGE_BYTES = 8 << 20
"""Maximum bytes of a page: a record may have 256 KB, and a thousand of them would be in memory several times."""

PATIENCE = 20.0
"""Seconds that a search waits for the index of a large run that has just ended."""


@get("/v1/runs/{run_id:str}/records", sync_to_thread=True, query=RecordsQuery, answer=LinesPage, errors=(400, 404, 410))
def list_records(request: AnyRequest, run_id: FromPath[str]) -> BytesResponse:
    """List the valid records with what came of them so far, as `predictions.jsonl` has them, filtered and sorted."""
    named = record_id_in(request)
    if named:
        # An id of slashes alone is merged away by the router, and its request arrives here.
        return _shown(request, run_id, named)
    query = read_query(request, RecordsQuery)
    check_other_run(request, query)
    return server_of(request).read_run(run_id, caller_of(request), lambda run: _records(request, run, query))


def check_other_run(request: AnyRequest, search: RecordSearch) -> None:
    """Raise RunNotFound when a search looks for flips against a run that the caller may not see."""
    if search.against is not None:
        # Flips reveal results of the other run.
        server_of(request).run(search.against, caller_of(request))


def _records(request: AnyRequest, run: api.RunReader, query: RecordsQuery) -> BytesResponse:
    search, start = query.search, int(query.cursor or 0)
    # The default list of a finished run, which is by far the most frequent request.
    if run.artifacts() and search == RecordSearch(status=VALID):
        # The lines as they stand need no index; those that cannot be wanted are passed over unread.
        # Both counts are in the manifest, so nothing is read to find where a page begins.
        total = _total(run, "predictions.jsonl") or 0
        left_out = (_total(run, "record_validation.jsonl") or 0) - total
        # Invalid records have indexes but no predictions, so the line of an index is at most that many lines
        # before it.
        entries = _from(start, run.predictions(max(0, start - left_out)))
        return _page(entries, query.limit, total=total, request_id=request_id_of(request))
    # A large run that has just ended is indexed in another process; the request waits for a while rather than
    # scan everything.
    percent = server_of(request).indexer.wait(run, search, PATIENCE)
    if percent is not None:
        raise HttpError(503, f"the records are being indexed: {percent} %", headers={"Retry-After": "2"})
    # In record order the cursor is the next record's index, which stays valid while the run continues; otherwise its number.
    place = "first" if search.sort == "order" else "offset"
    # One more than asked for tells whether there is a next page.
    found = api.find_records(run, search, limit=query.limit + 1, **{place: start})
    lines = [record.line for record in found.records]
    entries = _from(start, lines) if place == "first" else enumerate(map(msgspec.to_builtins, lines), start)
    return _page(entries, query.limit, total=found.total, request_id=request_id_of(request))


def _from(first: int, lines: Iterable[PredictionLine | FailureLine]) -> Iterator[tuple[int, dict[str, object]]]:
    """Yield lines with the indexes of their records, from an index on."""
    return ((line.index, msgspec.to_builtins(line)) for line in lines if line.index >= first)


@get("/v1/runs/{run_id:str}/errors", sync_to_thread=True, query=PageQuery, answer=LinesPage, errors=(400, 404, 410))
def list_errors(request: AnyRequest, run_id: FromPath[str]) -> BytesResponse:
    """List every error of every invalid record."""
    query = read_query(request, PageQuery)
    return server_of(request).read_run(run_id, caller_of(request), lambda run: _errors(request, run, query))


def _errors(request: AnyRequest, run: api.RunReader, query: PageQuery) -> BytesResponse:
    entries = islice(enumerate(api.record_errors(run)), int(query.cursor or 0), None)
    row = server_of(request).submissions.of(run.folders.run_id)
    # The errors were counted at the submission; the artifacts need not be read for a total.
    total = None if row is None else msgspec.json.decode(row.answer, type=SubmissionResponse).record_errors_total
    return _page(entries, query.limit, total=total, request_id=request_id_of(request))


@get("/v1/runs/{run_id:str}/failures", sync_to_thread=True, query=PageQuery, answer=LinesPage, errors=(400, 404, 410))
def list_failures(request: AnyRequest, run_id: FromPath[str]) -> BytesResponse:
    """List every record that ended in an error or did not pass, as `failures.jsonl` has them."""
    query = read_query(request, PageQuery)
    return server_of(request).read_run(run_id, caller_of(request), lambda run: _failures(request, run, query))


def _failures(request: AnyRequest, run: api.RunReader, query: PageQuery) -> BytesResponse:
    entries = _from(int(query.cursor or 0), run.failures())
    return _page(entries, query.limit, total=_total(run, "failures.jsonl"), request_id=request_id_of(request))


@get(
    "/v1/runs/{run_id:str}/records/{record_id:path}",
    sync_to_thread=True,
    query=RecordQuery,
    answer=RecordResponse,
    errors=(400, 404, 410),
)
def show_record(request: AnyRequest, run_id: FromPath[str], record_id: FromPath[str]) -> BytesResponse:
    """Show one record by its id, or else by its index: what was asked, what came of it, every attempt."""
    return _shown(request, run_id, record_id_in(request) or record_id.removeprefix("/"))


def record_id_in(request: AnyRequest) -> str:
    """Return the record id as it was sent; ids may contain slashes, and the router merges several."""
    # The router decodes and merges slashes, so the id is taken from the raw path.
    return unquote(bytes(request.scope.get("raw_path", b"")).partition(b"/records/")[2].decode("ascii", "replace"))


def _shown(request: AnyRequest, run_id: str, record_id: str) -> BytesResponse:
    query = read_query(request, RecordQuery)
    found = server_of(request).read_run(run_id, caller_of(request), lambda run: run.record(record_id, sample=query.sample))
    return json_response(RecordResponse(record=msgspec.to_builtins(found), request_id=request_id_of(request)))


@get("/v1/runs/{run_id:str}/distribution", sync_to_thread=True, query=NoQuery, answer=ScoreDistribution, errors=(404, 410))
def show_distribution(request: AnyRequest, run_id: FromPath[str]) -> BytesResponse:
    """Show how the scores of a run are spread, over all and for each criterion."""
    read_query(request, NoQuery)
    return server_of(request).read_run(run_id, caller_of(request), lambda run: _distribution(request, run))


def _distribution(request: AnyRequest, run: api.RunReader) -> BytesResponse:
    scores: Counter[float] = Counter()
    criteria: dict[str, Counter[float]] = {}
    scale, passed = None, 0
    for line in run.scores():
        if line.raw_score is not None:
            scores[line.raw_score] += 1
            scale, passed = line.scale, passed + bool(line.passed)
        # Votes that are kept of a record without a grade are not counted.
        for score in line.evaluator_scores if line.raw_score is not None else ():
            criteria.setdefault(score.criterion, Counter())[score.score] += 1
    return json_response(
        ScoreDistribution(
            run_id=run.folders.run_id,
            scale=scale,
            graded_records=scores.total(),
            passed_records=passed,
            scores=tuple(_levels(scores)),
            criteria={name: list(_levels(found)) for name, found in sorted(criteria.items())},
            request_id=request_id_of(request),
        )
    )


def _levels(scores: Counter[float]) -> Iterator[dict[str, object]]:
    return ({"score": score, "records": count} for score, count in sorted(scores.items()))


def _total(run: api.RunReader, name: str) -> int | None:
    found = run.run_manifest.files.get(name)
    return None if found is None else found.lines


def _page(entries: Iterable[tuple[int, JsonObject]], limit: int, *, total: int | None, request_id: str) -> BytesResponse:
    """Build one page of numbered lines, fewer if they are long; its cursor is the number of the first line left out."""
    items: list[JsonObject] = []
    room, cursor = PAGE_BYTES, None
    for number, line in entries:
        room -= len(json_text(line))
        # At least one line, however long, or the cursor would not move.
        if items and (len(items) == limit or room < 0):
            cursor = str(number)
            break
        items.append(line)
    return json_response(LinesPage(items=tuple(items), next_cursor=cursor, total=total, request_id=request_id))


MAX_OTHERS = 50
"""Runs that are offered to look for flips against, the newest ones; any can be named in the address."""


@get("/runs/{run_id:str}/records", sync_to_thread=True)
def records_page(request: AnyRequest, run_id: FromPath[str]) -> BytesResponse:
    """Show the records of a run."""
    server, choice = server_of(request), read_choice(request, RecordsChoice)
    check_other_run(request, choice.search)
    return server.read_run(run_id, caller_of(request), lambda run: _records_page(request, server, run, choice))


def _records_page(request: AnyRequest, server: Server, run: api.RunReader, choice: RecordsChoice) -> BytesResponse:
    run_id = run.folders.run_id
    # Searching without an index would read the whole run for each page.
    percent = server.indexer.wait(run, choice.search)
    if percent is not None:
        return page_response(request, "records.html", indexing_view(run_id, choice, percent, place=PLACE))
    found = api.find_records(run, choice.search, limit=PAGE, offset=(choice.page - 1) * PAGE)
    others = _others(request, run_id)
    view = records_view(run_id, found, choice, facets=api.facets_of(run), others=others, place=PLACE)
    return page_response(request, "records.html", view)


def _others(request: AnyRequest, run_id: str) -> list[str]:
    """List finished runs on the same dataset."""
    listings = server_of(request).visible(caller_of(request))
    mine = next((listing.dataset for listing in listings if listing.run_id == run_id), "")
    ended = ("completed", "completed_with_failures")
    same = (one.run_id for one in listings if one.dataset == mine and one.state in ended and one.run_id != run_id)
    # Counted lazily: listings of a large folder are not all looked at.
    return [other for other, _ in zip(same, range(MAX_OTHERS), strict=False)]


@get("/runs/{run_id:str}/records/{index:int}", sync_to_thread=True)
def record_page(request: AnyRequest, run_id: FromPath[str], index: FromPath[int]) -> BytesResponse:
    """Show one record, with links to its neighbours in the list."""
    server, choice = server_of(request), read_choice(request, RecordsChoice)
    check_other_run(request, choice.search)
    return server.read_run(run_id, caller_of(request), lambda run: _record_page(request, server, run, index=index, choice=choice))


def _record_page(request: AnyRequest, server: Server, run: api.RunReader, *, index: int, choice: RecordsChoice) -> BytesResponse:
    run_id = run.folders.run_id
    percent = server.indexer.wait(run, choice.search)
    if percent is not None:
        return page_response(request, "records.html", indexing_view(run_id, choice, percent, place=PLACE))
    # By index: ids of records may contain anything, and may repeat over answers.
    found = run.record_at(index)
    view = record_view(run_id, found, _steps(run, index, choice), place=PLACE, issues=_issues(run, found))
    json_address = f"{PLACE.run(run_id, 'record-json')}/{index}"
    shown = msgspec.structs.replace(view, json_address=json_address)
    return page_response(request, "record.html", _with_labels(shown, run, found, choice=choice))


def _steps(run: api.RunReader, index: int, choice: RecordsChoice) -> RecordNavigation:
    run_id, query = run.folders.run_id, choice.query()
    list_address = PLACE.records(run_id, **query)
    # A ledger has no order that neighbours could be found in.
    if not run.artifacts():
        return RecordNavigation(list_address=list_address)
    near = api.neighbours_of(run, choice.search, api.row_at(run, index))
    if near.number is None:
        # A link may lead to a record that the filters of the list leave out.
        return RecordNavigation(list_address=list_address, text=f"not among the {near.total:,} records of the list")
    which = "of the list" if choice.filters else "of the run"
    return RecordNavigation(
        # The page of the list on which this record is, so that going back does not lose the place.
        list_address=PLACE.records(run_id, **choice.query(page=(near.number - 1) // PAGE + 1)),
        text=f"{near.number:,} of {near.total:,} {which}",
        previous_address=PLACE.record(run_id, near.previous.position, **query) if near.previous else "",
        next_address=PLACE.record(run_id, near.next.position, **query) if near.next else "",
    )


def _issues(run: api.RunReader, found: RecordDetails | InvalidRecord) -> tuple[RecordIssue, ...]:
    """Return the issues of a record that broke its contract."""
    if isinstance(found, RecordDetails):
        return ()
    return next((line.read_issues() for line in run.validations() if line.index == found.failure.index), ())


def _with_labels(
    view: RecordView, run: api.RunReader, found: RecordDetails | InvalidRecord, *, choice: RecordsChoice
) -> RecordView:
    # Only a grade can be confirmed or contradicted by a label.
    if not run.artifacts() or isinstance(found, InvalidRecord) or found.prediction.passed is None:
        return view
    line = found.prediction
    answer = (line.dataset, line.record_id, line.sample or 0)
    labels = tuple(label_view(label) for label in api.kept_labels(run) if label.answer == answer)
    address = PLACE.labels(view.run_id, view.index, **choice.query())
    return msgspec.structs.replace(view, labels=labels, label_address=address)


@get("/runs/{run_id:str}/record/{record_id:path}", status_code=302, sync_to_thread=True)
def named_record(request: AnyRequest, run_id: FromPath[str], record_id: FromPath[str]) -> BytesResponse:
    """Redirect to a record by its id or index; for addresses written by hand."""
    found = server_of(request).read_run(run_id, caller_of(request), lambda run: run.record(record_id.removeprefix("/")))
    index = (found.prediction if isinstance(found, RecordDetails) else found.failure).index
    return Response(b"", status_code=302, headers={"Location": PLACE.record(run_id, index)})


@get("/runs/{run_id:str}/record-json/{index:int}", sync_to_thread=True)
def record_json(request: AnyRequest, run_id: FromPath[str], index: FromPath[int]) -> BytesResponse:
    """Return one record as JSON, for copying."""
    found = server_of(request).read_run(run_id, caller_of(request), lambda run: run.record_at(index))
    return Response(json_text(found, indent=2).encode(), media_type="application/json")


class LabelForm(msgspec.Struct, frozen=True, kw_only=True):
    """Fields of the label form; empty ones are left out."""

    passed: bool | None = None
    score: float | None = None
    rater: Annotated[str, Meta(max_length=100)] = ""
    note: Annotated[str, Meta(max_length=4000)] = ""


@post("/runs/{run_id:str}/records/{index:int}/labels", status_code=303, request_max_body_size=FORM_BYTES)
async def label_form(request: AnyRequest, run_id: FromPath[str], index: FromPath[int]) -> BytesResponse:
    """Store the label of an answer, and redirect to the record in the same list."""
    choice, wanted = read_choice(request, RecordsChoice), await read_fields(request, LabelForm)
    caller = caller_of(request)
    # A signed-in rater is named by the key, so that labels cannot be given in another's name.
    name = caller.name or wanted.rater
    opinion = api.LabelInput(rater=name, passed=wanted.passed, score=wanted.score, note=wanted.note)
    server = server_of(request)
    await to_thread(server.read_run, run_id, caller, lambda run: api.keep_label(run, index, opinion))
    # 303: a reload of the page must not send the label again.
    return Response(b"", status_code=303, headers={"Location": PLACE.record(run_id, index, **choice.query())})


@get("/runs/{run_id:str}/labels.jsonl", sync_to_thread=True)
def labels_file(request: AnyRequest, run_id: FromPath[str]) -> BytesResponse:
    """Return the human labels of a run as a file that `assay calibrate` reads."""
    labels = server_of(request).read_run(run_id, caller_of(request), api.kept_labels)
    if not labels:
        raise RunNotFound(f"run '{run_id}' has no labels yet", hint="the page of a record has a form for it")
    lines = "".join(f"{json_text(msgspec.to_builtins(label))}\n" for label in labels)
    headers = {"Content-Disposition": f'attachment; filename="{run_id}-labels.jsonl"'}
    return Response(lines.encode(), media_type="application/x-ndjson", headers=headers)


HANDLERS = (
    list_records,
    show_record,
    list_errors,
    list_failures,
    show_distribution,
    records_page,
    record_page,
    named_record,
    record_json,
    label_form,
    labels_file,
)
