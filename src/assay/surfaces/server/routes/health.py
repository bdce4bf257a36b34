"""Whether the service lives, whether it takes work, and what it counts."""

import os
import shutil

from litestar import Response, get

from assay.core.http_answers import Health
from assay.core.version import __version__
from assay.surfaces.server.errors import RETRY_SECONDS, HttpError, request_id_of
from assay.surfaces.server.meters import CONTENT_TYPE
from assay.surfaces.server.queries import AnyRequest, NoQuery, read_query
from assay.surfaces.server.server import Answer, answered, caller_of, server_of


@get("/healthz", query=NoQuery, answer=Health)
async def healthz(request: AnyRequest) -> Answer:
    """Say that the process answers."""
    read_query(request, NoQuery)
    return answered(Health(status="ok", version=__version__, request_id=request_id_of(request)))


@get("/readyz", sync_to_thread=True, query=NoQuery, answer=Health, errors=(503,))
def readyz(request: AnyRequest) -> Answer:
    """Report whether a run could start now: there is room in the queue and on the disk, runs can be written, the ledger answers."""
    read_query(request, NoQuery)
    server = server_of(request)
    if not os.access(server.runs_dir, os.W_OK):
        raise HttpError(503, "the folder of the runs cannot be written", headers={"Retry-After": str(RETRY_SECONDS)})
    if shutil.disk_usage(server.runs_dir).free < server.settings.max_bytes:
        raise HttpError(503, "the disk of the runs is full", headers={"Retry-After": str(RETRY_SECONDS)})
    if server.shared is not None:
        server.shared.check()
    with server.queue.seat():
        return answered(Health(status="ok", version=__version__, request_id=request_id_of(request)))


@get("/metrics", sync_to_thread=True, query=NoQuery, answer=str, media_types=("text/plain",))
def metrics(request: AnyRequest) -> Answer:
    """Everything that is counted, for Prometheus, over the runs of all projects."""
    read_query(request, NoQuery)
    if not server_of(request).sees_every_run(caller_of(request)):
        raise HttpError(403, "the figures are about the runs of all projects: this needs a key with the scope 'admin'")
    return Response(server_of(request).meters.text(), media_type=CONTENT_TYPE)
