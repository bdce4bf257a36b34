"""Request bodies as files, with the headers that they require."""

from collections.abc import AsyncIterator
from email.message import Message
from pathlib import Path
from typing import get_args

from litestar.types import Receive

from assay.core.contract import CONTRACTS, Format
from assay.surfaces.server.errors import HttpError
from assay.surfaces.server.queries import AnyRequest, ContractChoice
from assay.surfaces.server.spool import SpooledUpload, spool, too_large

LINES = ("application/x-ndjson", "application/jsonl", "application/jsonlines")
YAML = ("application/yaml", "application/x-yaml")
_ENDINGS = {"application/json": ".json", **dict.fromkeys(LINES, ".jsonl"), **dict.fromkeys(YAML, ".yaml")}


class ClientGone(Exception):
    """The client closed the connection before its body was complete; there is no receiver for an answer."""


def media_types(contract: ContractChoice) -> tuple[str, ...]:
    """List the content types of a contract; lines may also be called JSON."""
    formats = get_args(Format) if contract == "auto" else CONTRACTS[contract].formats
    return ("application/json", *(LINES if "jsonl" in formats else ()), *(YAML if "yaml" in formats else ()))


def ending_of(request: AnyRequest, contract: ContractChoice) -> str:
    """Return the file extension for a body; raises HttpError for a content type that the contract does not have."""
    header = Message()
    header["content-type"] = request.headers.get("content-type", "")
    media_type = header.get_content_type() if header["content-type"] else ""
    charsets = {str(value).lower() for name, value in header.get_params([]) if name.lower().startswith("charset")}
    if media_type not in media_types(contract) or not charsets <= {"utf-8", "utf8"}:
        raise HttpError(
            415,
            f"the content type must be {' or '.join(media_types(contract))}, in UTF-8",
            details={"given": header["content-type"][:200]},
        )
    is_lines = contract != "auto" and CONTRACTS[contract].is_lines
    return ".jsonl" if is_lines else _ENDINGS[media_type]


async def spool_body(request: AnyRequest, path: Path, *, limit: int) -> SpooledUpload:
    """Store the body of a request in a new private file; raises HttpError and ClientGone, and then there is no file."""
    encoding = request.headers.get("content-encoding", "identity").lower()
    if encoding not in ("identity", "gzip"):
        raise HttpError(415, f"the content encoding '{encoding[:64]}' is not known", details={"known": ["gzip"]})
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and len(declared) < 20 and int(declared) > limit:
        raise too_large(limit)
    return await spool(body_pieces(request.receive), path, limit=limit, is_gzip=encoding == "gzip")


async def body_pieces(receive: Receive) -> AsyncIterator[bytes]:
    """Iterate over the body of a request as it arrives; raises ClientGone."""
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise ClientGone
        if message["body"]:
            yield message["body"]
        if not message.get("more_body", False):
            return
