"""HTTP to providers: one JSON request, one JSON reply, within one deadline and a fixed amount of memory.

A reply is never trusted: not its length, its compression, its redirects, nor that it is JSON. A connection that has
anything left to say after its answer is closed and not used again, so that no late byte answers another request.
"""

import re
import zlib
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import aiohttp
import msgspec
from yarl import URL

from assay.core.ask import ModelFailure
from assay.core.version import __version__
from assay.models.decoding import Decoded, Undecodable, decode_body, decode_error
from assay.models.endpoint import Endpoint
from assay.models.failures import Refusal, error_failure, exception_failure, request_id_of, shorten, status_failure

if TYPE_CHECKING:
    from aiohttp.client_reqrep import ClientRequest
    from aiohttp.connector import Connection
    from aiohttp.tracing import Trace

MAX_REPLY_BYTES = 32 << 20
"""Of one reply, after decompression."""
MAX_HEADER_BYTES = 16 << 10
"""Of one header; a reply with a longer one is refused."""
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
    async with aiohttp.ClientSession(
        connector=_Connector(limit=0, ttl_dns_cache=60),
        headers=sent,
        timeout=aiohttp.ClientTimeout(total=endpoint.timeout),
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,
        proxy=endpoint.proxy or None,
        max_field_size=MAX_HEADER_BYTES,
    ) as session:
        yield Transport(endpoint, session, keep_raw=keep_raw)


class _Connector(aiohttp.TCPConnector):
    """Connections that are reused only when nothing has arrived on them since their last answer."""

    async def connect(
        self,
        req: "ClientRequest",
        traces: "list[Trace]",
        timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109  # the parent's
    ) -> "Connection":
        while True:
            connection = await super().connect(req, traces, timeout)
            if connection.protocol is None or not connection.protocol.should_close:
                return connection
            connection.close()


class Transport:
    """The open connections to one provider."""

    def __init__(self, endpoint: Endpoint, session: aiohttp.ClientSession, *, keep_raw: bool) -> None:
        self.endpoint = endpoint
        self._session = session
        self._keep_raw = keep_raw
        self._scrub = Scrubber(endpoint.secrets())

    async def post(self, url: URL, body: bytes, *, decoder: "msgspec.json.Decoder[_Value]") -> Exchanged[_Value]:
        """Send one request and decode its reply; raises ModelFailure for everything else than an answer."""
        try:
            async with self._session.post(url, data=body, allow_redirects=False) as response:
                content = await _read(response)
        except (TimeoutError, aiohttp.ClientError, OSError) as problem:
            raise self._scrub.failure(self._network_failure(problem)) from None
        except zlib.error as problem:
            raise self._broken(f"its compression is broken ({problem})", response) from None
        except _TooLarge:
            message = f"the reply of '{self.endpoint.provider}' is larger than {MAX_REPLY_BYTES >> 20} MiB"
            raise ModelFailure("reply_too_large", message, http_status=response.status) from None
        except _UnknownEncoding as problem:
            raise self._broken(f"it is encoded as {problem}, which was not asked for", response) from None
        if not 200 <= response.status < 300:
            raise self._scrub.failure(status_failure(self._refusal(response, decode_error(content))))
        try:
            decoded = decode_body(content, decoder)
        except Undecodable as problem:
            raise self._scrub.failure(self._broken(str(problem), response)) from None
        return self._exchanged(response, content, decoded)

    def refused(self, body: Any, request_id: str) -> ModelFailure:
        """The failure of an error that came inside a reply."""
        headers = {"x-request-id": request_id}
        refusal = Refusal(provider=self.endpoint.provider, status=200, body=self._scrub.value(body), headers=headers)
        return self._scrub.failure(error_failure(refusal))

    def _exchanged(self, response: aiohttp.ClientResponse, content: bytes, decoded: Decoded[_Value]) -> Exchanged[_Value]:
        raw = content.decode("utf-8", "replace").replace("\x00", "\ufffd") if self._keep_raw else ""
        return Exchanged(decoded.value, request_id_of(response.headers), decoded.has_replaced, raw)

    def _refusal(self, response: aiohttp.ClientResponse, body: Any) -> Refusal:
        # Before anything is cut short: half a key is still one.
        shown = self._scrub.value(body)
        return Refusal(provider=self.endpoint.provider, status=response.status, body=shown, headers=response.headers)

    def _network_failure(self, problem: BaseException) -> ModelFailure:
        if type(problem) is TimeoutError:
            return ModelFailure("timeout", f"'{self.endpoint.provider}' gave no whole answer in {self.endpoint.timeout:g} s")
        return exception_failure(problem, provider=self.endpoint.provider)

    def _broken(self, what: str, response: aiohttp.ClientResponse) -> ModelFailure:
        message = shorten(f"the reply of '{self.endpoint.provider}' cannot be read: {what}")
        return ModelFailure("internal_error", message, http_status=response.status, request_id=request_id_of(response.headers))


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


class _TooLarge(Exception):
    """The reply has more bytes than may be read."""


class _UnknownEncoding(Exception):
    """The reply is compressed in a way that was not asked for."""


async def _read(response: aiohttp.ClientResponse) -> bytes:
    """The body, unpacked and never more than MAX_REPLY_BYTES of it."""
    headers = response.headers
    encoding = headers.get("Content-Encoding")
    length = response.content_length
    if encoding is None and length is not None and length <= MAX_REPLY_BYTES:
        return await response.read()
    unpacked = bytearray()
    inflate = _inflater(encoding)
    async for chunk in response.content.iter_any():
        unpacked += inflate.decompress(chunk, MAX_REPLY_BYTES + 1 - len(unpacked)) if inflate else chunk
        if len(unpacked) > MAX_REPLY_BYTES:
            response.close()
            raise _TooLarge
    if inflate and not inflate.eof:
        raise zlib.error("the stream ends too early")
    return bytes(unpacked)


def _inflater(encoding: str | None) -> "zlib._Decompress | None":
    name = (encoding or "identity").strip().lower()
    if name in ("identity", ""):
        return None
    if name not in ("gzip", "x-gzip", "deflate"):
        raise _UnknownEncoding(repr(name[:40]))
    # 32 added to the window size: the header tells gzip from zlib.
    return zlib.decompressobj(wbits=zlib.MAX_WBITS + 32)
