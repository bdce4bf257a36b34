"""What became of a record, for whoever observes a run: times, tokens, scores and codes, redacted; texts only when wanted."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from assay.core.ask import Ask, Usage
from assay.core.case import Case, Message
from assay.core.outcome import Attempt, Cancelled, Failed, Grade, Graded, Outcome, Score, record_status
from assay.core.plan import ModelPlan, Plan, ProviderPlan
from assay.core.provider import ProviderKind
from assay.engine.sealing.shown import ShownPlan, redactor_of
from assay.engine.tally import FREE, UNTIMED


class CallSeen(msgspec.Struct, frozen=True, kw_only=True):
    """One call to a model, whatever came of it; a reply from the cache or from a file is none."""

    stage: str
    call_id: str
    """Names the call within its record, the same in every round."""
    round: int
    started_at: float
    """Seconds since 1970, UTC."""
    seconds: float
    is_timed: bool = True
    """False of a reply that came with a batch: how long it took, nobody knows."""
    model: str
    """Name of the plan's model."""
    provider: str
    """Its name in the run file."""
    provider_kind: ProviderKind
    """What it speaks: `openai`, `anthropic` and so on."""
    base_url: str
    request_model: str
    parameters: dict[str, Any]
    """As they were sent, where there was an answer, and else as they were planned."""
    response_model: str = ""
    response_id: str = ""
    finish_reason: str = ""
    usage: Usage = Usage()
    cost: float | None = None
    """US dollars; None when the price is not known."""
    error_code: str = ""
    error_message: str = ""
    http_status: int | None = None
    wait_s: float | None = None
    """How long the record waited before it asked again."""
    asked: tuple[Message, ...] = ()
    """Only where texts are wanted."""
    said: str = ""
    """Only where texts are wanted."""


class ScoreSeen(msgspec.Struct, frozen=True, kw_only=True):
    """What one evaluator makes of one criterion."""

    criterion: str
    score: float
    scale: str
    normalized: float
    judge: str = ""
    explanation: str = ""
    """Only where texts are wanted."""


class RecordSeen(msgspec.Struct, frozen=True, kw_only=True):
    """A record that came to its end."""

    run_id: str
    record_id: str
    sample: int
    dataset: str
    contract: str
    status: str
    """`evaluated`, `timeout`, `evaluation_error` or `cancelled`."""
    started_at: float
    ended_at: float
    code: str = ""
    """Why it has no score."""
    message: str = ""
    stage: str = ""
    """Where it came to be without a score: `candidate` or `judge`."""
    score: float | None = None
    """0..1 over all criteria."""
    raw_score: float | None = None
    scale: str = ""
    passed: bool | None = None
    label: str = ""
    """Why it did not pass."""
    evaluator: str = ""
    explanation: str = ""
    """Only where texts are wanted."""
    scores: tuple[ScoreSeen, ...] = ()
    calls: tuple[CallSeen, ...] = ()


class Observer(Protocol):
    """Somebody who is told of each record when its outcome is on the disk.

    Called between two calls of the run, so that it must be quick; what it raises ends the run, which can be resumed. One that
    has an attribute `wants_texts`, and it is true, is told prompts, answers and explanations too.
    """

    def __call__(self, seen: RecordSeen, /) -> None:
        """A record has come to its end."""


class Ended(msgspec.Struct, frozen=True):
    """A record as the engine leaves it."""

    case: Case
    attempts: Sequence[Attempt]
    outcome: Outcome
    asks: Mapping[str, Ask] = {}
    """By call, where texts are wanted."""


class Watcher:
    """Tells an observer of the records of one run."""

    def __init__(self, observer: Observer, plan: Plan, *, environ: Mapping[str, str], clock: Callable[[], float]) -> None:
        self.wants_texts = bool(getattr(observer, "wants_texts", False))
        self._observer = observer
        self._plan = plan
        self._clock = clock
        self._redactor = redactor_of(plan, environ)
        shown = ShownPlan(plan, self._redactor)
        self._models = {model.name: found for model, found in zip(plan.models(), (shown.candidate, *shown.judges), strict=True)}
        self._providers = {provider.name: provider for provider in plan.providers}
        nowhere = ModelPlan(name="", provider="", model="")
        self._unknown = (nowhere, ProviderPlan(name="", kind="scripted"))

    def tell(self, ended: Ended) -> None:
        """What the observer may know of a record."""
        case, now = ended.case, self._clock()
        calls = tuple(self._call(attempt, ended.asks) for attempt in ended.attempts if _is_call(attempt))
        self._observer(
            RecordSeen(
                run_id=self._plan.run_id,
                record_id=self._redactor.text(case.id),
                sample=case.sample or 0,
                dataset=self._redactor.text(case.dataset),
                contract=case.contract,
                status=record_status(ended.outcome),
                started_at=min((call.started_at for call in calls), default=now),
                ended_at=now,
                calls=calls,
                **self._outcome(ended.outcome),
            )
        )

    def _outcome(self, outcome: Outcome) -> dict[str, Any]:
        if isinstance(outcome, Graded):
            return self._grade(outcome.grade)
        if isinstance(outcome, Failed | Cancelled):
            stage = outcome.stage if isinstance(outcome, Failed) else ""
            return {"code": outcome.code, "message": self._redactor.text(outcome.message), "stage": stage}
        return {}

    def _grade(self, grade: Grade) -> dict[str, Any]:
        return {
            "score": grade.score,
            "raw_score": grade.raw_score,
            "scale": grade.scale,
            "passed": grade.passed,
            "label": grade.label,
            "evaluator": grade.evaluator,
            "explanation": self._text(grade.justification),
            "scores": tuple(map(self._score, grade.scores)),
        }

    def _score(self, score: Score) -> ScoreSeen:
        return ScoreSeen(
            criterion=self._redactor.term(score.criterion),
            score=score.score,
            scale=score.scale,
            normalized=score.normalized,
            judge=self._name(score.judge),
            explanation=self._text(score.justification),
        )

    def _call(self, attempt: Attempt, asks: Mapping[str, Ask]) -> CallSeen:
        model = self._models.get(attempt.model, self._unknown[0])
        provider = self._providers.get(model.provider, self._unknown[1])
        reply, ask = attempt.reply, asks.get(attempt.call_id)
        return CallSeen(
            stage=attempt.stage,
            call_id=attempt.call_id,
            round=attempt.round,
            started_at=attempt.started_at,
            seconds=attempt.latency_ms / 1000,
            is_timed=reply is None or UNTIMED.isdisjoint(reply.flags),
            model=model.name,
            provider=provider.name,
            provider_kind=provider.kind,
            base_url=provider.base_url,
            request_model=model.model,
            parameters=msgspec.to_builtins(model.parameters) if reply is None else reply.applied,
            response_model="" if reply is None else self._redactor.term(reply.model),
            response_id=self._redactor.term(attempt.request_id),
            finish_reason="" if reply is None else reply.finish_reason,
            usage=Usage() if reply is None else reply.usage,
            cost=attempt.cost,
            error_code=attempt.error_code,
            error_message=self._redactor.text(attempt.error_message),
            http_status=attempt.http_status,
            wait_s=attempt.wait_s,
            asked=tuple(map(self._message, ask.messages)) if ask is not None else (),
            said="" if reply is None else self._text(reply.text),
        )

    def _name(self, judge: str) -> str:
        found = self._models.get(judge)
        return judge if found is None else found.name

    def _message(self, message: Message) -> Message:
        return msgspec.structs.replace(message, content=self._redactor.text(message.content))

    def _text(self, text: str) -> str:
        return self._redactor.text(text) if self.wants_texts else ""


def _is_call(attempt: Attempt) -> bool:
    return attempt.reply is None or FREE.isdisjoint(attempt.reply.flags)
