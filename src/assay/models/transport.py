"""HTTP to providers: one JSON request, one JSON reply, within one deadline and a fixed amount of memory.

A reply is never trusted: not its length, its compression, its redirects, nor that it is JSON.
"""

import re
import zlib
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Generic, TypeVar
from urllib.parse import urlsplit

import msgspec

from assay.core.ask import ModelFailure
from assay.core.version import __version__
from assay.models.decoding import Decoded, Undecodable, decode_body, decode_error
from assay.models.endpoint import Endpoint
from assay.models.failures import Refusal, error_failure, exception_failure, request_id_of, shorten, status_failure
from assay.models.http_connection import MAX_REPLY_BYTES, Broken, HttpReply
from assay.models.http_pool import HttpPool

REDACTED = "[key]"
MIN_SECRET = 4
"""A key with fewer characters is none (`x`, `id`): replacing it would spoil every message."""
_MIN_SUBSTRING = 8
"""A shorter key is replaced only where it stands alone."""

_Value = TypeVar("_Value")


class Exchanged(msgspec.Struct, Generic[_Value], frozen=True):
    """A successful reply, decoded."""

    value: _Value
    request_id: str
    has_replaced: bool
    """Characters that no text may hold were replaced by U+FFFD."""
    raw: str
    """The whole body, where it is to be kept."""


@asynccontextmanager
async def open_transport(endpoint: Endpoint, *, headers: Mapping[str, str], keep_raw: bool = False) -> AsyncIterator["Transport"]:
    """A transport to one provider, with the headers of its protocol; closing it closes every connection."""
    sent = {
        "Accept": "application/json",
        # Replies are short: asking for plain ones costs less than unpacking.
        "Accept-Encoding": "identity",
        "Content-Type": "application/json",
        "User-Agent": f"assay/{__version__}",
        **headers,
        **endpoint.headers,
    }
    pool = HttpPool(endpoint.url, seconds=endpoint.timeout, proxy=endpoint.proxy)
    try:
        yield Transport(endpoint, pool, headers=sent, keep_raw=keep_raw)
    finally:
        await pool.close()


class Transport:
    """The open connections to one provider."""

    def __init__(self, endpoint: Endpoint, pool: HttpPool, *, headers: Mapping[str, str], keep_raw: bool) -> None:
        self.endpoint = endpoint
        self._pool = pool
        self._headers = headers
        self._keep_raw = keep_raw
        self._scrub = Scrubber(endpoint.secrets())

    def head(self, path: str) -> bytes:
        """The beginning of all requests to one of the provider's paths, for `post`."""
        return self._pool.head("POST", self.endpoint.at(path), self._headers)

    async def post(self, head: bytes, body: bytes, *, decoder: "msgspec.json.Decoder[_Value]") -> Exchanged[_Value]:
        """Send one request and decode its reply; raises ModelFailure for everything else than an answer."""
        try:
            reply = await self._pool.send(b"%bContent-Length: %d\r\n\r\n%b" % (head, len(body), body))
        except (Broken, OSError) as problem:
            raise self._scrub.failure(self._network_failure(problem)) from None
        if not 200 <= reply.status < 300:
            raise self._scrub.failure(status_failure(self._refusal(reply, decode_error(self._explanation(reply)))))
        content = self._content(reply)
        try:
            decoded = decode_body(content, decoder)
        except Undecodable as problem:
            raise self._broken(str(problem), reply) from None
        return self._exchanged(reply, content, decoded)

    def refused(self, body: Any, request_id: str) -> ModelFailure:
        """The failure of an error that came inside a reply."""
        headers = {"x-request-id": request_id}
        refusal = Refusal(provider=self.endpoint.provider, status=200, body=self._scrub.value(body), headers=headers)
        return self._scrub.failure(error_failure(refusal))

    def _exchanged(self, reply: HttpReply, content: bytes, decoded: Decoded[_Value]) -> Exchanged[_Value]:
        raw = content.decode("utf-8", "replace").replace("\x00", "\ufffd") if self._keep_raw else ""
        return Exchanged(decoded.value, request_id_of(reply.headers), decoded.has_replaced, raw)

    def _refusal(self, reply: HttpReply, body: Any) -> Refusal:
        # Before anything is cut short: half a key is still one.
        shown = self._scrub.value(body)
        return Refusal(provider=self.endpoint.provider, status=reply.status, body=shown, headers=reply.headers)

    def _network_failure(self, problem: Broken | OSError) -> ModelFailure:
        provider, seconds = self.endpoint.provider, self.endpoint.timeout
        if isinstance(problem, TimeoutError) and problem.errno is None:
            return ModelFailure("timeout", f"'{provider}' gave no whole answer in {seconds:g} s")
        if isinstance(problem, Broken):
            return ModelFailure(problem.code, shorten(f"'{provider}' gave no answer: {problem}"), http_status=problem.status)
        code = exception_failure(problem, provider=provider).code
        host = urlsplit(self.endpoint.proxy or self.endpoint.url).hostname
        return ModelFailure(code, shorten(f"'{provider}' cannot be reached at {host}: {problem.strerror or problem}"))

    def _content(self, reply: HttpReply) -> bytes:
        """The body, unpacked and never more than MAX_REPLY_BYTES of it; raises ModelFailure."""
        encoding = reply.headers.get("content-encoding", "identity").strip().lower()
        if encoding in ("identity", ""):
            return reply.body
        if encoding not in ("gzip", "x-gzip", "deflate"):
            raise self._broken(f"it is encoded as {encoding[:40]!r}, which was not asked for", reply)
        # 32 added to the window size: the header tells gzip from zlib.
        inflate = zlib.decompressobj(wbits=zlib.MAX_WBITS + 32)
        try:
            content = inflate.decompress(reply.body, MAX_REPLY_BYTES + 1)
        except zlib.error as problem:
            raise self._broken(f"its compression is broken ({problem})", reply) from None
        if len(content) > MAX_REPLY_BYTES:
            message = f"the reply of '{self.endpoint.provider}' is larger than {MAX_REPLY_BYTES >> 20} MiB when it is unpacked"
            raise ModelFailure("reply_too_large", message, http_status=reply.status)
        if not inflate.eof:
            raise self._broken("its compression is broken (the stream ends too early)", reply)
        return content

    def _explanation(self, reply: HttpReply) -> bytes:
        """The body of a refusal; where it cannot be unpacked, its status and headers say enough."""
        try:
            return self._content(reply)
        except ModelFailure:
            return b""

    def _broken(self, what: str, reply: HttpReply) -> ModelFailure:
        message = shorten(f"the reply of '{self.endpoint.provider}' cannot be read: {what}")
        failure = ModelFailure("internal_error", message, http_status=reply.status, request_id=request_id_of(reply.headers))
        return self._scrub.failure(failure)


class Scrubber:
    """Takes keys out of what is said of a failure; answers are graded as they came and redacted when they are stored."""

    def __init__(self, secrets: Iterable[str]) -> None:
        known = sorted({secret for secret in secrets if len(secret) >= MIN_SECRET}, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(_secret_pattern, known))) if known else None

    def text(self, text: str) -> str:
        """The text without keys."""
        return text if self._pattern is None else self._pattern.sub(REDACTED, text)

    def value(self, value: Any) -> Any:
        """A JSON-like value with every text in it scrubbed."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {name: self.value(member) for name, member in value.items()}
        return [self.value(member) for member in value] if isinstance(value, list) else value

    def failure(self, failure: ModelFailure) -> ModelFailure:
        """The same failure with nothing secret in its texts."""
        failure.message, failure.request_id = self.text(failure.message), self.text(failure.request_id)
        failure.args = (failure.message,)
        return failure


def _secret_pattern(secret: str) -> str:
    exact = re.escape(secret)
    return exact if len(secret) >= _MIN_SUBSTRING else rf"(?<!\w){exact}(?!\w)"
