"""Records of a run as traces: a span for each call, and a mark for each grade, expectation and label."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal

import msgspec

from assay import api
from assay.core.artifact_lines import AttemptLine, PredictionLine, RecordDetails
from assay.core.case import Case, Choice, Message
from assay.core.open_fields import grading_fields, question_fields
from assay.core.outcome import Score

Json = dict[str, Any]
AssessmentKind = Literal["feedback", "expectation"]
AssessmentSource = Literal["LLM_JUDGE", "CODE", "HUMAN"]

MAX_CRITERIA = 20
"""Maximum number of criteria with names of their own; more would be a column each in MLflow's table."""
CRITERION = "criterion"
"""Name that marks share where there are more."""
EXPECTED, GUIDELINES, CHOICES = "expected_response", "guidelines", "expected_choices"
"""MLflow's own judges look for the first two of these names."""
VERDICTS = frozenset({"passed", "score", "profile_score", EXPECTED, GUIDELINES, CHOICES, CRITERION})
"""Names that criteria do not get for themselves: MLflow would take the mean of a vote and a verdict."""
LABEL_NOTE = "assay.labelled_at"
"""Marks an assessment as a label of ours, with its time."""
UNNAMED = "unnamed"
"""Rater of a label without a name."""
IN_FILE = "in a file"
"""Time of a label that was not given on the pages."""
LONGEST_NAME = 250
"""Characters of the name of an assessment, and of its source."""
SHOWN = 1_000
"""Characters of question and answer that lists show."""


class TraceSpan(msgspec.Struct, frozen=True, kw_only=True):
    """One call, or the record as a whole."""

    span_id: str
    parent_id: str | None
    name: str
    kind: str
    start_ns: int
    end_ns: int
    inputs: Any = None
    outputs: Any = None
    error: tuple[str, str] | None = None
    """Code and message."""
    attributes: Json = {}


class Assessment(msgspec.Struct, frozen=True, kw_only=True):
    """Grade, label or expectation of an answer."""

    mark_id: str
    name: str
    kind: AssessmentKind
    value: Any
    source: AssessmentSource
    source_id: str
    rationale: str | None = None
    metadata: dict[str, str] = {}
    error: tuple[str, str] | None = None
    """Code and message where there is no value."""


class Trace(msgspec.Struct, frozen=True, kw_only=True):
    """One record of a run."""

    trace_id: str
    name: str
    start_ms: int
    duration_ms: int
    is_error: bool
    question: str
    answer: str
    tags: dict[str, str]
    metadata: dict[str, str]
    spans: tuple[TraceSpan, ...]
    marks: tuple[Assessment, ...]


class TraceContext(msgspec.Struct, frozen=True, kw_only=True):
    """Data that the traces of one run have in common."""

    mlflow_run_id: str
    run_id: str
    started_at: str
    dataset_id: str
    providers: Mapping[str, str] = {}
    """Provider of each model by the model's name in the run."""
    has_own_names: bool = True
    """Criteria are few, so that each is a name."""
    labels: Mapping[tuple[str, str, int], Sequence[api.KeptLabel]] = {}
    """Labels of people, by answer."""


def trace_of(entry: RecordDetails, setting: TraceContext) -> Trace:
    """Return the trace of one record, the same whenever it is made: its ids come from the run in MLflow and the record's place."""
    asked, line = entry.input, entry.prediction
    # Ids follow from the run in MLflow and the place of the record, so a repeated push finds its own traces.
    trace_id = f"tr-{_digest(setting.mlflow_run_id, line.index)[:32]}"
    spans = tuple(_spans(entry, trace_id, setting))
    root = spans[0]
    cost = {} if line.cost is None else {"mlflow.trace.cost": _json({"total_cost": line.cost})}
    return Trace(
        trace_id=trace_id,
        name=line.record_id,
        start_ms=root.start_ns // 1_000_000,
        duration_ms=(root.end_ns - root.start_ns) // 1_000_000,
        is_error=root.error is not None,
        question=(asked.prompt or _json(asked.messages))[:SHOWN],
        answer=(line.model_response or "")[:SHOWN],
        tags=_tags(asked, line, tries=len(entry.attempts)),
        metadata={"mlflow.sourceRun": setting.mlflow_run_id, **cost},
        spans=spans,
        marks=tuple(_marks(entry, trace_id, setting)),
    )


def inputs_of(asked: Case) -> dict[str, object]:
    """Return the candidate's input in the form of MLflow's datasets and traces."""
    # Messages are what was sent; prompt repeats the last of them.
    given: Json = {"messages": _plain_list(asked.messages)} if asked.messages else {"prompt": asked.prompt}
    fields = {field.name: field.text for field in question_fields(asked)}
    further: Json = {**fields, "context": asked.model_context, "choices": _plain_list(asked.choices)}
    return {**given, **{name: value for name, value in further.items() if value}}


def expectations_of(asked: Case) -> dict[str, object]:
    """Return the expectations that an answer is graded by."""
    found: Json = {}
    if asked.references:
        found[EXPECTED] = asked.references[0] if len(asked.references) == 1 else list(asked.references)
    if asked.criteria:
        found[GUIDELINES] = [criterion.description or criterion.title for criterion in asked.criteria]
    if asked.correct_choice_ids:
        found[CHOICES] = list(asked.correct_choice_ids)
    for field in grading_fields(asked):
        # A field may have the name of an expectation of ours, which counts.
        found.setdefault(field.name, field.text)
    return found


def _plain_list(values: Sequence[Message] | Sequence[Choice]) -> list[dict[str, object]]:
    """Convert structs to what MLflow's own encoder takes."""
    return list(msgspec.to_builtins(values))


def _tags(asked: Case, line: PredictionLine, *, tries: int) -> dict[str, str]:
    named = {
        "record_id": line.record_id,
        "record_sha256": line.record_sha256,
        "index": str(line.index),
        "sample": "" if line.sample is msgspec.UNSET else str(line.sample),
        "status": line.status,
        "error_code": line.error_code or "",
        "label": line.label or "",
        "dataset": line.dataset,
        "flags": ", ".join(line.flags),
        "tags": ", ".join(asked.tags),
        "attempts": str(tries),
    }
    return {f"assay.{name}": value for name, value in named.items() if value}


# Spans


def _spans(entry: RecordDetails, trace_id: str, setting: TraceContext) -> Iterator[TraceSpan]:
    line, asked = entry.prediction, entry.input
    calls = [_call(attempt, entry, trace_id=trace_id, setting=setting) for attempt in entry.attempts]
    # A record without any call has no times of its own.
    start = min((call.start_ns for call in calls), default=_nanoseconds(setting.started_at))
    yield TraceSpan(
        span_id=_root(trace_id),
        parent_id=None,
        name="record",
        kind="CHAIN",
        start_ns=start,
        end_ns=max((call.end_ns for call in calls), default=start),
        inputs=inputs_of(asked),
        outputs=line.model_response,
        # Any reason that kept a record from a grade is an error, unlike a bad answer.
        error=None if line.status == "evaluated" else (line.error_code or line.status, line.error_message or ""),
        attributes={"assay.run_id": setting.run_id, "assay.record_id": line.record_id, "assay.policy_id": line.policy_id},
    )
    yield from calls


def _call(attempt: AttemptLine, entry: RecordDetails, *, trace_id: str, setting: TraceContext) -> TraceSpan:
    start = _nanoseconds(attempt.at)
    again = f" (round {attempt.record_attempt})" if attempt.record_attempt > 1 else ""
    is_candidate = attempt.stage == "candidate"
    # The candidate's text is stored once, with the record; attempts hold the replies of judges.
    said = None if attempt.error_code else entry.prediction.model_response if is_candidate else attempt.response
    return TraceSpan(
        span_id=_digest(trace_id, attempt.attempt)[:16],
        parent_id=_root(trace_id),
        name=f"{attempt.call_id}{again}",
        kind="CHAT_MODEL" if is_candidate else "EVALUATOR",
        start_ns=start,
        end_ns=start + round((attempt.latency_ms or 0) * 1_000_000),
        inputs=inputs_of(entry.input) if is_candidate else {"answer": entry.prediction.model_response},
        outputs=said,
        error=(attempt.error_code, attempt.error_message or "") if attempt.error_code else None,
        attributes=_attributes(attempt, setting.providers.get(attempt.model, "")),
    )


_NOTED = (
    "stage",
    "record_attempt",
    "request_sha256",
    "http_status",
    "retry_after",
    "wait_s",
    "request_id",
    "finish_reason",
    "answered_by",
    "applied",
)


def _attributes(attempt: AttemptLine, provider: str) -> dict[str, object]:
    counts = {"input_tokens": attempt.input_tokens, "output_tokens": attempt.output_tokens, "total_tokens": attempt.total_tokens}
    named = {
        "mlflow.llm.model": attempt.answered_by or attempt.model,
        "mlflow.llm.provider": provider,
        "mlflow.chat.tokenUsage": {name: count for name, count in counts.items() if count is not None},
        "assay.model": attempt.model,
        "assay.cost_usd": attempt.cost,
        "assay.flags": list(attempt.flags),
        **{f"assay.{name}": getattr(attempt, name) for name in _NOTED},
    }
    return {name: value for name, value in named.items() if value not in (None, "", [], {})}


# Marks


def _marks(entry: RecordDetails, trace_id: str, setting: TraceContext) -> Iterator[Assessment]:
    line = entry.prediction
    if line.status == "evaluated":
        yield from _grades(entry, trace_id, setting)
    elif line.model_response is not None:
        # The answer could not be graded, which MLflow shows as an assessment with an error.
        error = (line.error_code or line.status, line.error_message or "")
        yield _mark(trace_id, "passed", None, by=("CODE", line.evaluator or "assay"), error=error)
    yield from _named_marks(line, trace_id)
    for name, value in expectations_of(entry.input).items():
        yield _mark(trace_id, name, value, by=("HUMAN", setting.dataset_id), kind="expectation")
    for label in setting.labels.get((line.dataset, line.record_id, line.sample or 0), ()):
        yield from _label(trace_id, label)


def _grades(entry: RecordDetails, trace_id: str, setting: TraceContext) -> Iterator[Assessment]:
    line = entry.prediction
    judges = list(dict.fromkeys(score.judge for score in line.evaluator_scores if score.judge))
    by: tuple[AssessmentSource, str] = ("LLM_JUDGE", ", ".join(judges)) if judges else ("CODE", line.evaluator or "assay")
    noted = {
        "scale": line.scale or "",
        "score_0_1": str(line.score),
        "evaluator": line.evaluator or "",
        "label": line.label or "",
    }
    said: Json = {"rationale": line.justification, "metadata": {name: text for name, text in noted.items() if text}}
    yield _mark(trace_id, "passed", line.passed, by=by, **said)
    yield _mark(trace_id, "score", line.raw_score, by=by, **said)
    if line.profile_score is not None:
        yield _mark(trace_id, "profile_score", line.profile_score, by=("CODE", "profile"))
    titles = {criterion.id: criterion.description or criterion.title for criterion in entry.input.criteria}
    # Numbered: the id of a mark is a hash of what it is about, and a judge may vote on a criterion more than
    # once.
    for number, score in enumerate(line.evaluator_scores):
        yield _vote(
            trace_id, score, number=number, title=titles.get(score.criterion, ""), setting=setting, evaluator=line.evaluator
        )


def _named_marks(line: PredictionLine, trace_id: str) -> Iterator[Assessment]:
    """Yield what each check, and each of several graders, says of the answer."""
    for check in line.checks if isinstance(line.checks, tuple) else ():
        if check.passed is not None:
            yield _mark(trace_id, f"checks/{check.name}", check.passed, by=("CODE", check.type), rationale=check.reason)
    for grader in line.graders if isinstance(line.graders, tuple) else ():
        by: tuple[AssessmentSource, str] = ("LLM_JUDGE" if grader.kind == "judge" else "CODE", grader.evaluator or grader.name)
        name = f"graders/{grader.name}"
        if grader.status == "graded":
            noted = {"scale": grader.scale or "", "score": str(grader.raw_score), "template": grader.template or ""}
            said: Json = {"rationale": grader.justification or None, "metadata": {key: text for key, text in noted.items() if text}}
            yield _mark(trace_id, name, grader.passed, by=by, **said)
        else:
            yield _mark(trace_id, name, None, by=by, error=(grader.error_code or grader.status, grader.error_message or ""))


def _vote(trace_id: str, score: Score, *, number: int, title: str, setting: TraceContext, evaluator: str | None) -> Assessment:
    judge = score.judge
    noted = {
        "criterion": score.criterion,
        "criterion_text": title,
        "scale": score.scale,
        "weight": "" if score.weight == 1 else str(score.weight),
    }
    return _mark(
        trace_id,
        criterion_name(score.criterion) if setting.has_own_names else CRITERION,
        score.score,
        by=("LLM_JUDGE", judge) if judge else ("CODE", evaluator or "assay"),
        rationale=score.justification or None,
        metadata={name: text for name, text in noted.items() if text},
        place=str(number),
    )


def criterion_name(criterion: str) -> str:
    """Return the name of a criterion's assessments: its own, unless a verdict has that name."""
    return f"{CRITERION}/{criterion}" if criterion in VERDICTS else criterion


def _label(trace_id: str, label: api.KeptLabel) -> Iterator[Assessment]:
    """Yield a label under the names of the judge's own assessments, so that MLflow shows them side by side."""
    by: tuple[AssessmentSource, str] = ("HUMAN", label.rater or UNNAMED)
    noted = {LABEL_NOTE: label.at or IN_FILE}
    for name, value in (("passed", label.passed), ("score", label.score)):
        if value is not None:
            yield _mark(trace_id, name, value, by=by, rationale=label.note or None, metadata=noted, place="label")


def _mark(
    trace_id: str, name: str, value: object, *, by: tuple[AssessmentSource, str], place: str = "", **further: Any
) -> Assessment:
    source, source_id = by
    return Assessment(
        mark_id=f"a-{_digest(trace_id, name, source, source_id, place)[:32]}",
        name=short_name(name),
        value=value,
        source=source,
        source_id=short_name(source_id),
        **{"kind": "feedback", **further},
    )


def short_name(name: str) -> str:
    """Return a name that fits into MLflow's database and is unlike any other."""
    return name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 9]}-{_digest(name)[:8]}"


def _root(trace_id: str) -> str:
    return _digest(trace_id, "root")[:16]


def _digest(*parts: object) -> str:
    return hashlib.sha256("\n".join(map(str, parts)).encode("utf-8", "surrogatepass")).hexdigest()


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _nanoseconds(moment: str) -> int:
    # Milliseconds are what artifacts have; more digits would be noise of floats.
    return round(datetime.fromisoformat(moment).timestamp() * 1_000) * 1_000_000
