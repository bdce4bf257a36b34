"""The body of a request into a file, and what its headers must say for that."""

from collections.abc import AsyncIterator
from email.message import Message
from pathlib import Path

from litestar.types import Receive

from assay.surfaces.server.errors import Refusal
from assay.surfaces.server.queries import AnyRequest, Contract
from assay.surfaces.server.spool import Spooled, spool, too_large

LINES = ("application/x-ndjson", "application/jsonl", "application/jsonlines")
YAML = ("application/yaml", "application/x-yaml")
_ENDINGS = {"application/json": ".json", **dict.fromkeys(LINES, ".jsonl"), **dict.fromkeys(YAML, ".yaml")}
_MEDIA_TYPES: dict[Contract, tuple[str, ...]] = {
    "batch_v1": ("application/json",),
    "golden_v1": ("application/json",),
    "legal_eval_v1": ("application/json", *LINES),
    "conversation_v1": ("application/json", *LINES, *YAML),
    "auto": ("application/json", *LINES, *YAML),
}


class ClientGone(Exception):
    """The client closed the connection before its body was whole; there is nobody to answer."""


def ending_of(request: AnyRequest, contract: Contract) -> str:
    """The ending of a file with such a body; raises Refusal for another content type than the contract's."""
    header = Message()
    header["content-type"] = request.headers.get("content-type", "")
    media_type = header.get_content_type() if header["content-type"] else ""
    charsets = {str(value).lower() for name, value in header.get_params([]) if name.lower().startswith("charset")}
    if media_type not in _MEDIA_TYPES[contract] or not charsets <= {"utf-8", "utf8"}:
        raise Refusal(
            415,
            f"the content type must be {' or '.join(_MEDIA_TYPES[contract])}, in UTF-8",
            details={"given": header["content-type"][:200]},
        )
    # Rows of legal_eval_v1 are lines, whatever the content type of the request.
    return ".jsonl" if contract == "legal_eval_v1" else _ENDINGS[media_type]


async def spool_body(request: AnyRequest, path: Path, *, limit: int) -> Spooled:
    """The body of a request in a new private file; raises Refusal and ClientGone, and then there is no file."""
    encoding = request.headers.get("content-encoding", "identity").lower()
    if encoding not in ("identity", "gzip"):
        raise Refusal(415, f"the content encoding '{encoding[:64]}' is not known", details={"known": ["gzip"]})
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and len(declared) < 20 and int(declared) > limit:
        raise too_large(limit)
    return await spool(body_pieces(request.receive), path, limit=limit, is_gzip=encoding == "gzip")


async def body_pieces(receive: Receive) -> AsyncIterator[bytes]:
    """The body of a request as it comes in; raises ClientGone."""
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise ClientGone
        if message["body"]:
            yield message["body"]
        if not message.get("more_body", False):
            return
