"""Any HTTP endpoint as a model: its entry in the run file says what is sent, and where the reply holds answer, steps and error."""

import re
import uuid
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote

import msgspec

from assay.core.canonical import JsonObject
from assay.core.case import Message, attachment_section
from assay.core.http_template import OMITTED, fill, fill_text, slots_in
from assay.core.json_path import JsonPath, structure_of
from assay.core.model_call import ModelFailure, ModelRequest, Reply, Usage
from assay.core.plan import ModelPlan, ProviderPlan
from assay.core.settings import UsagePaths
from assay.core.setup_checks import ShownExchange
from assay.models.endpoint import resolve_endpoint
from assay.models.failures import request_id_of, shorten
from assay.models.http_client import HttpReply
from assay.models.http_model import with_role
from assay.models.provider_protocol import Maker, ProviderContext
from assay.models.record_values import attachment_values, metadata_value, slots_of
from assay.models.requests import chat_messages
from assay.models.transport import HttpResult, ProviderAnswer, Transport, decode_error, open_transport, reply_of

_TEXT_HEADER = re.compile(r"[\x20-\x7e]*")
_HIDDEN = "***"
_MAX_SHOWN = 4_000
"""Maximum characters of a reply that are shown."""

_encode = msgspec.json.Encoder().encode


class PreparedRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One request as it is sent."""

    method: str
    url: str
    headers: Mapping[str, str]
    """Those of the entry that hold values of the record."""
    body: JsonObject | None = None

    def content(self) -> bytes:
        """Encode the body; a GET has none."""
        return b"" if self.body is None else _encode(self.body)


class EndpointReply(msgspec.Struct, frozen=True, kw_only=True):
    """What was read from one reply."""

    text: str | None
    steps: tuple[Any, ...] = ()
    usage: Usage = Usage()
    session: str = ""


@asynccontextmanager
async def open_provider(context: ProviderContext) -> AsyncIterator[Maker]:
    """Open an HTTP endpoint."""
    endpoint = resolve_endpoint(context.provider, context.environ)
    async with open_transport(endpoint, keep_raw=context.keep_raw) as transport:
        yield lambda model: EndpointModel(transport, model, context=context)


class EndpointModel:
    """An endpoint that answers requests of the form that its entry describes."""

    def __init__(self, transport: Transport, model: ModelPlan, *, context: ProviderContext) -> None:
        self._transport = transport
        self._model = model.model
        self._keep_raw = context.keep_raw
        self._environ = context.environ
        provider = context.provider
        self._provider = provider
        self._method = provider.method or "POST"
        self._body = provider.body or None if self._method != "GET" else None
        self._headers = {name: value for name, value in provider.headers.items() if slots_in(value)}
        self._slots = slots_of(provider)
        self._reader = ReplyReader(provider)
        self._last: tuple[PreparedRequest, bytes, EndpointReply | None] | None = None

    async def reply(self, ask: ModelRequest) -> Reply:
        """Make one attempt, which is a request for each turn where the endpoint keeps a session; raises ModelFailure."""
        turns = self._turns(ask)
        # An attempt has a session of its own: an earlier one may have left half a conversation in its.
        session = OMITTED if self._reader.session else uuid.uuid4().hex
        usage: Usage | None = None
        for number, messages in enumerate(turns, 1):
            try:
                result, read = await self._exchange(self.prepare(ask, messages, session=session))
                if number < len(turns) and read.text is None:
                    raise ModelFailure("empty_answer", f"the reply of '{self._provider.name}' holds no answer")
            except ModelFailure as failure:
                raise _at_turn(failure, number, len(turns)) from None
            session = read.session or session
            usage = read.usage if usage is None else _sum(usage, read.usage)
        if read.text is None:
            message = f"the reply of '{self._provider.name}' has null at {self._reader.answer.text}, where its answer should be"
            raise ModelFailure("empty_answer", message, http_status=200, request_id=result.request_id)
        answer = ProviderAnswer(
            text=read.text, finish_reason="stop", usage=usage or Usage(), model="", request_id=result.request_id
        )
        reply = reply_of(answer, result, {})
        return msgspec.structs.replace(reply, steps=read.steps) if read.steps else reply

    def prepare(self, ask: ModelRequest, messages: Sequence[Message] | None = None, *, session: object = "") -> PreparedRequest:
        """Build the request for a turn, by default for all messages; raises ModelFailure when the record lacks a value."""
        values = self._values(ask, messages if messages is not None else ask.messages, session)
        url = fill_text(self._provider.base_url, values, self._environ, quote=lambda text: quote(text, safe=""))
        headers = {name: fill_text(value, values, self._environ) for name, value in self._headers.items()}
        for name, value in headers.items():
            if not _TEXT_HEADER.fullmatch(value):
                message = (
                    f"a value of the record cannot be sent in the header {name!r}: it holds other characters than printable ASCII"
                )
                raise ModelFailure("invalid_request", message)
        body = None if self._body is None else fill(self._body, values, self._environ)
        return PreparedRequest(method=self._method, url=url, headers=headers, body=body)

    def shown(self, request: PreparedRequest) -> PreparedRequest:
        """Return a request to show: with the entry's own headers, and without keys."""
        scrub = self._transport.scrubbed
        bearer = {"Authorization": _HIDDEN} if self._transport.endpoint.key else {}
        fixed = bearer | {name: _HIDDEN if "$" in value else value for name, value in self._provider.headers.items()}
        body = None if request.body is None else msgspec.json.decode(scrub(request.content().decode()))
        headers = {**fixed, **{name: scrub(value) for name, value in request.headers.items()}}
        return msgspec.structs.replace(request, url=scrub(request.url), headers=headers, body=body)

    @property
    def exchange(self) -> ShownExchange | None:
        """Return the last exchange to show, without keys; None before the first one."""
        if self._last is None:
            return None
        request, received, read = self._last
        shown = self.shown(request)
        lines = [f"{shown.method} {shown.url}", *(f"{name}: {value}" for name, value in shown.headers.items())]
        lines += [] if shown.body is None else [_encode(shown.body).decode()]
        scrub = self._transport.scrubbed
        values: dict[str, str] = {}
        if read is not None:
            counts = {name: count for name, count in msgspec.structs.asdict(read.usage).items() if count is not None}
            values = {"answer": "null" if read.text is None else scrub(read.text)}
            values |= {"steps": scrub(_encode(read.steps).decode())} if read.steps else {}
            values |= {"usage": _encode(counts).decode()} if counts else {}
            values |= {"session": scrub(read.session)} if read.session else {}
        # Scrub before cutting: half a key would not be recognized.
        reply = scrub(received.decode("utf-8", "replace"))[:_MAX_SHOWN]
        problem = "" if read is None else self._reader.usage_problem(decode_error(received))
        return ShownExchange(request="\n".join(lines), reply=reply, read=values, usage_problem=scrub(problem))

    async def _exchange(self, request: PreparedRequest) -> tuple[HttpResult[Any], EndpointReply]:
        content = request.content()
        head = self._transport.request_head(request.method, request.url, request.headers)
        length = b"" if request.body is None else b"Content-Length: %d\r\n" % len(content)
        reply, received = await self._transport.fetch(b"%b%b\r\n%b" % (head, length, content))
        self._last = request, received, None
        result, read = self._read(reply, received)
        self._last = request, received, read
        return result, read

    def _read(self, reply: HttpReply, received: bytes) -> tuple[HttpResult[Any], EndpointReply]:
        """Read a reply; raises ModelFailure."""
        if not 200 <= reply.status < 300:
            raise self._transport.rejected(reply, received, error=self._reader.error_in(decode_error(received)))
        result = self._transport.result_of(reply, received, takes_text=self._reader.takes_text)
        error = self._reader.error_in(result.value)
        if error is not None:
            raise self._transport.refused({"error": error}, request_id_of(reply.headers))
        try:
            return result, self._reader.read(result.value)
        except _WrongPath as problem:
            message = self._transport.scrubbed(f"the reply of '{self._provider.name}' {problem}")
            raise ModelFailure(
                "unexpected_reply", shorten(message), http_status=reply.status, request_id=result.request_id
            ) from None

    def _turns(self, ask: ModelRequest) -> list[Sequence[Message]]:
        """Return the messages up to each turn that is sent: every turn of the user in a session, else the last one."""
        asked = [index for index, message in enumerate(ask.messages) if message.role == "user"]
        if "session" in self._slots and len(asked) > 1:
            return [ask.messages[: index + 1] for index in asked]
        if len(asked) > 1 and "messages" not in self._slots:
            raise ModelFailure(
                "invalid_request",
                f"the record has {len(asked)} turns, and the requests of '{self._provider.name}' hold only the last one; add "
                "{{messages}}, or {{session}} if the endpoint remembers earlier turns",
            )
        return [ask.messages]

    def _values(self, ask: ModelRequest, messages: Sequence[Message], session: object) -> Callable[[str], Any]:
        def value(slot: str) -> Any:
            match slot:
                case "prompt":
                    return self._prompt(ask, messages)
                case "system":
                    return "\n\n".join(message.content for message in messages if message.role == "system")
                case "messages":
                    return msgspec.to_builtins(chat_messages(messages))
                case "attachments":
                    return attachment_values(ask)
                case "session":
                    return session
                case "record_id":
                    return ask.record.id if ask.record else ""
                case "model":
                    return self._model
            return metadata_value(ask, slot)

        return value

    def _prompt(self, ask: ModelRequest, messages: Sequence[Message]) -> str:
        """Return the last message of the user.

        It has the instructions where no other value holds them, and no attachments where they are a value of their own.
        """
        users = [index for index, message in enumerate(messages) if message.role == "user"]
        prompt = messages[users[-1]].content if users else ""
        if "attachments" in self._slots and ask.record is not None:
            for attachment in ask.record.attachments:
                section = attachment_section(attachment.title, attachment.text)
                prompt = prompt.replace(f"\n\n{section}", "")
        if len(users) > 1 or {"system", "messages"} & set(self._slots):
            return prompt
        # No other value of the request holds the instructions: they stand before the first question.
        instructions = [message for message in messages if message.role == "system"]
        first = with_role((*instructions, Message("user", prompt)), "user")[0]
        return first.content if isinstance(first, Message) else prompt


class _WrongPath(Exception):
    """The reply has nothing usable at a path; the message continues "the reply of 'x'"."""


class ReplyReader:
    """Reads replies at the paths of an entry."""

    def __init__(self, provider: ProviderPlan) -> None:
        self.answer = JsonPath(provider.answer or "$")
        self._error = JsonPath(provider.error) if provider.error else None
        self._steps = JsonPath(provider.steps) if provider.steps else None
        usage = provider.usage or UsagePaths()
        self._usage_object = JsonPath(usage) if isinstance(usage, str) else None
        paths = {} if isinstance(usage, str) else msgspec.structs.asdict(usage)
        self._usage = {name: JsonPath(path) for name, path in paths.items() if path}
        self.session = JsonPath(provider.session) if provider.session else None
        self._has_steps = False
        """An earlier reply had some: an endpoint may leave the member out when it is empty."""

    @property
    def takes_text(self) -> bool:
        """Tell whether a reply may be a text instead of JSON: the answer is the whole reply."""
        return not self.answer.steps

    def error_in(self, body: object) -> object:
        """Return the error, which is a message or an object with one; None without an error."""
        found = self._error.first(body) if self._error else None
        return None if found in (None, False, "", 0, [], {}) else found

    def read(self, body: object) -> EndpointReply:
        """Read a reply; raises _WrongPath when the answer is not where it should be."""
        return EndpointReply(
            text=self._text(body),
            steps=self._read_steps(body),
            usage=Usage(**{name: _count(value) for name, value in self._find_counts(body).items()}),
            session=self._read_session(body),
        )

    def _text(self, body: object) -> str | None:
        found = self.answer.find(body)
        if not found:
            raise _WrongPath(f"has nothing at {self.answer.text}; it has {structure_of(body)}")
        if self.answer.has_many:
            texts = [item for item in found if item is not None]
            return "".join(map(_as_text, texts)) if texts else None
        return None if found[0] is None else _as_text(found[0])

    def _read_steps(self, body: object) -> tuple[Any, ...]:
        if self._steps is None:
            return ()
        found = self._steps.find(body)
        if not found and not self._has_steps:
            raise _WrongPath(f"has no steps at {self._steps.text}; it has {structure_of(body)}")
        self._has_steps = True
        if not found:
            return ()
        if self._steps.has_many:
            return tuple(found)
        if found[0] is None:
            return ()
        return tuple(found[0]) if isinstance(found[0], list) else (found[0],)

    def usage_problem(self, body: object) -> str:
        """Say what is wrong with the paths of the usage; empty when they find something."""
        paths = [path.text for path in (self._usage_object, *self._usage.values()) if path is not None]
        if not paths or self._find_counts(body):
            return ""
        return f"has no usage at {' and '.join(paths)}; it has {structure_of(body)}"

    def _find_counts(self, body: object) -> dict[str, Any]:
        if self._usage_object is None:
            return {name: found[0] for name, path in self._usage.items() if (found := path.find(body))}
        counts = self._usage_object.first(body)
        if not isinstance(counts, dict):
            return {}
        spelled = ((name, next((other for other in names if other in counts), None)) for name, names in _COUNT_NAMES.items())
        return {name: counts[found] for name, found in spelled if found is not None}

    def _read_session(self, body: object) -> str:
        if self.session is None:
            return ""
        found = self.session.first(body)
        if not isinstance(found, str | int) or isinstance(found, bool) or found == "":
            raise _WrongPath(f"has no id of a session at {self.session.text}; it has {structure_of(body)}")
        return str(found)


_COUNT_NAMES = {
    "input_tokens": ("input_tokens", "prompt_tokens", "inputTokens", "promptTokens", "promptTokenCount", "input"),
    "output_tokens": ("output_tokens", "completion_tokens", "outputTokens", "completionTokens", "candidatesTokenCount", "output"),
    "total_tokens": ("total_tokens", "totalTokens", "totalTokenCount", "total"),
    "cached_tokens": ("cached_tokens", "cache_read_input_tokens", "cachedTokens", "cachedContentTokenCount"),
}
"""Names of counts in objects of providers and of common libraries, the usual ones first."""


def _as_text(value: object) -> str:
    return value if isinstance(value, str) else _encode(value).decode()


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _sum(first: Usage, second: Usage) -> Usage:
    """Add the counts of two turns; what one of them does not count is unknown."""
    pairs = {name: (getattr(first, name), getattr(second, name)) for name in Usage.__struct_fields__}
    return Usage(**{name: None if None in pair else sum(pair) for name, pair in pairs.items()})


def _at_turn(failure: ModelFailure, number: int, turns: int) -> ModelFailure:
    if turns > 1:
        failure.message = f"turn {number} of {turns}: {failure.message}"
        failure.args = (failure.message,)
    return failure
