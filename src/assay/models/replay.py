"""Recorded replies: `replay/FILE` answers from a JSONL file, without any call.

A line is `{"messages_sha256": ..., "reply": {"text": ...}}`; `request_sha256` may be given as well or instead, `model`
limits it to the model of that name, and `response_text` may replace a reply that is only text. Lines with an
`error_code` and no reply are skipped. Of several replies to one request, the first counts.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from assay.core.errors import SourceUnreadable, UsageProblem
from assay.core.model_call import ModelFailure, ModelRequest, Reply
from assay.core.plan import ModelPlan
from assay.models.provider_protocol import Maker, ProviderContext
from assay.models.requests import messages_sha256, request_addressing

MAX_PROBLEMS = 3
"""Maximum bad lines that are reported."""


Key = tuple[str, str, int]


class Recording(msgspec.Struct, frozen=True):
    """Replies of one file, and its invalid lines."""

    replies: Mapping[Key, Reply]
    """By hash, name of the model and sample; an empty name answers for every model."""
    problems: tuple[str, ...] = ()


class _RecordedReply(msgspec.Struct, frozen=True):
    messages_sha256: str = ""
    request_sha256: str = ""
    model: str = ""
    reply: Reply | None = None
    response_text: str | None = None
    error_code: str | None = None
    sample: int = 0


_decode = msgspec.json.Decoder(_RecordedReply).decode


@asynccontextmanager
async def open_provider(context: ProviderContext) -> AsyncIterator[Maker]:
    """Open the provider; a file of replies is read when its model is created."""

    def make(model: ModelPlan) -> ReplayModel:
        # Read again, although it was checked when the run was planned: the file may have changed since.
        recording = read_recording(Path(model.model))
        if recording.problems:
            raise UsageProblem(recording.problems[0])
        return ReplayModel(context, model, recording=recording)

    yield make


def model_problems(path: str) -> list[str]:
    """List why a file of recorded replies cannot be used, one sentence each."""
    try:
        return list(read_recording(Path(path)).problems)
    except SourceUnreadable as problem:
        return [problem.message]


def read_recording(path: Path) -> Recording:
    """Read the replies in a file; raises SourceUnreadable when there is no such file."""
    replies: dict[Key, Reply] = {}
    problems: list[str] = []
    try:
        lines = path.read_bytes().splitlines()
    except OSError as problem:
        raise SourceUnreadable(f"the recorded replies '{path}' cannot be read: {problem.strerror}") from None
    for number, line in enumerate(lines, 1):
        # Empty lines are what editors and shells leave at the end.
        flaw = _add(line, replies) if line.strip() else ""
        if flaw:
            problems.append(f"line {number} of the recorded replies '{path}' {flaw}")
    if not replies and not problems:
        problems.append(f"the file '{path}' holds no recorded replies")
    return Recording(replies, tuple(problems[:MAX_PROBLEMS]))


def _add(raw: bytes, replies: dict[Key, Reply]) -> str:
    """Add the reply of one line; returns its problem, or an empty text."""
    try:
        line = _decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError) as problem:
        return f"cannot be read: {problem}"
    reply = Reply(text=line.response_text) if line.reply is None and line.response_text is not None else line.reply
    if reply is None:
        return "" if line.error_code else "has neither a reply nor an error"
    # A request's hash includes the sample; the hash of the messages does not.
    hashes = [(sha256, sample) for sha256, sample in ((line.request_sha256, 0), (line.messages_sha256, line.sample)) if sha256]
    if not hashes:
        return "has neither messages_sha256 nor request_sha256"
    for sha256, sample in hashes:
        # The first reply counts: a recording with retries has the answer that the run had graded first.
        replies.setdefault((sha256, line.model, sample), reply)
        replies.setdefault((sha256, "", sample), reply)
    return ""


class ReplayModel:
    """A model that repeats recorded replies."""

    def __init__(self, context: ProviderContext, model: ModelPlan, *, recording: Recording) -> None:
        self._name = model.name
        self._path = model.model
        self._replies = recording.replies
        self._request_sha256 = request_addressing(context.provider, model)

    async def reply(self, ask: ModelRequest) -> Reply:
        """Return the recorded reply; raises ModelFailure, with the request's hash, when there is none."""
        sha256 = messages_sha256(ask.messages)
        # The whole request is the more exact address; its hash already includes the sample.
        for address, sample in ((self._request_sha256(ask), 0), (sha256, ask.sample)):
            # A line for this model alone goes before one for any.
            for model in (self._name, ""):
                if (address, model, sample) in self._replies:
                    return self._replies[address, model, sample]
        which = f"sample {ask.sample} of a reply" if ask.sample else "reply"
        raise ModelFailure("no_recorded_reply", f"'{Path(self._path).name}' has no {which} to the messages with sha256 {sha256}")
