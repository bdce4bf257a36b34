"""Two runs beside each other, and who did what."""

from itertools import islice

from litestar import get

from assay import api
from assay.core.http_answers import AuditView, ComparisonView
from assay.surfaces.server.errors import request_id_of
from assay.surfaces.server.queries import AnyRequest, CompareQuery, PageQuery, read_query
from assay.surfaces.server.server import Answer, answered, caller_of, server_of


@get("/v1/compare", sync_to_thread=True, query=CompareQuery, answer=ComparisonView, errors=(400, 404, 410))
def compare_runs(request: AnyRequest) -> Answer:
    """Compare two finished runs record by record and test the difference."""
    query, server, caller = read_query(request, CompareQuery), server_of(request), caller_of(request)
    before, after = server.sealed_path(query.before, caller), server.sealed_path(query.after, caller)
    found = api.compare(before, after, runs_dir=server.runs_dir, cluster=query.cluster, max_flips=query.flips)
    return answered(ComparisonView(comparison=found.to_dict(), request_id=request_id_of(request)))


@get("/v1/audit", sync_to_thread=True, query=PageQuery, answer=AuditView, errors=(400,))
def list_audit(request: AnyRequest) -> Answer:
    """List who submitted, cancelled, resumed and decided what, the oldest first."""
    query = read_query(request, PageQuery)
    start = int(query.cursor or 0)
    entries = list(islice(api.audit(server_of(request).runs_dir), start, start + query.limit + 1))
    cursor = str(start + query.limit) if len(entries) > query.limit else None
    return answered(AuditView(entries=tuple(entries[: query.limit]), next_cursor=cursor, request_id=request_id_of(request)))
