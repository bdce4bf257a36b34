"""HTTP to providers: one JSON request, one JSON reply, within one deadline and a fixed amount of memory.

A reply is never trusted: not its length, its compression, its redirects, nor that it is JSON.
"""

import re
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from itertools import chain
from typing import Any, Generic, TypeVar
from urllib.parse import urlsplit

import msgspec

from assay.core.ask import ModelFailure
from assay.core.secrets import AS_CREDENTIAL, forms_of, is_distinctive
from assay.core.version import __version__
from assay.models.decoding import Decoded, Undecodable, decode_body, decode_error
from assay.models.endpoint import Endpoint
from assay.models.failures import (
    TOLD_HEADERS,
    Refusal,
    error_failure,
    exception_failure,
    reason_of,
    request_id_of,
    shorten,
    status_failure,
)
from assay.models.http_connection import MAX_REPLY_BYTES, Broken, HttpReply
from assay.models.http_pool import HttpPool

REDACTED = "[key]"
MIN_SECRET = 4
"""A key with fewer characters is none (`x`, `id`): replacing it would spoil every message."""
MAX_TEXT = 4000
"""Characters of an explanation without a form that are looked at."""
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
    date: str = ""
    """When the provider sent it, by its own clock and in its own words."""


@asynccontextmanager
async def open_transport(endpoint: Endpoint, *, keep_raw: bool = False) -> AsyncIterator["Transport"]:
    """A transport to one provider; closing it closes every connection."""
    sent = {
        "Accept": "application/json",
        # Replies are short: asking for plain ones costs less than unpacking.
        "Accept-Encoding": "identity",
        "Content-Type": "application/json",
        "User-Agent": f"assay/{__version__}",
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
        reply = await self._made(self._pool.send(b"%bContent-Length: %d\r\n\r\n%b" % (head, len(body), body)))
        return self._decoded(reply, self._content(reply), decoder)

    async def get(self, path: str, *, decoder: "msgspec.json.Decoder[_Value]") -> Exchanged[_Value]:
        """Ask for what is at one of the provider's paths; raises ModelFailure."""
        return await self.post(self._pool.head("GET", self.endpoint.at(path), self._headers), b"", decoder=decoder)

    async def upload(
        self, path: str, parts: Iterable[bytes], *, size: int, content_type: str, decoder: "msgspec.json.Decoder[_Value]"
    ) -> Exchanged[_Value]:
        """Send a body of so many bytes piece by piece, so that it is never in memory as a whole; raises ModelFailure."""
        headers = {**self._headers, "Content-Type": content_type, "Content-Length": str(size)}
        head = self._pool.head("POST", self.endpoint.at(path), headers) + b"\r\n"
        reply = await self._made(self._pool.transfer(chain((head,), parts)))
        return self._decoded(reply, self._content(reply), decoder)

    async def download(self, path: str, sink: Callable[[bytes], object]) -> None:
        """Give what is at a path to the sink, piece by piece, up to its end; raises ModelFailure."""
        head = self._pool.head("GET", self.endpoint.at(path), {**self._headers, "Accept": "*/*"})
        reply = await self._made(self._pool.transfer((head + b"\r\n",), sink=sink))
        named = reply.headers.get("content-encoding", "identity").strip().lower()
        if named not in ("identity", ""):
            raise self._broken(f"it is encoded as {self._scrub.beginning(named, 40)!r}, which was not asked for", reply)

    def decoded(self, status: int, body: bytes, decoder: "msgspec.json.Decoder[_Value]") -> Exchanged[_Value]:
        """A reply that came inside another one, as if it had come by itself; raises ModelFailure."""
        reply = HttpReply(status, {}, body)
        if not 200 <= status < 300:
            raise self._refused(reply)
        return self._decoded(reply, body, decoder)

    async def _made(self, exchange: Awaitable[HttpReply]) -> HttpReply:
        try:
            reply = await exchange
        except (Broken, OSError) as problem:
            raise self._scrub.failure(self._network_failure(problem)) from None
        if not 200 <= reply.status < 300:
            raise self._refused(reply)
        return reply

    def _refused(self, reply: HttpReply) -> ModelFailure:
        return self._scrub.failure(status_failure(self._refusal(reply, decode_error(self._explanation(reply)))))

    def _decoded(self, reply: HttpReply, content: bytes, decoder: "msgspec.json.Decoder[_Value]") -> Exchanged[_Value]:
        try:
            decoded = decode_body(content, decoder)
        except Undecodable as problem:
            raise self._broken(self._unreadable(content, decoder) or str(problem), reply) from None
        return self._exchanged(reply, content, decoded)

    def refused(self, body: Any, request_id: str) -> ModelFailure:
        """The failure of an error that came inside a reply."""
        headers = {"x-request-id": request_id}
        refusal = Refusal(provider=self.endpoint.provider, status=200, body=self._scrub.value(body), headers=headers)
        return self._scrub.failure(error_failure(refusal))

    def _exchanged(self, reply: HttpReply, content: bytes, decoded: Decoded[_Value]) -> Exchanged[_Value]:
        raw = content.decode("utf-8", "replace").replace("\x00", "\ufffd") if self._keep_raw else ""
        return Exchanged(decoded.value, request_id_of(self._told(reply)), decoded.has_replaced, raw, reply.headers.get("date", ""))

    def _refusal(self, reply: HttpReply, body: Any) -> Refusal:
        # Before anything is cut short: half a key is still one.
        shown = self._scrub.beginning(body, MAX_TEXT) if isinstance(body, str) else self._scrub.value(body)
        return Refusal(provider=self.endpoint.provider, status=reply.status, body=shown, headers=self._told(reply))

    def _told(self, reply: HttpReply) -> dict[str, str]:
        """The headers that something is read from, without keys."""
        return {name: self._scrub.text(reply.headers[name]) for name in TOLD_HEADERS if name in reply.headers}

    def _network_failure(self, problem: Broken | OSError) -> ModelFailure:
        provider, seconds = self.endpoint.provider, self.endpoint.timeout
        if isinstance(problem, TimeoutError) and problem.errno is None:
            return ModelFailure("timeout", f"'{provider}' gave no whole answer in {seconds:g} s")
        if isinstance(problem, Broken):
            return ModelFailure(
                problem.code, shorten(f"'{provider}' gave no answer: {self._scrub.text(str(problem))}"), http_status=problem.status
            )
        code = exception_failure(problem, provider=provider).code
        host = urlsplit(self.endpoint.proxy or self.endpoint.url).hostname
        return ModelFailure(code, shorten(f"'{provider}' cannot be reached at {host}: {reason_of(problem)}"))

    def _content(self, reply: HttpReply) -> bytes:
        """The body, unpacked and never more than MAX_REPLY_BYTES of it; raises ModelFailure."""
        named = reply.headers.get("content-encoding", "identity")
        encoding = named.strip().lower()
        if encoding in ("identity", ""):
            return reply.body
        if encoding not in ("gzip", "x-gzip", "deflate"):
            raise self._broken(f"it is encoded as {self._scrub.beginning(named, 40)!r}, which was not asked for", reply)
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

    def _unreadable(self, content: bytes, decoder: "msgspec.json.Decoder[_Value]") -> str:
        """What is wrong with a body that holds a key, said of it without the key: the parser repeats the beginnings of words."""
        text = content.decode("utf-8", "replace")
        shown = self._scrub.text(text)
        try:
            decode_body(shown.encode(), decoder)
        except Undecodable as problem:
            return str(problem) if shown != text else ""
        return "it is not the JSON of an answer" if shown != text else ""

    def _broken(self, what: str, reply: HttpReply) -> ModelFailure:
        message = shorten(f"the reply of '{self.endpoint.provider}' cannot be read: {self._scrub.text(what)}")
        failure = ModelFailure("internal_error", message, http_status=reply.status, request_id=request_id_of(self._told(reply)))
        return self._scrub.failure(failure)


class Scrubber:
    """Takes keys out of what is said of a failure; answers are graded as they came and redacted when they are stored."""

    def __init__(self, secrets: Iterable[str]) -> None:
        found = {secret for secret in secrets if len(secret) >= MIN_SECRET}
        forms = {form for secret in found if is_distinctive(secret) for form in forms_of(secret)}
        known = sorted(forms, key=len, reverse=True)
        # `none` and `test` are words: they go only where they are used as a key.
        words = sorted((secret for secret in found if not is_distinctive(secret)), key=len, reverse=True)
        self._words = words
        self._as_credential = re.compile(rf"({AS_CREDENTIAL})(?:{'|'.join(map(re.escape, words))})(?!\w)") if words else None
        self._forms = known
        self._longest = len(known[0]) if known else 0
        self._pattern = re.compile("|".join(map(re.escape, known))) if known else None

    def text(self, text: str) -> str:
        """The text without keys."""
        # Most texts hold none, which is told much faster.
        has_key = self._pattern is not None and any(form in text for form in self._forms)
        text = self._pattern.sub(REDACTED, text) if self._pattern is not None and has_key else text
        has_word = self._as_credential is not None and any(word in text for word in self._words)
        return self._as_credential.sub(rf"\1{REDACTED}", text) if self._as_credential is not None and has_word else text

    def beginning(self, text: str, length: int) -> str:
        """The first characters of a text without keys, nor the part of one where no more of the text is looked at."""
        looked_at = length + self._longest
        if len(text) <= looked_at:
            return self.text(text)[:length]
        shown = self.text(text[:looked_at])
        return shown[: max(0, len(shown) - self._longest)]

    def value(self, value: Any) -> Any:
        """A JSON-like value with every text in it scrubbed; names too short for a long key are what the error is read by."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            shown = {name: name if len(name) < _MIN_SUBSTRING else self.text(name) for name in value}
            return {shown[name]: self.value(member) for name, member in value.items()}
        return [self.value(member) for member in value] if isinstance(value, list) else value

    def failure(self, failure: ModelFailure) -> ModelFailure:
        """The same failure with nothing secret in its texts."""
        failure.message, failure.request_id = self.text(failure.message), self.text(failure.request_id)
        failure.args = (failure.message,)
        return failure
