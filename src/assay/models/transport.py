"""Decoding of reply bodies into typed values: fast for a valid one, through the strict parser for any other."""

import re
import zlib
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from itertools import chain
from typing import Any, Generic, TypeVar
from urllib.parse import urlsplit

import msgspec

from assay.core.canonical import RequestMembers
from assay.core.json_path import structure_of
from assay.core.model_call import TOOL_CALL_ONLY, ModelFailure, Reply, Usage, with_total
from assay.core.outcome import TRUNCATED
from assay.core.secrets import AS_CREDENTIAL, forms_of, is_distinctive
from assay.core.strict_json import parse_json
from assay.core.tools import ToolCall
from assay.core.version import __version__
from assay.models.endpoint import Endpoint
from assay.models.failures import (
    READ_HEADERS,
    ErrorResponse,
    error_failure,
    exception_failure,
    reason_of,
    request_id_of,
    shorten,
    shown_id,
    status_failure,
)
from assay.models.http_client import MAX_REPLY_BYTES, ExchangeFailed, HttpPool, HttpReply
from assay.models.unexpected_replies import UnexpectedReply, is_page, other_format, unexpected_status, unreadable

_SURROGATE = re.compile("[\ud800-\udfff]")
_MAX_PAGES = 3
"""Web pages in place of the first answers, after which the address is taken for that of something else."""
_OPTIONAL = ("usage", "usageMetadata")
"""Optional members: an odd value in one must not cost an answer that was paid for."""

_Value = TypeVar("_Value")
_ANY_DECODER: "msgspec.json.Decoder[Any]" = msgspec.json.Decoder()


class DecodedReply(msgspec.Struct, Generic[_Value], frozen=True):
    """A typed reply."""

    value: _Value
    has_replaced: bool = False
    """Lone surrogates were replaced by U+FFFD."""


class UndecodableReply(Exception):
    """A body that the provider should not send; the message says why."""


def decode_body(body: bytes, decoder: "msgspec.json.Decoder[_Value]") -> DecodedReply[_Value]:
    """Decode a body as the decoder's type; raises UndecodableReply."""
    try:
        return DecodedReply(decoder.decode(body))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        # A byte order mark, a lone surrogate or an odd optional member may spoil it for the fast decoder: the answer is paid for.
        pass
    value, has_replaced = _read_strictly(body)
    try:
        return DecodedReply(_typed(value, decoder.type), has_replaced)
    except msgspec.ValidationError as problem:
        raise UndecodableReply(str(problem)) from None


def decode_error(body: bytes) -> Any:
    """Decode the body of an error response: JSON, or else text."""
    try:
        return _read_strictly(body)[0]
    except UndecodableReply:
        return body.decode("utf-8", "replace")


def _read_strictly(body: bytes) -> tuple[Any, bool]:
    document = parse_json(body)
    # Flaws that lose nothing, such as a name that is there twice, do not make an answer unusable.
    fatal = next((flaw for flaw in document.flaws if flaw.fatal), None)
    if fatal is not None:
        raise UndecodableReply(fatal.message if body.strip() else "it is empty")
    return _without_halves(document.value), any(flaw.code == "invalid_encoding" for flaw in document.flaws)


def _without_halves(value: object) -> Any:
    """Replace lone surrogates by U+FFFD; the strict parser bounds the depth."""
    if isinstance(value, str):
        return value if value.isascii() else _SURROGATE.sub("\ufffd", value)
    if isinstance(value, dict):
        return {_without_halves(key): _without_halves(member) for key, member in value.items()}
    return [_without_halves(member) for member in value] if isinstance(value, list) else value


def _typed(value: object, kind: object) -> Any:
    try:
        return msgspec.convert(value, kind, strict=False)
    except msgspec.ValidationError:
        # Only what is optional may be dropped: without its answer a reply is none.
        if not isinstance(value, dict) or not any(name in value for name in _OPTIONAL):
            raise
    return msgspec.convert({name: member for name, member in value.items() if name not in _OPTIONAL}, kind, strict=False)


def _any_value(body: bytes) -> Any:
    try:
        return _read_strictly(body)[0]
    except UndecodableReply:
        return None


REDACTED = "[key]"
MIN_SECRET = 4
"""A shorter value is not a key (`x`, `id`): replacing it would spoil every message."""
MAX_TEXT = 4000
"""Maximum characters of an unstructured error text that are read."""
_MIN_SUBSTRING = 8
"""A shorter key is replaced only as a whole word."""


class HttpResult(msgspec.Struct, Generic[_Value], frozen=True):
    """A successful reply, decoded."""

    value: _Value
    request_id: str
    has_replaced: bool
    """Invalid characters were replaced by U+FFFD."""
    raw: str
    """Whole body, if it is to be stored."""
    date: str = ""
    """Provider's Date header."""
    content: bytes = b""
    """Unpacked body, to say what it is if it is not an answer."""


@asynccontextmanager
async def open_transport(endpoint: Endpoint, *, keep_raw: bool = False) -> AsyncIterator["Transport"]:
    """Open a transport to one provider; leaving the block closes every connection."""
    sent = {
        "Accept": "application/json",
        # Replies are short: plain ones cost less than decompression.
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
    """Open connections to one provider."""

    def __init__(self, endpoint: Endpoint, pool: HttpPool, *, headers: Mapping[str, str], keep_raw: bool) -> None:
        self.endpoint = endpoint
        self._pool = pool
        self._headers = headers
        self._keep_raw = keep_raw
        self._scrub = KeyScrubber(endpoint.secrets())
        self._pages: int | None = 0
        """Pages that came in place of answers; None after the first answer."""

    def request_head(self, method: str, url: str, headers: Mapping[str, str]) -> bytes:
        """Build the head of one request to a whole address on the provider's host, without its length."""
        return self._pool.head(method, url, {**self._headers, **headers})

    def scrubbed(self, text: str) -> str:
        """Remove the provider's keys from a text."""
        return self._scrub.text(text)

    def head(self, path: str, *, model: str = "") -> bytes:
        """Build the head of all requests to one of the provider's paths, for `post`."""
        return self._pool.head("POST", self.endpoint.at(path, model=model), self._headers)

    async def post(self, head: bytes, body: bytes, *, decoder: "msgspec.json.Decoder[_Value]") -> HttpResult[_Value]:
        """Send one request and decode its reply; raises ModelFailure for anything but an answer."""
        # As in `_transfer`, but without its coroutine: a run makes this call for every request.
        try:
            reply = await self._pool.send(b"%bContent-Length: %d\r\n\r\n%b" % (head, len(body), body))
        except (ExchangeFailed, OSError) as problem:
            # `from None`: the exception's own text could hold an address with a password.
            raise self._scrub.failure(self._network_failure(problem)) from None
        if not 200 <= reply.status < 300:
            # Redirects too: they are not followed, so that no key reaches a host that it was not meant for.
            raise self._refused(reply)
        return self._decoded(reply, self._content(reply), decoder)

    async def fetch(self, request: bytes) -> tuple[HttpReply, bytes]:
        """Send a whole request; return its reply, of any status, with the unpacked content. Raises ModelFailure."""
        try:
            reply = await self._pool.send(request)
        except (ExchangeFailed, OSError) as problem:
            raise self._scrub.failure(self._network_failure(problem)) from None
        return reply, self._content(reply) if 200 <= reply.status < 300 else self._explanation(reply)

    def result_of(self, reply: HttpReply, content: bytes, *, takes_text: bool) -> HttpResult[Any]:
        """Decode a successful reply as JSON, or as a text if that is an answer too; raises ModelFailure."""
        media_type = reply.headers.get("content-type", "").partition(";")[0].strip().lower()
        if takes_text and media_type.startswith("text/") and media_type != "text/html":
            return self._build_result(reply, content, DecodedReply(content.decode("utf-8", "replace")))
        return self._decoded(reply, content, _ANY_DECODER)

    async def get(self, path: str, *, decoder: "msgspec.json.Decoder[_Value]") -> HttpResult[_Value]:
        """Send a GET request for one of the provider's paths; raises ModelFailure."""
        return await self.post(self._pool.head("GET", self.endpoint.at(path), self._headers), b"", decoder=decoder)

    async def upload(
        self, path: str, parts: Iterable[bytes], *, size: int, content_type: str, decoder: "msgspec.json.Decoder[_Value]"
    ) -> HttpResult[_Value]:
        """Send a body of `size` bytes in pieces, so that it is never in memory as a whole; raises ModelFailure."""
        headers = {**self._headers, "Content-Type": content_type, "Content-Length": str(size)}
        head = self._pool.head("POST", self.endpoint.at(path), headers) + b"\r\n"
        reply = await self._transfer(chain((head,), parts))
        return self._decoded(reply, self._content(reply), decoder)

    async def download(self, path: str, sink: Callable[[bytes], object]) -> None:
        """Stream a path's content to the sink; raises ModelFailure."""
        # Files of results are JSON Lines, and some servers refuse to send them as `application/json`.
        head = self._pool.head("GET", self.endpoint.at(path), {**self._headers, "Accept": "*/*"})
        reply = await self._transfer((head + b"\r\n",), sink=sink)
        # The sink has got the bytes as they came, so that packed ones would be taken for results.
        named = reply.headers.get("content-encoding", "identity").strip().lower()
        if named not in ("identity", ""):
            raise self._malformed(f"it is encoded as {self._scrub.beginning(named, 40)!r}, which was not asked for", reply)

    def decoded(self, status: int, body: bytes, decoder: "msgspec.json.Decoder[_Value]") -> HttpResult[_Value]:
        """Decode a reply that is embedded in another one, such as a line of batch results; raises ModelFailure."""
        reply = HttpReply(status, {}, body)
        if not 200 <= status < 300:
            raise self._refused(reply)
        return self._decoded(reply, body, decoder)

    async def _transfer(self, request: Iterable[bytes], *, sink: Callable[[bytes], object] | None = None) -> HttpReply:
        try:
            reply = await self._pool.transfer(request, sink=sink)
        except (ExchangeFailed, OSError) as problem:
            raise self._scrub.failure(self._network_failure(problem)) from None
        if not 200 <= reply.status < 300:
            raise self._refused(reply)
        return reply

    def _refused(self, reply: HttpReply) -> ModelFailure:
        return self.rejected(reply, self._explanation(reply))

    def rejected(self, reply: HttpReply, content: bytes, *, error: object = None) -> ModelFailure:
        """Build the failure for a reply with another status than success; `error` is what the caller has found in it."""
        body = decode_error(content) if error is None else {"error": error}
        found = None if error is not None else unexpected_status(reply, content, self.endpoint)
        if found is None:
            return self._scrub.failure(status_failure(self._refusal(reply, body)))
        # The text of a page is not an explanation: what the page is replaces it.
        failure = status_failure(self._refusal(reply, found.says or body))
        failure.message = shorten(f"{failure.message}; {found.hint}" if found.hint else failure.message)
        return self._scrub.failure(failure)

    def unexpected(self, result: HttpResult[Any], what: str, request_id: str) -> ModelFailure:
        """Build the failure for JSON that has no answer: in another protocol's format it is final, else it may be an error."""
        found = other_format(result.content, self.endpoint)
        if found is None:
            structure = self._scrub.text(structure_of(_any_value(result.content)))
            return self.refused({"error": f"{what}; it has {structure}" if structure != "{}" else what}, request_id)
        return self._other_format(found, request_id)

    def _other_format(self, found: UnexpectedReply, request_id: str) -> ModelFailure:
        """Build the failure for a reply in another protocol's format, which every further reply would have too."""
        message = f"the reply of '{self.endpoint.provider}' cannot be read: {found}"
        return self._scrub.failure(ModelFailure("unexpected_reply", shorten(message), http_status=200, request_id=request_id))

    def _decoded(self, reply: HttpReply, content: bytes, decoder: "msgspec.json.Decoder[_Value]") -> HttpResult[_Value]:
        try:
            decoded = decode_body(content, decoder)
        except UndecodableReply as problem:
            other = other_format(content, self.endpoint)
            if other is not None:
                raise self._other_format(other, request_id_of(self._error_headers(reply))) from None
            found = unreadable(reply, content, self.endpoint)
            what = str(found) if found else self._parse_problem(content, decoder) or str(problem)
            failure = self._malformed(what, reply)
            if is_page(content) and self._pages is not None:
                self._pages += 1
                if self._pages >= _MAX_PAGES:
                    # The address is wrong, which every further request would meet; fewer pages may be a fault of a gateway.
                    failure.code = "unexpected_reply"
            raise failure from None
        return self._build_result(reply, content, decoded)

    def refused(self, body: object, request_id: str) -> ModelFailure:
        """Build the failure for an error inside a reply."""
        headers = {"x-request-id": request_id}
        refusal = ErrorResponse(provider=self.endpoint.provider, status=200, body=self._scrub.value(body), headers=headers)
        return self._scrub.failure(error_failure(refusal))

    def _build_result(self, reply: HttpReply, content: bytes, decoded: DecodedReply[_Value]) -> HttpResult[_Value]:
        self._pages = None
        raw = content.decode("utf-8", "replace").replace("\x00", "\ufffd") if self._keep_raw else ""
        return HttpResult(
            decoded.value,
            request_id_of(self._error_headers(reply)),
            decoded.has_replaced,
            raw,
            reply.headers.get("date", ""),
            content,
        )

    def _refusal(self, reply: HttpReply, body: object) -> ErrorResponse:
        # Scrub before shortening: half a key would not be recognised.
        scrubbed = self._scrub.beginning(body, MAX_TEXT) if isinstance(body, str) else self._scrub.value(body)
        return ErrorResponse(
            provider=self.endpoint.provider, status=reply.status, body=scrubbed, headers=self._error_headers(reply)
        )

    def _error_headers(self, reply: HttpReply) -> dict[str, str]:
        """Return the headers that are read, without keys."""
        return {name: self._scrub.text(reply.headers[name]) for name in READ_HEADERS if name in reply.headers}

    def _network_failure(self, problem: ExchangeFailed | OSError) -> ModelFailure:
        provider, seconds = self.endpoint.provider, self.endpoint.timeout
        # The system's own ETIMEDOUT is a connection that failed, and has an errno; a deadline of ours has none.
        if isinstance(problem, TimeoutError) and problem.errno is None:
            return ModelFailure("timeout", f"'{provider}' gave no whole answer in {seconds:g} s")
        if isinstance(problem, ExchangeFailed):
            return ModelFailure(
                problem.code, shorten(f"'{provider}' gave no answer: {self._scrub.text(str(problem))}"), http_status=problem.status
            )
        code = exception_failure(problem, provider=provider).code
        host = urlsplit(self.endpoint.proxy or self.endpoint.url).hostname
        return ModelFailure(code, shorten(f"'{provider}' cannot be reached at {host}: {reason_of(problem)}"))

    def _content(self, reply: HttpReply) -> bytes:
        """Decompress the body, up to MAX_REPLY_BYTES; raises ModelFailure."""
        named = reply.headers.get("content-encoding", "identity")
        encoding = named.strip().lower()
        if encoding in ("identity", ""):
            return reply.body
        if encoding not in ("gzip", "x-gzip", "deflate"):
            raise self._malformed(f"it is encoded as {self._scrub.beginning(named, 40)!r}, which was not asked for", reply)
        # 32 added to the window size: zlib detects gzip or zlib by the header.
        inflate = zlib.decompressobj(wbits=zlib.MAX_WBITS + 32)
        try:
            # One byte more than allowed tells a bomb from a reply that just fits, without unpacking it.
            content = inflate.decompress(reply.body, MAX_REPLY_BYTES + 1)
        except zlib.error as problem:
            raise self._malformed(f"its compression is broken ({problem})", reply) from None
        if len(content) > MAX_REPLY_BYTES:
            message = f"the reply of '{self.endpoint.provider}' is larger than {MAX_REPLY_BYTES >> 20} MiB when it is unpacked"
            raise ModelFailure("reply_too_large", message, http_status=reply.status)
        # Half a stream decompresses without an error, and half an answer must not be graded.
        if not inflate.eof:
            raise self._malformed("its compression is broken (the stream ends too early)", reply)
        return content

    def _explanation(self, reply: HttpReply) -> bytes:
        """Return the body of an error response; empty when it cannot be decompressed, since status and headers suffice."""
        try:
            return self._content(reply)
        except ModelFailure:
            return b""

    def _parse_problem(self, content: bytes, decoder: "msgspec.json.Decoder[_Value]") -> str:
        """Describe a malformed body after scrubbing it: the parser quotes beginnings of words, which could be part of a key."""
        text = content.decode("utf-8", "replace")
        scrubbed = self._scrub.text(text)
        try:
            decode_body(scrubbed.encode(), decoder)
        except UndecodableReply as problem:
            return str(problem) if scrubbed != text else ""
        return "it is not the JSON of an answer" if scrubbed != text else ""

    def _malformed(self, what: str, reply: HttpReply) -> ModelFailure:
        message = shorten(f"the reply of '{self.endpoint.provider}' cannot be read: {self._scrub.text(what)}")
        failure = ModelFailure(
            "internal_error", message, http_status=reply.status, request_id=request_id_of(self._error_headers(reply))
        )
        return self._scrub.failure(failure)


class KeyScrubber:
    """Removes keys from failure texts; answers are graded unchanged, and redacted when they are stored."""

    def __init__(self, secrets: Iterable[str]) -> None:
        found = {secret for secret in secrets if len(secret) >= MIN_SECRET}
        forms = {form for secret in found if is_distinctive(secret) for form in forms_of(secret)}
        # The longest first: a key that begins like another one would leave its rest behind.
        by_length = sorted(forms, key=len, reverse=True)
        # `none` and `test` are words: they are replaced only where they are used as a key.
        words = sorted((secret for secret in found if not is_distinctive(secret)), key=len, reverse=True)
        self._words = words
        self._as_credential = re.compile(rf"({AS_CREDENTIAL})(?:{'|'.join(map(re.escape, words))})(?!\w)") if words else None
        self._forms = by_length
        self._longest = len(by_length[0]) if by_length else 0
        self._pattern = re.compile("|".join(map(re.escape, by_length))) if by_length else None

    def text(self, text: str) -> str:
        """Replace the keys in a text."""
        # Most texts hold no key, and `in` is much faster than the pattern.
        has_key = self._pattern is not None and any(form in text for form in self._forms)
        text = self._pattern.sub(REDACTED, text) if self._pattern is not None and has_key else text
        has_word = self._as_credential is not None and any(word in text for word in self._words)
        return self._as_credential.sub(rf"\1{REDACTED}", text) if self._as_credential is not None and has_word else text

    def beginning(self, text: str, length: int) -> str:
        """Return the first characters of a text without keys, nor a part of one that the cut would split."""
        searched = length + self._longest
        if len(text) <= searched:
            return self.text(text)[:length]
        scrubbed = self.text(text[:searched])
        # The end of what was searched may be the beginning of a key.
        return scrubbed[: max(0, len(scrubbed) - self._longest)]

    def value(self, value: object) -> Any:
        """Scrub every text in a JSON-like value; short member names are kept, since errors are read by them."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            scrubbed = {name: name if len(name) < _MIN_SUBSTRING else self.text(name) for name in value}
            return {scrubbed[name]: self.value(member) for name, member in value.items()}
        return [self.value(member) for member in value] if isinstance(value, list) else value

    def failure(self, failure: ModelFailure) -> ModelFailure:
        """Remove the keys from a failure's texts, in place."""
        failure.message, failure.request_id = self.text(failure.message), self.text(failure.request_id)
        failure.args = (failure.message,)
        return failure


LENGTH = "length"
"""Reason of an answer that ended at its output limit, or at the end of the model's context."""
_OUTPUT_LIMITS = frozenset(
    {
        "length",
        "max_tokens",
        "max_output_tokens",
        "max_completion_tokens",
        "model_length",
        "model_context_window_exceeded",
        "incomplete",
        "token_limit",
    }
)
"""The same in the words of providers."""


class ProviderAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """An answer in one protocol's terms, before it becomes a reply."""

    text: str | None
    """None when the provider sent no text at all; an empty text is an answer."""
    finish_reason: str
    """stop, length, content_filter, tool_calls, or the provider's own word."""
    usage: Usage
    model: str
    request_id: str
    is_refusal: bool = False
    """True when the model refuses to answer, in words."""
    explanation: str = ""
    """The provider's words for the end of a reply that is not an answer."""
    has_tool_calls: bool = False
    """True when the model calls tools, those that the provider runs itself included."""
    tool_calls: tuple[ToolCall, ...] = ()
    """Calls of the tools that the request offered."""
    native: Any = None
    """The turn in the provider's format, for the request that sends the outputs of its calls."""
    failure_code: str = ""
    """Set when the end is an error (`finish_reason` has the provider's word for it): the text is then not an answer."""


def reply_of(answer: ProviderAnswer, result: HttpResult[Any], applied: RequestMembers) -> Reply:
    """Build the reply; raises ModelFailure when there is no answer, which a retry would not change."""
    found, finish = answer.text, answer.finish_reason
    if finish.lower() in _OUTPUT_LIMITS:
        finish = LENGTH
        answer = msgspec.structs.replace(answer, finish_reason=finish)
    if found is None and answer.tool_calls:
        found = ""
    if found is None or finish == "content_filter" or answer.failure_code or (_is_tool_call_only(answer) and not answer.tool_calls):
        raise _no_answer(answer)
    # Not every database and file format can hold a NUL.
    text = found.replace("\x00", "\ufffd")
    has_replaced = result.has_replaced or text != found
    is_plain = finish == "stop" and not has_replaced and not answer.is_refusal
    return Reply(
        text=text,
        finish_reason=finish,
        usage=with_total(answer.usage),
        model=answer.model,
        request_id=shown_id(answer.request_id),
        applied=applied,
        flags=() if is_plain else _flags(answer, has_replaced=has_replaced),
        raw=result.raw,
        tool_calls=answer.tool_calls,
        native=answer.native if answer.tool_calls else None,
    )


def _is_tool_call_only(answer: ProviderAnswer) -> bool:
    """Return True for a reply of tool calls alone: some providers send null as its text, others an empty string."""
    calls_tools = answer.has_tool_calls or answer.finish_reason == "tool_calls"
    return calls_tools and not (answer.text or "").strip()


def _flags(answer: ProviderAnswer, *, has_replaced: bool) -> tuple[str, ...]:
    flags = {
        TRUNCATED: answer.finish_reason == LENGTH,
        "replaced_characters": has_replaced,
        "refusal": answer.is_refusal,
    }
    return tuple(name for name, is_set in flags.items() if is_set)


def _no_answer(answer: ProviderAnswer) -> ModelFailure:
    finish, said, request_id = answer.finish_reason, answer.explanation, shown_id(answer.request_id)
    if finish == "content_filter":
        message = f"the provider's filter withheld the answer{f' ({said})' if said else ''}"
        return ModelFailure("content_filtered", shorten(message), http_status=200, request_id=request_id)
    if answer.failure_code:
        message = f"the provider ended the reply with '{finish}'"
        return ModelFailure(answer.failure_code, shorten(message), http_status=200, request_id=request_id)
    if _is_tool_call_only(answer):
        message = f"{TOOL_CALL_ONLY}: they are of tools that the provider runs itself, or cannot be read"
        return ModelFailure("tool_call_only", message, http_status=200, request_id=request_id)
    if finish == LENGTH:
        message = "the model reached its output limit before it began to answer; raise max_tokens, or let it think less"
        return ModelFailure("answer_truncated", message, http_status=200, request_id=request_id)
    message = f"the reply holds no answer (it ended with '{finish or 'no reason'}')"
    return ModelFailure("empty_answer", shorten(message), http_status=200, request_id=request_id)
