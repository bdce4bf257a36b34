"""Recorded replies: `replay/FILE` answers from a JSONL file, and asks nobody.

A line is `{"messages_sha256": ..., "reply": {"text": ...}}`; `request_sha256` may stand beside or instead of it, `model`
limits it to the model of that name, and `response_text` may stand for a reply that is only text. Lines with an
`error_code` and no reply are passed over. Of several replies to one request, the first counts.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from assay.core.ask import Ask, ModelFailure, Reply
from assay.core.errors import SourceUnreadable, UsageProblem
from assay.core.plan import ModelPlan
from assay.models.address import messages_sha256, request_addressing
from assay.models.opening import Maker, Opening

MOST_PROBLEMS = 3
"""Bad lines of a file that are named."""


Key = tuple[str, str, int]


class Recording(msgspec.Struct, frozen=True):
    """The replies of one file, and the lines of it that are none."""

    replies: Mapping[Key, Reply]
    """By hash, name of the model and sample; an empty name answers for every model."""
    problems: tuple[str, ...] = ()


class _Line(msgspec.Struct, frozen=True):
    messages_sha256: str = ""
    request_sha256: str = ""
    model: str = ""
    reply: Reply | None = None
    response_text: str | None = None
    error_code: str | None = None
    sample: int = 0


_decode = msgspec.json.Decoder(_Line).decode


@asynccontextmanager
async def open_provider(opening: Opening) -> AsyncIterator[Maker]:
    """Recorded replies need nothing but their file, which is read when its model is made."""

    def make(model: ModelPlan) -> ReplayModel:
        recording = read_recording(Path(model.model))
        if recording.problems:
            raise UsageProblem(recording.problems[0])
        return ReplayModel(opening, model, recording=recording)

    yield make


def model_problems(path: str) -> list[str]:
    """Why a file of recorded replies cannot be used, one sentence each."""
    try:
        return list(read_recording(Path(path)).problems)
    except SourceUnreadable as problem:
        return [problem.message]


def read_recording(path: Path) -> Recording:
    """The replies in a file; raises SourceUnreadable when there is no such file."""
    replies: dict[Key, Reply] = {}
    problems: list[str] = []
    try:
        lines = path.read_bytes().splitlines()
    except OSError as problem:
        raise SourceUnreadable(f"the recorded replies '{path}' cannot be read: {problem.strerror}") from None
    for number, line in enumerate(lines, 1):
        flaw = _add(line, replies) if line.strip() else ""
        if flaw:
            problems.append(f"line {number} of the recorded replies '{path}' {flaw}")
    if not replies and not problems:
        problems.append(f"the file '{path}' holds no recorded replies")
    return Recording(replies, tuple(problems[:MOST_PROBLEMS]))


def _add(raw: bytes, replies: dict[Key, Reply]) -> str:
    """Note the reply of one line; returns what is wrong with it."""
    try:
        line = _decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError) as problem:
        return f"cannot be read: {problem}"
    reply = Reply(text=line.response_text) if line.reply is None and line.response_text is not None else line.reply
    if reply is None:
        return "" if line.error_code else "has neither a reply nor an error"
    # The address of a request says which of several answers it is; the hash of the messages does not.
    hashes = [(sha256, sample) for sha256, sample in ((line.request_sha256, 0), (line.messages_sha256, line.sample)) if sha256]
    if not hashes:
        return "has neither messages_sha256 nor request_sha256"
    for sha256, sample in hashes:
        replies.setdefault((sha256, line.model, sample), reply)
        replies.setdefault((sha256, "", sample), reply)
    return ""


class ReplayModel:
    """A model that says again what was said before."""

    def __init__(self, opening: Opening, model: ModelPlan, *, recording: Recording) -> None:
        self._name = model.name
        self._path = model.model
        self._replies = recording.replies
        self._request_sha256 = request_addressing(opening.provider, model)

    async def reply(self, ask: Ask) -> Reply:
        """The recorded reply to the ask; raises ModelFailure, with its hash, where there is none."""
        sha256 = messages_sha256(ask.messages)
        for address, sample in ((self._request_sha256(ask), 0), (sha256, ask.sample)):
            for model in (self._name, ""):
                if (address, model, sample) in self._replies:
                    return self._replies[address, model, sample]
        which = f"sample {ask.sample} of a reply" if ask.sample else "reply"
        raise ModelFailure("no_recorded_reply", f"'{Path(self._path).name}' has no {which} to the messages with sha256 {sha256}")
