"""Records over HTTP: results, issues, failures, and the spread of scores."""

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice
from urllib.parse import unquote

import msgspec
from litestar import get
from litestar.params import FromPath

from assay import api
from assay.core.artifact_lines import FailureLine, PredictionLine
from assay.core.canonical import JsonObject
from assay.core.http_answers import Distribution, LinesPage, RecordResponse, Submission
from assay.core.record_query import VALID, RecordSearch
from assay.surfaces.reporters.json_document import json_text
from assay.surfaces.server.errors import HttpError, request_id_of
from assay.surfaces.server.queries import AnyRequest, NoQuery, PageQuery, RecordQuery, RecordsQuery, read_query
from assay.surfaces.server.server import Answer, answered, caller_of, server_of

PAGE_BYTES = 8 << 20
"""What a page may weigh: a record may have 256 KB, and a thousand of them would be in memory several times."""

PATIENCE = 20.0
"""Seconds that a search waits for the index of a large run that has just ended."""


@get("/v1/runs/{run_id:str}/records", sync_to_thread=True, query=RecordsQuery, answer=LinesPage, errors=(400, 404, 410))
def list_records(request: AnyRequest, run_id: FromPath[str]) -> Answer:
    """List the valid records with what came of them so far, as `predictions.jsonl` has them, filtered and sorted."""
    named = record_id_in(request)
    if named:
        return _shown(request, run_id, named)
    query = read_query(request, RecordsQuery)
    check_other_run(request, query)
    return server_of(request).look(run_id, caller_of(request), lambda run: _records(request, run, query))


def check_other_run(request: AnyRequest, search: RecordSearch) -> None:
    """Raises RunNotFound when a search looks for flips against a run that the caller may not see."""
    if search.against is not None:
        server_of(request).run(search.against, caller_of(request))


def _records(request: AnyRequest, run: api.RunReader, query: RecordsQuery) -> Answer:
    search, start = query.search, int(query.cursor or 0)
    if run.artifacts() and search == RecordSearch(status=VALID):
        # The lines as they stand need no index; those that cannot be wanted are passed over unread.
        total = _total(run, "predictions.jsonl") or 0
        left_out = (_total(run, "record_validation.jsonl") or 0) - total
        entries = _from(start, run.predictions(max(0, start - left_out)))
        return _page(entries, query.limit, total=total, request_id=request_id_of(request))
    percent = server_of(request).indexer.wait(run, search, PATIENCE)
    if percent is not None:
        raise HttpError(503, f"the records are being indexed: {percent} %", headers={"Retry-After": "2"})
    # In the order of the records the index of the next one names a page, also of a run that goes on meanwhile; else its number.
    place = "first" if search.sort == "order" else "offset"
    found = api.find_records(run, search, limit=query.limit + 1, **{place: start})
    lines = [record.line for record in found.records]
    entries = _from(start, lines) if place == "first" else enumerate(map(msgspec.to_builtins, lines), start)
    return _page(entries, query.limit, total=found.total, request_id=request_id_of(request))


def _from(first: int, lines: Iterable[PredictionLine | FailureLine]) -> Iterator[tuple[int, JsonObject]]:
    """Yield lines with the indexes of their records, from an index on."""
    return ((line.index, msgspec.to_builtins(line)) for line in lines if line.index >= first)


@get("/v1/runs/{run_id:str}/errors", sync_to_thread=True, query=PageQuery, answer=LinesPage, errors=(400, 404, 410))
def list_errors(request: AnyRequest, run_id: FromPath[str]) -> Answer:
    """List every error of every invalid record."""
    query = read_query(request, PageQuery)
    return server_of(request).look(run_id, caller_of(request), lambda run: _errors(request, run, query))


def _errors(request: AnyRequest, run: api.RunReader, query: PageQuery) -> Answer:
    entries = islice(enumerate(api.record_errors(run)), int(query.cursor or 0), None)
    row = server_of(request).submissions.of(run.folders.run_id)
    total = None if row is None else msgspec.json.decode(row.answer, type=Submission).record_errors_total
    return _page(entries, query.limit, total=total, request_id=request_id_of(request))


@get("/v1/runs/{run_id:str}/failures", sync_to_thread=True, query=PageQuery, answer=LinesPage, errors=(400, 404, 410))
def list_failures(request: AnyRequest, run_id: FromPath[str]) -> Answer:
    """List every record that ended in an error or did not pass, as `failures.jsonl` has them."""
    query = read_query(request, PageQuery)
    return server_of(request).look(run_id, caller_of(request), lambda run: _failures(request, run, query))


def _failures(request: AnyRequest, run: api.RunReader, query: PageQuery) -> Answer:
    entries = _from(int(query.cursor or 0), run.failures())
    return _page(entries, query.limit, total=_total(run, "failures.jsonl"), request_id=request_id_of(request))


@get(
    "/v1/runs/{run_id:str}/records/{record_id:path}",
    sync_to_thread=True,
    query=RecordQuery,
    answer=RecordResponse,
    errors=(400, 404, 410),
)
def show_record(request: AnyRequest, run_id: FromPath[str], record_id: FromPath[str]) -> Answer:
    """Show one record by its id, or else by its index: what was asked, what came of it, every attempt."""
    return _shown(request, run_id, record_id_in(request) or record_id.removeprefix("/"))


def record_id_in(request: AnyRequest) -> str:
    """The id as it was sent; ids may have slashes in any place, and the router counts several as one."""
    return unquote(bytes(request.scope.get("raw_path", b"")).partition(b"/records/")[2].decode("ascii", "replace"))


def _shown(request: AnyRequest, run_id: str, record_id: str) -> Answer:
    query = read_query(request, RecordQuery)
    found = server_of(request).look(run_id, caller_of(request), lambda run: run.record(record_id, sample=query.sample))
    return answered(RecordResponse(record=msgspec.to_builtins(found), request_id=request_id_of(request)))


@get("/v1/runs/{run_id:str}/distribution", sync_to_thread=True, query=NoQuery, answer=Distribution, errors=(404, 410))
def show_distribution(request: AnyRequest, run_id: FromPath[str]) -> Answer:
    """Show how the scores of a run are spread, over all and for each criterion."""
    read_query(request, NoQuery)
    return server_of(request).look(run_id, caller_of(request), lambda run: _distribution(request, run))


def _distribution(request: AnyRequest, run: api.RunReader) -> Answer:
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
    return answered(
        Distribution(
            run_id=run.folders.run_id,
            scale=scale,
            graded_records=scores.total(),
            passed_records=passed,
            scores=tuple(_levels(scores)),
            criteria={name: list(_levels(found)) for name, found in sorted(criteria.items())},
            request_id=request_id_of(request),
        )
    )


def _levels(scores: Counter[float]) -> Iterator[JsonObject]:
    return ({"score": score, "records": count} for score, count in sorted(scores.items()))


def _total(run: api.RunReader, name: str) -> int | None:
    found = run.run_manifest.files.get(name)
    return None if found is None else found.lines


def _page(entries: Iterable[tuple[int, JsonObject]], limit: int, *, total: int | None, request_id: str) -> Answer:
    """One page of numbered lines, shorter when they are long; the number of the first one that is not shown names the next."""
    items: list[JsonObject] = []
    room, cursor = PAGE_BYTES, None
    for number, line in entries:
        room -= len(json_text(line))
        if items and (len(items) == limit or room < 0):
            cursor = str(number)
            break
        items.append(line)
    return answered(LinesPage(items=tuple(items), next_cursor=cursor, total=total, request_id=request_id))
