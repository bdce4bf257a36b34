"""The canonical unit of evaluation: one validated record of any contract."""

from typing import Any, Literal

import msgspec

Task = Literal["open", "rubric", "reference", "mcq", "conversation", "pairwise"]
Role = Literal["user", "assistant", "system"]


class Message(msgspec.Struct, frozen=True):
    """One turn of the conversation that the candidate continues."""

    role: Role
    content: str


class Criterion(msgspec.Struct, frozen=True):
    """One thing a judge looks for."""

    id: str
    title: str
    description: str = ""
    weight: float = 1.0
    """May be negative: meeting the criterion then costs points."""


class Choice(msgspec.Struct, frozen=True):
    """One option of a multiple-choice question, or one of two answers that are compared."""

    id: str
    text: str


class Attachment(msgspec.Struct, frozen=True):
    """A document beside the dataset; the path is relative to the dataset's folder."""

    path: str
    kind: str = ""
    title: str = ""
    sha256: str = ""
    """Of the file's content when a run was prepared; the dataset itself does not say it."""


class Turn(msgspec.Struct, frozen=True):
    """One recorded turn of an agent conversation."""

    turn_id: int
    speaker: str
    message: str = ""
    assistant_reply: str = ""
    tool_used: str | None = None
    tool_input: dict[str, Any] | None = None
    tool_output: Any = None
    confidence_score: float | None = None
    metadata: dict[str, Any] = {}
    has_tool_output: bool = False
    """The turn records an output, which may be null."""
    extra: dict[str, Any] = {}
    """Members of the turn that have no field of their own here."""


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """One validated record, the same for every contract."""

    id: str
    index: int
    """Zero-based position in its source."""
    contract: str
    """One of ours, or that of a plugin."""
    task: Task
    dataset: str
    prompt: str
    messages: tuple[Message, ...] = ()
    """Sent instead of the prompt where the record has them."""
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
    metadata: dict[str, Any] = {}
    extra: dict[str, Any] = {}
    """Members of the record that have no field of their own here."""
    sample: int | msgspec.UnsetType = msgspec.UNSET
    """Which of several answers to the record is wanted, from 0; only in runs that ask more than once."""
    open_fields: int | msgspec.UnsetType = msgspec.UNSET
    """Version of the rule by which models see the open members of `extra`; unset where there are none, and in cases from before."""
    record_sha256: str = ""
    """SHA-256 of the record's canonical JSON (RFC 8785)."""


class _Sampled(msgspec.Struct):
    """The one member of a case that some readers need."""

    sample: int = 0


_decode_sampled = msgspec.json.Decoder(_Sampled).decode


def sample_of(case: bytes) -> int:
    """Which of several answers a case in JSON wants; 0 where it says nothing."""
    return _decode_sampled(case).sample
