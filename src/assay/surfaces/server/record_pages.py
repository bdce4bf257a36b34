"""Pages about the records of a run: the list, one record, and what people say of its answer."""

from asyncio import to_thread
from typing import Annotated

import msgspec
from litestar import Response, get, post
from litestar.params import FromPath
from msgspec import Meta

from assay import api
from assay.core.artifact_lines import InvalidRecord, RecordDetails
from assay.core.errors import RunNotFound
from assay.core.issue import RecordIssue
from assay.surfaces.pages.record import RecordNavigation, RecordView, label_view, record_view
from assay.surfaces.pages.records import PAGE, RecordsChoice, indexing_view, records_view
from assay.surfaces.reporters.json_document import json_text
from assay.surfaces.server.forms import FORM_BYTES, read_fields
from assay.surfaces.server.page_responses import PLACE, paged, read_choice
from assay.surfaces.server.queries import AnyRequest
from assay.surfaces.server.record_routes import check_other_run
from assay.surfaces.server.server import Answer, Server, caller_of, server_of

MAX_OTHERS = 50
"""Runs that are offered to look for flips against, the newest ones; any can be named in the address."""


@get("/runs/{run_id:str}/records", sync_to_thread=True)
def records_page(request: AnyRequest, run_id: FromPath[str]) -> Answer:
    """The records of a run."""
    server, choice = server_of(request), read_choice(request, RecordsChoice)
    check_other_run(request, choice.search)
    return server.look(run_id, caller_of(request), lambda run: _records_page(request, server, run, choice))


def _records_page(request: AnyRequest, server: Server, run: api.RunReader, choice: RecordsChoice) -> Answer:
    run_id = run.folders.run_id
    percent = server.indexer.wait(run, choice.search)
    if percent is not None:
        return paged(request, "records.html", indexing_view(run_id, choice, percent, place=PLACE))
    found = api.find_records(run, choice.search, limit=PAGE, offset=(choice.page - 1) * PAGE)
    others = _others(request, run_id)
    view = records_view(run_id, found, choice, facets=api.facets_of(run), others=others, place=PLACE)
    return paged(request, "records.html", view)


def _others(request: AnyRequest, run_id: str) -> list[str]:
    """Finished runs over the same dataset."""
    listings = server_of(request).visible(caller_of(request))
    mine = next((listing.dataset for listing in listings if listing.run_id == run_id), "")
    ended = ("completed", "completed_with_failures")
    same = (one.run_id for one in listings if one.dataset == mine and one.state in ended and one.run_id != run_id)
    return [other for other, _ in zip(same, range(MAX_OTHERS), strict=False)]


@get("/runs/{run_id:str}/records/{index:int}", sync_to_thread=True)
def record_page(request: AnyRequest, run_id: FromPath[str], index: FromPath[int]) -> Answer:
    """One record, with the way to those beside it in the list that led here."""
    server, choice = server_of(request), read_choice(request, RecordsChoice)
    check_other_run(request, choice.search)
    return server.look(run_id, caller_of(request), lambda run: _record_page(request, server, run, index=index, choice=choice))


def _record_page(request: AnyRequest, server: Server, run: api.RunReader, *, index: int, choice: RecordsChoice) -> Answer:
    run_id = run.folders.run_id
    percent = server.indexer.wait(run, choice.search)
    if percent is not None:
        return paged(request, "records.html", indexing_view(run_id, choice, percent, place=PLACE))
    found = run.record_at(index)
    view = record_view(run_id, found, _steps(run, index, choice), place=PLACE, issues=_issues(run, found))
    json_address = f"{PLACE.run(run_id, 'record-json')}/{index}"
    shown = msgspec.structs.replace(view, json_address=json_address)
    return paged(request, "record.html", _with_labels(shown, run, found, choice=choice))


def _steps(run: api.RunReader, index: int, choice: RecordsChoice) -> RecordNavigation:
    run_id, query = run.folders.run_id, choice.query()
    list_address = PLACE.records(run_id, **query)
    if not run.artifacts():
        return RecordNavigation(list_address=list_address)
    near = api.neighbours_of(run, choice.search, api.row_at(run, index))
    if near.number is None:
        return RecordNavigation(list_address=list_address, text=f"not among the {near.total:,} records of the list")
    which = "of the list" if choice.filters else "of the run"
    return RecordNavigation(
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
    if not run.artifacts() or isinstance(found, InvalidRecord) or found.prediction.passed is None:
        return view
    line = found.prediction
    answer = (line.dataset, line.record_id, line.sample or 0)
    labels = tuple(label_view(label) for label in api.kept_labels(run) if label.answer == answer)
    address = PLACE.labels(view.run_id, view.index, **choice.query())
    return msgspec.structs.replace(view, labels=labels, label_address=address)


@get("/runs/{run_id:str}/record/{record_id:path}", status_code=302, sync_to_thread=True)
def named_record(request: AnyRequest, run_id: FromPath[str], record_id: FromPath[str]) -> Answer:
    """The page of a record by its id, or else by its index: an address that can be written by hand."""
    found = server_of(request).look(run_id, caller_of(request), lambda run: run.record(record_id.removeprefix("/")))
    index = (found.prediction if isinstance(found, RecordDetails) else found.failure).index
    return Response(b"", status_code=302, headers={"Location": PLACE.record(run_id, index)})


@get("/runs/{run_id:str}/record-json/{index:int}", sync_to_thread=True)
def record_json(request: AnyRequest, run_id: FromPath[str], index: FromPath[int]) -> Answer:
    """One record as JSON, to be copied."""
    found = server_of(request).look(run_id, caller_of(request), lambda run: run.record_at(index))
    return Response(json_text(found, indent=2).encode(), media_type="application/json")


class LabelForm(msgspec.Struct, frozen=True, kw_only=True):
    """Fields of the label form; empty ones are left out."""

    passed: bool | None = None
    score: float | None = None
    rater: Annotated[str, Meta(max_length=100)] = ""
    note: Annotated[str, Meta(max_length=4000)] = ""


@post("/runs/{run_id:str}/records/{index:int}/labels", status_code=303, request_max_body_size=FORM_BYTES)
async def label_form(request: AnyRequest, run_id: FromPath[str], index: FromPath[int]) -> Answer:
    """Keep what a person says of an answer, and show the record again, still in the list that led to it."""
    choice, wanted = read_choice(request, RecordsChoice), await read_fields(request, LabelForm)
    caller = caller_of(request)
    name = caller.name or wanted.rater
    opinion = api.LabelInput(rater=name, passed=wanted.passed, score=wanted.score, note=wanted.note)
    server = server_of(request)
    await to_thread(server.look, run_id, caller, lambda run: api.keep_label(run, index, opinion))
    return Response(b"", status_code=303, headers={"Location": PLACE.record(run_id, index, **choice.query())})


@get("/runs/{run_id:str}/labels.jsonl", sync_to_thread=True)
def labels_file(request: AnyRequest, run_id: FromPath[str]) -> Answer:
    """What people say of the answers of a run, as a file that `assay calibrate` reads."""
    labels = server_of(request).look(run_id, caller_of(request), api.kept_labels)
    if not labels:
        raise RunNotFound(f"run '{run_id}' has no labels yet", hint="the page of a record has a form for it")
    lines = "".join(f"{json_text(msgspec.to_builtins(label))}\n" for label in labels)
    headers = {"Content-Disposition": f'attachment; filename="{run_id}-labels.jsonl"'}
    return Response(lines.encode(), media_type="application/x-ndjson", headers=headers)


HANDLERS = (records_page, record_page, named_record, record_json, label_form, labels_file)
