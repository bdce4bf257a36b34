"""Events for a run's observer: times, tokens, scores and codes of each finished record, redacted; texts only on request."""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import msgspec

from assay.core.canonical import JsonObject
from assay.core.case import Case, Message
from assay.core.model_call import ModelRequest, Usage
from assay.core.outcome import Attempt, CancelledOutcome, FailedOutcome, Grade, GradedOutcome, Outcome, Score, record_status
from assay.core.plan import ModelPlan, Plan, ProviderPlan
from assay.core.provider import ProviderKind
from assay.engine.records.redaction import RedactedPlan, redactor_of
from assay.engine.records.run_counters import FREE, UNTIMED


class CallEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One call to a model, successful or not; replies from the cache or from a file are not calls."""

    stage: str
    call_id: str
    """Identifies the call within its record; the same in every round."""
    round: int
    started_at: float
    """Seconds since 1970, UTC."""
    seconds: float
    is_timed: bool = True
    """False for a reply from a provider batch, whose duration is unknown."""
    model: str
    """Name of the plan's model."""
    provider: str
    """Provider's name in the run file."""
    provider_kind: ProviderKind
    """Provider's protocol: `openai`, `anthropic` and so on."""
    base_url: str
    request_model: str
    parameters: JsonObject
    """Parameters as sent if there was a reply, otherwise as planned."""
    response_model: str = ""
    response_id: str = ""
    finish_reason: str = ""
    usage: Usage = Usage()
    cost: float | None = None
    """US dollars; None when the price is unknown."""
    error_code: str = ""
    error_message: str = ""
    http_status: int | None = None
    wait_s: float | None = None
    """Seconds that the record waited before the next round."""
    asked: tuple[Message, ...] = ()
    """Prompt; only if the observer wants texts."""
    said: str = ""
    """Reply's text; only if the observer wants texts."""


class ScoreSeen(msgspec.Struct, frozen=True, kw_only=True):
    """One evaluator's score on one criterion."""

    criterion: str
    score: float
    scale: str
    normalized: float
    judge: str = ""
    explanation: str = ""
    """Only if the observer wants texts."""


class RecordEvent(msgspec.Struct, frozen=True, kw_only=True):
    """A finished record."""

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
    """Reason why it has no score."""
    message: str = ""
    stage: str = ""
    """Stage at which it failed: `candidate` or `judge`."""
    score: float | None = None
    """Score over all criteria, in 0..1."""
    raw_score: float | None = None
    scale: str = ""
    passed: bool | None = None
    label: str = ""
    """Reason why it did not pass."""
    evaluator: str = ""
    explanation: str = ""
    """Only if the observer wants texts."""
    scores: tuple[ScoreSeen, ...] = ()
    calls: tuple[CallEvent, ...] = ()


class Observer(Protocol):
    """Callback for each record once its outcome is on disk.

    It runs on the run's event loop and must be quick; an exception from it ends the run, which can be resumed. An observer with a
    true attribute `wants_texts` also receives prompts, answers and explanations.
    """

    def __call__(self, seen: RecordEvent, /) -> None:
        """Handle a finished record."""


class FinishedCase(msgspec.Struct, frozen=True):
    """A finished record with its attempts and outcome, before redaction."""

    case: Case
    attempts: Sequence[Attempt]
    outcome: Outcome
    requests: Mapping[str, ModelRequest] = {}
    """Requests by call id; only if the observer wants texts."""


class RecordEventEmitter:
    """Converts the finished records of one run into redacted events for an observer."""

    def __init__(self, observer: Observer, plan: Plan, *, environ: Mapping[str, str], clock: Callable[[], float]) -> None:
        self.wants_texts = bool(getattr(observer, "wants_texts", False))
        self._observer = observer
        self._plan = plan
        self._clock = clock
        self._redactor = redactor_of(plan, environ)
        redacted_plan = RedactedPlan(plan, self._redactor)
        self._models = {
            model.name: redacted_model
            for model, redacted_model in zip(plan.models(), (redacted_plan.candidate, *redacted_plan.judges), strict=True)
        }
        self._providers = {provider.name: provider for provider in plan.providers}
        unknown = ModelPlan(name="", provider="", model="")
        self._unknown = (unknown, ProviderPlan(name="", kind="scripted"))

    def emit(self, finished: FinishedCase) -> None:
        """Send the event of a finished record to the observer."""
        case, now = finished.case, self._clock()
        calls = tuple(self._call(attempt, finished.requests) for attempt in finished.attempts if _is_call(attempt))
        self._observer(
            RecordEvent(
                run_id=self._plan.run_id,
                record_id=self._redactor.text(case.id),
                sample=case.sample or 0,
                dataset=self._redactor.text(case.dataset),
                contract=case.contract,
                status=record_status(finished.outcome),
                started_at=min((call.started_at for call in calls), default=now),
                ended_at=now,
                calls=calls,
                **self._outcome(finished.outcome),
            )
        )

    def _outcome(self, outcome: Outcome) -> JsonObject:
        if isinstance(outcome, GradedOutcome):
            return self._grade(outcome.grade)
        if isinstance(outcome, FailedOutcome | CancelledOutcome):
            stage = outcome.stage if isinstance(outcome, FailedOutcome) else ""
            return {"code": outcome.code, "message": self._redactor.text(outcome.message), "stage": stage}
        return {}

    def _grade(self, grade: Grade) -> JsonObject:
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

    def _call(self, attempt: Attempt, requests: Mapping[str, ModelRequest]) -> CallEvent:
        model = self._models.get(attempt.model, self._unknown[0])
        provider = self._providers.get(model.provider, self._unknown[1])
        reply, request = attempt.reply, requests.get(attempt.call_id)
        return CallEvent(
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
            asked=tuple(map(self._message, request.messages)) if request is not None else (),
            said="" if reply is None else self._text(reply.text),
        )

    def _name(self, judge: str) -> str:
        redacted_model = self._models.get(judge)
        return judge if redacted_model is None else redacted_model.name

    def _message(self, message: Message) -> Message:
        return msgspec.structs.replace(message, content=self._redactor.text(message.content))

    def _text(self, text: str) -> str:
        return self._redactor.text(text) if self.wants_texts else ""


def _is_call(attempt: Attempt) -> bool:
    return attempt.reply is None or FREE.isdisjoint(attempt.reply.flags)
