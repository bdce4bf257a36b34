"""The canonical unit of evaluation: one validated record of any contract."""

from typing import Any, Literal

import msgspec

from assay.core.call_rules import RecordMatching
from assay.core.canonical import JsonObject
from assay.core.tools import ExpectedCall, ToolCall, ToolDefinition

Task = Literal["open", "rubric", "reference", "mcq", "conversation", "pairwise"]
Role = Literal["user", "assistant", "system", "tool"]


# Cases are frozen because graders, policies and observers of third parties get them: none may change what another one sees.
# Defaults are omitted, so that messages without tools have the bytes, and the hashes, that they had before tools existed.
class Message(msgspec.Struct, frozen=True, omit_defaults=True):
    """One turn of the conversation that the candidate continues."""

    role: Role
    content: str
    tool_calls: tuple[ToolCall, ...] = ()
    """Calls of the assistant's turn."""
    tool_call_id: str = ""
    """Call whose output a message of the role `tool` holds."""
    name: str = ""
    """Tool whose output it is."""
    native: Any = None
    """The assistant's turn as its provider sent it: thoughts and signatures have to be sent back unchanged."""


class Criterion(msgspec.Struct, frozen=True):
    """One thing that a judge decides."""

    id: str
    title: str
    description: str = ""
    weight: float = 1.0
    """May be negative: meeting the criterion then costs points."""


class Choice(msgspec.Struct, frozen=True):
    """One option of a multiple-choice question, or one of two answers to compare."""

    id: str
    text: str


class Attachment(msgspec.Struct, frozen=True):
    """A document next to the dataset; the path is relative to the dataset's folder."""

    path: str
    kind: str = ""
    title: str = ""
    sha256: str = ""
    """Hash of the file's content when a run was prepared; the dataset itself does not contain it."""


def attachment_section(title: str, text: str) -> str:
    """Build the part of a message that holds an attachment."""
    return f"Attachment: {title}\n{text}"


class Turn(msgspec.Struct, frozen=True):
    """One recorded turn of an agent conversation."""

    turn_id: int
    speaker: str
    message: str = ""
    assistant_reply: str = ""
    tool_used: str | None = None
    tool_input: JsonObject | None = None
    tool_output: Any = None
    confidence_score: float | None = None
    metadata: JsonObject = {}
    # null is a legal output of a tool in conversation_v1, so None in `tool_output` alone does not tell whether there was one.
    has_tool_output: bool = False
    """The turn records an output, which may be null."""
    extra: JsonObject = {}
    """Members of the turn that have no field here."""


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """One validated record, the same for every contract."""

    id: str
    index: int
    """Zero-based position in its source."""
    contract: str
    """One of the built-in contracts, or that of a plugin."""
    task: Task
    dataset: str
    prompt: str
    messages: tuple[Message, ...] = ()
    """Sent instead of the prompt if the record has them."""
    # legal_eval_v1 sends its `context` to models, golden_v1 keeps notes for people in a member of the same name. Two fields here,
    # so that no code has to ask for the contract before it builds a prompt.
    model_context: str = ""
    """Supporting text for candidate and judge."""
    notes: str = ""
    """For people only: never sent to a model."""
    references: tuple[str, ...] = ()
    criteria: tuple[Criterion, ...] = ()
    choices: tuple[Choice, ...] = ()
    correct_choice_ids: tuple[str, ...] = ()
    attachments: tuple[Attachment, ...] = ()
    turns: tuple[Turn, ...] = ()
    tags: tuple[str, ...] = ()
    max_latency_ms: int | None = None
    policy_id: str = ""
    metadata: JsonObject = {}
    extra: JsonObject = {}
    """Members of the record that have no field here."""
    # UNSET instead of 0, so that cases of runs with one answer per record have the bytes that they had before repeats existed.
    sample: int | msgspec.UnsetType = msgspec.UNSET
    """Number of the answer to the record, from 0; set only in runs with several answers per record."""
    tools: tuple[ToolDefinition, ...] | msgspec.UnsetType = msgspec.UNSET
    """Tools that the record itself offers the candidate; the run's are offered otherwise."""
    expected_calls: tuple[ExpectedCall, ...] | msgspec.UnsetType = msgspec.UNSET
    """Calls that the candidate should make, none if empty; unset where calls are not compared."""
    call_matching: RecordMatching | msgspec.UnsetType = msgspec.UNSET
    """How the calls of this record are matched; the run's way otherwise."""
    open_fields: int | msgspec.UnsetType = msgspec.UNSET
    """Version of the rule by which models see the open members of `extra`; unset without them, and in cases of earlier versions."""
    record_sha256: str = ""
    """SHA-256 of the record's canonical JSON (RFC 8785)."""


# Decodes one member and skips the rest: for a ledger of 50,000 cases, whole cases would be built only to be thrown away.
class _SampleField(msgspec.Struct):
    """The one member of a case that some readers need."""

    sample: int = 0


_decode_sampled = msgspec.json.Decoder(_SampleField).decode


def sample_of(case: bytes) -> int:
    """Read which answer a case in JSON asks for; 0 when it does not say."""
    return _decode_sampled(case).sample
