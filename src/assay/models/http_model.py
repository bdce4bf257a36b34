"""A model behind an HTTP API: bodies written once for what requests share, and sent with negotiated parameters."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Generic, TypeVar

import msgspec

from assay.core.canonical import RequestMembers
from assay.core.case import Message
from assay.core.model_call import ModelFailure, ModelRequest, Reply
from assay.core.plan import ModelPlan
from assay.core.tools import ToolCall, ToolDefinition, ToolNames
from assay.models.negotiation import Dialect, Negotiator, ReplyFormat, SentParameters, SystemRole, shortened
from assay.models.requests import BodyWriter
from assay.models.transport import HttpResult, Transport

REPLY_TOOL = "reply"
"""Name of the tool by whose call a model replies where a schema can be sent in no other way."""

BodyT = TypeVar("BodyT")


class HttpModel(ABC, Generic[BodyT]):
    """One model: subclasses know how a protocol spells requests and replies."""

    path: str
    messages_member: str = "messages"
    names_model: bool = True
    """Requests have a member `model`; some protocols have it in the path."""
    decoder: "msgspec.json.Decoder[BodyT]"

    def __init__(self, transport: Transport, model: ModelPlan, dialect: Dialect) -> None:
        self.transport = transport
        self.negotiator = Negotiator(model.parameters, dialect, explicit=model.explicit or ())
        self._before: RequestMembers = {"model": model.model} if self.names_model else {}
        self._head = transport.head(self.path, model=model.model)
        self._written: tuple[SentParameters, Mapping[str, object] | None, Sequence[ToolDefinition]] | None = None
        self._names: tuple[Sequence[ToolDefinition], ToolNames] = (), ToolNames(())
        self._writer: BodyWriter
        self.applied: RequestMembers = self.members(self.negotiator.sent)
        """Members of the last request besides its messages."""

    async def reply(self, ask: ModelRequest) -> Reply:
        """Make one attempt; raises ModelFailure, which says whether the request can be sent again with other parameters."""
        sent = self.negotiator.sent
        body = self.request(ask)
        applied = self.applied
        try:
            return self.read(await self.transport.post(self._head, body, decoder=self.decoder), applied)
        except ModelFailure as failure:
            fitting = shortened(failure, sent)
            if fitting is None:
                raise self.negotiator.rejected(failure, sent, ask) from None
        # This one request is too long for the usual output limit: it alone gets what its messages leave of the context.
        writer, applied = self._writer_for(ask, fitting)
        body = writer.write(*self.messages(ask, fitting.role))
        try:
            return self.read(await self.transport.post(self._head, body, decoder=self.decoder), applied)
        except ModelFailure as failure:
            raise self.negotiator.rejected(failure, sent, ask) from None

    def request(self, ask: ModelRequest) -> bytes:
        """Build the body of the HTTP request."""
        sent = self.negotiator.sent
        written = self._written
        if written is None or written[0] is not sent or written[1] is not ask.reply_schema or written[2] != ask.tools:
            # One schema object serves many requests, so that the shared members are rarely encoded again.
            self._written = sent, ask.reply_schema, ask.tools
            self._writer, self.applied = self._writer_for(ask, sent)
        return self._writer.write(*self.messages(ask, sent.role))

    def _writer_for(self, ask: ModelRequest, sent: SentParameters) -> tuple[BodyWriter, RequestMembers]:
        """Return the writer of bodies with these parameters, and their members besides the messages."""
        form = self.schema_members(ask.reply_schema, sent.reply_format) if ask.reply_schema else {}
        applied = merged(self.members(sent), form)
        # The tools are part of the record, and not of the parameters that a reply reports.
        tools = self.tool_members(ask.tools, self.tool_names(ask)) if ask.tools else {}
        return BodyWriter(self._before, self.messages_member, merged(applied, tools)), applied

    def messages(self, ask: ModelRequest, role: SystemRole) -> tuple[Sequence[object], RequestMembers | None]:
        """Return the messages as they are sent, and further members that depend on them."""
        return with_role(ask.messages, role), None

    def members(self, sent: SentParameters) -> RequestMembers:
        """Build the members that hold the parameters."""
        return sent.body()

    def tool_names(self, ask: ModelRequest) -> ToolNames:
        """Return the names under which a request's tools are sent."""
        if self._names[0] != ask.tools:
            self._names = ask.tools, ToolNames(tool.name for tool in ask.tools)
        return self._names[1]

    @abstractmethod
    def tool_members(self, tools: Sequence[ToolDefinition], names: ToolNames) -> RequestMembers:
        """Build the members that offer tools."""

    @abstractmethod
    def schema_members(self, schema: Mapping[str, object], form: ReplyFormat) -> RequestMembers:
        """Build the members that request a reply of a schema, in one of the dialect's forms."""

    @abstractmethod
    def read(self, result: "HttpResult[BodyT]", applied: RequestMembers | None = None) -> Reply:
        """Parse a body, from a direct call or a batch; raises ModelFailure."""


def merged(members: RequestMembers, more: RequestMembers) -> RequestMembers:
    """Merge members of a request, objects of both member by member."""
    found = dict(members)
    for name, value in more.items():
        before = found.get(name)
        found[name] = {**before, **value} if isinstance(before, dict) and isinstance(value, dict) else value
    return found


def with_role(messages: Sequence[Message], role: SystemRole) -> Sequence[object]:
    """Send instructions in a role that the model accepts, if need be before the first question."""
    if role == "system" or not any(message.role == "system" for message in messages):
        return messages
    if role == "developer":
        return [{"role": "developer", "content": message.content} if message.role == "system" else message for message in messages]
    instructions = "\n\n".join(message.content for message in messages if message.role == "system")
    turns = [message for message in messages if message.role != "system"]
    first = turns[0] if turns and turns[0].role == "user" else None
    content = f"{instructions}\n\n{first.content}" if first else instructions
    return [Message("user", content), *turns[1 if first else 0 :]]


def grouped_turns(
    messages: Sequence[object],
    turn: Callable[[Message], object],
    *,
    output: Callable[[Message], RequestMembers],
    content: str = "content",
) -> list[object]:
    """Build the turns; the outputs of one turn's calls belong into one turn of the user, in its member `content`."""
    turns: list[object] = []
    outputs: list[RequestMembers] | None = None
    for message in messages:
        if isinstance(message, Message) and message.role == "tool":
            if outputs is None:
                outputs = []
                turns.append({"role": "user", content: outputs})
            outputs.append(output(message))
        else:
            outputs = None
            turns.append(turn(message) if isinstance(message, Message) else message)
    return turns


def uses_tools(messages: Sequence[Message]) -> bool:
    """Return whether any message calls a tool or holds the output of one."""
    return any(message.tool_calls or message.role == "tool" for message in messages)


def reply_call(calls: Sequence[ToolCall]) -> str | None:
    """Return the input of the call by which a judge replies, as the text that its reply has in every other form."""
    return next((call.raw for call in calls if call.name == REPLY_TOOL), None)
