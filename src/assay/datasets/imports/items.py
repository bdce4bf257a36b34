"""What importers make of other tools' files: a question, who answered it, and what was made of the answer."""

from typing import Any

import msgspec

from assay.core.model_call import Usage

Row = dict[str, Any]
ImportFormat = str
"""Name of a format, such as `inspect`; the integration `importers` lists them."""


class ImportedQuestion(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One question as a dataset would ask it; it says nothing of any answer, so that all runs over it share the record."""

    id: str
    dataset: str
    prompt: str
    context: str = ""
    messages: list[Row] = []
    """Sent instead of the prompt, where the source has more than one message."""
    references: list[str] = []
    rubric: list[Row] = []
    choices: list[Row] = []
    correct_choice_ids: list[str] = []
    metadata: Row = {}

    @property
    def is_open(self) -> bool:
        """Nothing says what a good answer is."""
        return not (self.references or self.rubric or self.choices)


class ImportedAnswer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a model said; what the source does not tell is None."""

    text: str
    model: str = ""
    """The model that the provider says has answered."""
    finish_reason: str = ""
    usage: Usage = Usage()
    cost: float | None = None
    request_id: str = ""


class ImportedScore(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one scorer of the other tool says of an answer."""

    scorer: str
    value: float | None = None
    """On the scorer's own scale; None where it has none, and then `reason` says why."""
    passed: bool | None = None
    """The tool's own verdict, where it has one."""
    explanation: str = ""
    reason: str = ""
    selected: str = ""
    """The choice, or the part of the answer, that the scorer looked at."""
    answer: str | None = None
    """What the scorer took for the answer, where that is not the item's own."""
    judge: str = ""
    """The model that graded, where the source names it."""


class ImportedItem(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One question, one candidate, one answer."""

    question: ImportedQuestion
    candidate: str = ""
    """Empty without answers: a dataset, not a run."""
    sample: int = 0
    """Which of several answers to the question it is."""
    answer: ImportedAnswer | None = None
    marks: tuple[ImportedScore, ...] = ()
    error_code: str = ""
    error: str = ""
    """What went wrong, in the tool's words; an item with an error has no score, whatever its marks say."""
    turns: list[Row] = []
    """The whole conversation, where it was asked for."""
    started_at: float | None = None
    latency_ms: float | None = None
