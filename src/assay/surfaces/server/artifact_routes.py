"""The files of finished runs, whole or in part, and their predictions as tables."""

import hashlib
import re
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path

import msgspec
from litestar import Response, get
from litestar.params import FromPath
from litestar.response import Stream

from assay import api
from assay.core.errors import ArtifactGone, RunNotFound
from assay.core.http_answers import ArtifactFile, ArtifactsView, RemovedView
from assay.surfaces.exports import EXPORTS, MEDIA_TYPES, Export
from assay.surfaces.exports.text_tables import ExportProgress
from assay.surfaces.server.errors import AnyRequest, HttpError, request_id_of
from assay.surfaces.server.queries import ExportQuery, NoQuery, read_query
from assay.surfaces.server.server import BytesResponse, caller_of, json_response, server_of

BLOCK = 1 << 18
# Fifteen digits are enough for any file, and keep `int` from very long input.
_RANGE = re.compile(r"bytes=(\d{0,15})-(\d{0,15})", re.ASCII)
_MEDIA_TYPES = {".json": "application/json", ".jsonl": "application/x-ndjson"}


@get("/v1/runs/{run_id:str}/artifacts", sync_to_thread=True, query=NoQuery, answer=ArtifactsView, errors=(404,))
def list_artifacts(request: AnyRequest, run_id: FromPath[str]) -> BytesResponse:
    """List the files of a finished run with their hashes; none before its end."""
    read_query(request, NoQuery)
    server, caller = server_of(request), caller_of(request)
    run = server.run(run_id, caller)
    # The artifacts are in a store or on another machine: this raises the error that says so.
    if not run.artifacts() and run.result.is_away:
        server.sealed_path(run_id, caller)
    shown = tuple(_view(run, name, path) for name, path in run.artifacts().items())
    removed = tuple(RemovedView(**msgspec.structs.asdict(tombstone)) for tombstone in run.removed())
    return json_response(ArtifactsView(run_id=run_id, artifacts=shown, removed=removed, request_id=request_id_of(request)))


def _view(run: api.RunReader, name: str, path: Path) -> ArtifactFile:
    known = run.run_manifest.files.get(name)
    return ArtifactFile(
        name=name,
        sha256=_sha256(run, name, path),
        bytes=path.stat().st_size,
        lines=None if known is None else known.lines,
        url=f"/v1/runs/{run.folders.run_id}/artifacts/{name}",
    )


def _sha256(run: api.RunReader, name: str, path: Path) -> str:
    """Return the hash in the manifest; that of the manifest itself is computed."""
    known = run.run_manifest.files.get(name)
    # The manifest cannot contain its own hash, so it is read; it is small.
    return hashlib.sha256(path.read_bytes()).hexdigest() if known is None else known.sha256


@get(
    "/v1/runs/{run_id:str}/artifacts/{name:str}",
    sync_to_thread=True,
    query=NoQuery,
    answer=bytes,
    media_types=tuple(_MEDIA_TYPES.values()),
    errors=(404, 410, 412, 416),
)
def show_artifact(request: AnyRequest, run_id: FromPath[str], name: FromPath[str]) -> Response[bytes] | Stream:
    """Return a file of a finished run as it was published; its ETag is its SHA-256, and it supports range requests."""
    read_query(request, NoQuery)
    run = server_of(request).run(run_id, caller_of(request))
    path = run.artifacts().get(name)
    # 410 and not 404: the file was there, and retention has removed it, which is listed.
    if path is None and any(name == tombstone.name for tombstone in run.removed()):
        raise ArtifactGone(f"'{name}' was removed by retention", hint=f"/v1/runs/{run_id}/artifacts lists when and why")
    if path is None:
        raise RunNotFound(f"run '{run_id}' has no artifact of that name", hint=f"/v1/runs/{run_id}/artifacts lists them")
    etag = f'"{_sha256(run, name, path)}"'
    # `no-cache` lets a browser keep the file but ask each time, since keys may be revoked.
    headers = {"ETag": etag, "Accept-Ranges": "bytes", "Cache-Control": "private, no-cache"}
    # If-None-Match comes before the range (RFC 9110 13.2.2).
    if _names(request.headers.get("if-none-match", ""), etag):
        return Response(b"", status_code=304, headers=headers)
    if "if-match" in request.headers and not _names(request.headers["if-match"], etag):
        raise HttpError(412, "the file is not the one that If-Match names")
    size = path.stat().st_size
    start, end = _span(request, size, etag=etag)
    is_part = (start, end) != (0, size)
    headers["Content-Length"] = str(end - start)
    if is_part:
        headers["Content-Range"] = f"bytes {start}-{end - 1}/{size}"
    return Stream(
        _pieces(path, start, end), status_code=206 if is_part else 200, headers=headers, media_type=_MEDIA_TYPES[path.suffix]
    )


def _names(condition: str, etag: str) -> bool:
    """Return whether a condition names the file with this tag."""
    # Weak tags compare equal here: artifacts never change, so every tag is as good as a strong one.
    return condition.strip() == "*" or etag in (tag.strip().removeprefix("W/") for tag in condition.split(","))


def _span(request: AnyRequest, size: int, *, etag: str) -> tuple[int, int]:
    """Parse the range: first byte and end; the whole file for an unreadable range, or one for another version."""
    found = _RANGE.fullmatch(request.headers.get("range", "").strip())
    # A range of another unit, or of a version that has changed, is ignored and the whole file sent (RFC 9110
    # 14.2, 13.1.5).
    if found is None or found[0] == "bytes=-" or request.headers.get("if-range", etag) != etag:
        return 0, size
    first, last = found[1], found[2]
    if first and last and int(last) < int(first):
        return 0, size
    # `-500` asks for the last 500 bytes.
    start = int(first) if first else max(0, size - int(last))
    end = min(size, int(last) + 1) if first and last else size
    if start >= end:
        raise HttpError(416, "the range lies outside of the file", headers={"Content-Range": f"bytes */{size}"})
    return start, end


def _pieces(path: Path, start: int, end: int) -> Iterator[bytes]:
    with path.open("rb") as file:
        file.seek(start)
        while start < end and (piece := file.read(min(BLOCK, end - start))):
            start += len(piece)
            yield piece


@get(
    "/v1/runs/{run_id:str}/export",
    sync_to_thread=True,
    query=ExportQuery,
    answer=bytes,
    media_types=MEDIA_TYPES,
    errors=(400, 404, 410),
)
def export_run(request: AnyRequest, run_id: FromPath[str]) -> Stream:
    """Export all records so far: JSON, JSON Lines, CSV that no spreadsheet evaluates, Parquet, XLSX, answers or the dataset."""
    query, run = read_query(request, ExportQuery), server_of(request).run(run_id, caller_of(request))
    export: Export = EXPORTS[query.format].of(run)
    headers = {"Content-Disposition": f'attachment; filename="{run_id}{export.suffix}"'}
    return Stream(_begun(export.write(run, ExportProgress())), headers=headers, media_type=export.media_type)


def _begun(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Join pieces to larger blocks; the first are made now, so that an error there still gets a status."""
    # Streaming answers send their status first; afterwards an error can only break the connection.
    return _blocks(chain(tuple(islice(pieces, 2)), pieces))


def _blocks(pieces: Iterator[bytes]) -> Iterator[bytes]:
    block = bytearray()
    for piece in pieces:
        block += piece
        if len(block) >= BLOCK:
            yield bytes(block)
            block.clear()
    yield bytes(block)


HANDLERS = (list_artifacts, show_artifact, export_run)
