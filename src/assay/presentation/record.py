"""One record in words: what was asked, what was answered, every vote and every attempt, for pages and for text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal

import msgspec

from assay import api
from assay.core.artifact_lines import AttemptLine, FailureLine, InvalidRecord, PredictionLine, RecordDetails, SampleResult
from assay.core.canonical import json_text
from assay.core.case import Case, Criterion, Turn
from assay.core.issue import RecordIssue
from assay.core.number_text import rate_text, score_text
from assay.core.open_fields import grading_fields, question_fields
from assay.core.outcome import PanelDecision, Score
from assay.presentation.run import result_cell, score_of
from assay.presentation.sections import MAX_TEXT, Badge, Cell, Column, DisplayValue, Fact, Section, Table, TextBlock, Timestamp
from assay.presentation.subject import NAME_LIMIT, stage_word
from assay.presentation.words import (
    DASH,
    ERROR,
    NOT_PASSED,
    PASSED,
    UNKNOWN,
    cut,
    dollars,
    domain,
    error_text,
    latency,
    level_name,
    moment,
    money,
    sampled_name,
    shown,
)

Speaker = Literal["user", "assistant", "system", "tool"]
UNREADABLE_VERDICT = "judge_parse_error"
"""Error for which a reader wants to see what the judge said."""
STATUSES = {
    "timeout": "The model did not answer in time.",
    "evaluation_error": "No grade; see its page for the reason.",
    "cancelled": "It was stopped before it had a grade.",
    "skipped": "It was valid, but not to be evaluated.",
    "invalid_record": "It broke its contract and was sent nowhere.",
}


# Results, as lists and records show them


def verdict_mark(line: PredictionLine | FailureLine | SampleResult) -> Badge:
    """Return whether a record passed; for one without a grade, why it has none."""
    if not isinstance(line, FailureLine) and line.passed is not None:
        return Badge(PASSED, "good") if line.passed else Badge(NOT_PASSED, "bad")
    status = line.status
    if status in ("cancelled", "skipped"):
        return Badge(status, "quiet", STATUSES.get(status, ""))
    return Badge(ERROR if status in STATUSES else status.replace("_", " "), "warn", STATUSES.get(status, ""))


def score_mark(line: PredictionLine | FailureLine | SampleResult) -> DisplayValue:
    """Return the raw score on its scale."""
    if isinstance(line, FailureLine) or line.raw_score is None or line.score is None:
        return DisplayValue(DASH, "It has no score: an error is never a score.")
    raw, scale = line.raw_score, line.scale
    return DisplayValue(
        level_name(raw), f"Score {raw:g} on the scale {scale}; {score_text(line.score)} of 1.", f"on {scale}" if scale else ""
    )


def row_marks(code: str, row: api.IndexedRecord | None) -> Iterable[Badge]:
    """Yield what a list says of a record besides its result."""
    if row is not None and row.spread:
        yield Badge("judges disagree", "warn", f"On one criterion the votes are {rate_text(row.spread)} of the scale apart.")
    if row is not None and row.is_split:
        yield Badge("repeats disagree", "warn", "Answers to the same record came to different verdicts.")
    if code:
        yield Badge(code, "quiet", "The code of what went wrong.")


def cost_value(cost: float | None) -> DisplayValue:
    """Return the cost of a record or a call."""
    return DisplayValue(DASH, "No price is known.") if cost is None else money(cost)


# A record for a page


class TurnView(msgspec.Struct, frozen=True, kw_only=True):
    """One turn of a conversation."""

    speaker: str
    kind: Speaker
    passages: tuple[TextBlock, ...]
    note: str = ""


class ChoiceView(msgspec.Struct, frozen=True, kw_only=True):
    """One option of a question."""

    id: str
    text: str
    marks: tuple[Badge, ...]


class VoteView(msgspec.Struct, frozen=True, kw_only=True):
    """What one judge says of one criterion."""

    judge: str
    mark: Badge
    justification: TextBlock
    note: str
    """How sure the judge was, and what had to be done to read it."""
    reply: TextBlock | None
    """What the judge said word by word."""


class CriterionView(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that judges looked for."""

    name: str
    title: str
    description: str
    weight: str
    mark: Badge | None
    words: str
    """How the votes became one."""
    votes: tuple[VoteView, ...]


class AttemptView(msgspec.Struct, frozen=True, kw_only=True):
    """One call that was made for the record."""

    number: int
    stage: str
    about: str
    """Criterion that it is about, where there are several."""
    model: str
    at: Timestamp | None
    round: int
    latency: DisplayValue
    outcome: Badge
    problem: str
    tokens: DisplayValue
    cost: DisplayValue
    passages: tuple[TextBlock, ...]
    facts: tuple[Fact, ...]


class SampleView(msgspec.Struct, frozen=True, kw_only=True):
    """One of several answers to the same record."""

    text: str
    index: int
    mark: Badge
    score: DisplayValue
    is_here: bool


class LabelView(msgspec.Struct, frozen=True, kw_only=True):
    """What a person says of the answer."""

    rater: str
    mark: Badge | None
    score: str
    note: str
    at: Timestamp | None


class RecordReport(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that is known of a record, in words."""

    index: int
    name: str
    verdict: Badge
    score: DisplayValue
    marks: tuple[Badge, ...] = ()
    facts: tuple[Fact, ...] = ()
    asked: tuple[TextBlock, ...] = ()
    thread: tuple[TurnView, ...] = ()
    choices: tuple[ChoiceView, ...] = ()
    expected: tuple[TextBlock, ...] = ()
    """Context, reference, notes: what belongs to the question."""
    answer: TextBlock | None = None
    problem: TextBlock | None = None
    """Reason for no grade."""
    reasons: TextBlock | None = None
    criteria: tuple[CriterionView, ...] = ()
    is_judged: bool = False
    """True when models voted; False for a grade by rule."""
    attempts: tuple[AttemptView, ...] = ()
    samples: tuple[SampleView, ...] = ()
    rest: tuple[TextBlock, ...] = ()
    """Metadata and members that have no place of their own."""
    scale: str = ""


def record_report(found: RecordDetails | InvalidRecord, issues: Sequence[RecordIssue] = ()) -> RecordReport:
    """Return a record in words; `issues` are those of one that broke its contract."""
    if isinstance(found, InvalidRecord):
        return _invalid(found.failure, issues)
    asked, line, attempts = found.input, found.prediction, found.attempts
    return RecordReport(
        index=line.index,
        name=line.record_id or f"record {line.index}",
        verdict=verdict_mark(line),
        score=score_mark(line),
        # Several calls of a record may set the same flag; it is shown once, in the order in which it first
        # appeared.
        marks=tuple(Badge(flag.replace("_", " "), "quiet") for flag in dict.fromkeys(line.flags)),
        facts=tuple(_facts(line, asked)),
        asked=tuple(_asked(asked)),
        thread=tuple(_thread(asked)),
        choices=tuple(_choices(asked, line)),
        expected=tuple(_expected(asked)),
        answer=None if line.model_response is None else TextBlock(title="Answer", text=line.model_response),
        problem=_problem(line),
        reasons=_reasons(line),
        criteria=tuple(_criteria(asked, line, attempts)),
        is_judged=any(score.judge for score in line.evaluator_scores),
        attempts=tuple(map(_attempt_view, attempts)),
        samples=tuple(_sample_view(sample, line.index) for sample in found.samples or ()),
        rest=tuple(_rest(asked)),
        scale=line.scale or "",
    )


def _invalid(failure: FailureLine, issues: Sequence[RecordIssue]) -> RecordReport:
    """Return a record that was never sent to a model."""
    said = [f"{issue.path}: {issue.message} ({issue.code})" for issue in issues] or [error_text(failure.code, failure.message)]
    return RecordReport(
        index=failure.index,
        name=failure.record_id or f"record {failure.index}",
        verdict=verdict_mark(failure),
        score=score_mark(failure),
        facts=(Fact("Index", f"{failure.index:,}"), Fact("Error", failure.code)),
        problem=TextBlock(title="What is wrong with it", text="\n".join(said)),
    )


def _sample_view(sample: SampleResult, index: int) -> SampleView:
    return SampleView(
        text=f"answer {sample.sample}",
        index=sample.index,
        mark=verdict_mark(sample),
        score=score_mark(sample),
        is_here=sample.index == index,
    )


def _facts(line: PredictionLine, asked: Case) -> Iterator[Fact]:
    candidate = line.candidate_name
    yield Fact("Candidate", candidate if line.model in ("", candidate) else f"{candidate} ({line.model})")
    yield Fact("Dataset", line.dataset)
    yield Fact("Task", asked.task)
    named = {
        "Tags": ", ".join(asked.tags),
        "Graded by": " · ".join(filter(None, (line.evaluator, line.template, line.policy_id))),
        "Error": line.error_code or "",
        "Reason": "" if line.error_code else (line.label or "").replace("_", " "),
        "Ended with": line.finish_reason or "",
        "Latency": _latencies(line),
        "Tokens": _token_text(line),
        "Cost": "" if line.cost is None else money(line.cost).text,
        "Rounds": str(line.record_attempts or ""),
    }
    yield from (Fact(label, text) for label, text in named.items() if text)
    yield Fact("Index", f"{line.index:,}")
    yield Fact("Record SHA-256", line.record_sha256, is_hash=True)
    if line.response_sha256:
        yield Fact("Answer SHA-256", line.response_sha256, is_hash=True)


def _latencies(line: PredictionLine) -> str:
    parts = {"candidate": line.latency_ms, "grading": line.judge_latency_ms, "in all": line.total_latency_ms}
    return " · ".join(f"{latency(value)} {name}" for name, value in parts.items() if value is not None)


def _token_text(line: PredictionLine | AttemptLine) -> str:
    names = {"input_tokens": "in", "output_tokens": "out", "cached_tokens": "cached", "judge_tokens": "judges"}
    counts = ((getattr(line, name, None), word) for name, word in names.items())
    return " · ".join(f"{count:,} {word}" for count, word in counts if count is not None)


def _asked(asked: Case) -> Iterator[TextBlock]:
    # legal_eval_v1 sends `messages` and keeps `prompt` for display, where it usually repeats the last message.
    if asked.prompt and not (asked.messages and asked.messages[-1].content == asked.prompt):
        yield TextBlock(title="Prompt", text=asked.prompt)


def _thread(asked: Case) -> Iterator[TurnView]:
    for message in asked.messages:
        yield TurnView(speaker=message.role, kind=_kind(message.role), passages=(TextBlock(title="", text=message.content),))
    for turn in asked.turns:
        yield from _turn(turn)


def _kind(speaker: str) -> Speaker:
    kinds: dict[str, Speaker] = {
        "assistant": "assistant",
        "system": "system",
        "tool": "tool",
        "agent": "assistant",
        "bot": "assistant",
    }
    return kinds.get(speaker.casefold(), "user")


def _turn(turn: Turn) -> Iterator[TurnView]:
    """Yield what was said in a turn, and what its tool was given and gave back."""
    number = f"turn {turn.turn_id}"
    note = number if turn.confidence_score is None else f"{number} · confidence {turn.confidence_score:g}"
    if turn.message:
        yield TurnView(
            speaker=turn.speaker, kind=_kind(turn.speaker), passages=(TextBlock(title="", text=turn.message),), note=note
        )
    if turn.tool_used:
        passages = [] if turn.tool_input is None else [TextBlock(title="Input", text=json_text(turn.tool_input), is_code=True)]
        # In conversation_v1 a null output was recorded, which is different from no output.
        if turn.has_tool_output or turn.tool_output is not None:
            passages.append(TextBlock(title="Output", text=json_text(turn.tool_output), is_code=True))
        yield TurnView(speaker=f"tool {turn.tool_used}", kind="tool", passages=tuple(passages), note=number)
    if turn.assistant_reply:
        yield TurnView(speaker="assistant", kind="assistant", passages=(TextBlock(title="", text=turn.assistant_reply),), note=note)
    recorded = {**turn.metadata, **turn.extra}
    if recorded:
        yield TurnView(
            speaker="recorded with it",
            kind="system",
            passages=(TextBlock(title="", text=json_text(recorded), is_code=True),),
            note=number,
        )


def _choices(asked: Case, line: PredictionLine) -> Iterator[ChoiceView]:
    right, chosen = asked.correct_choice_ids, line.selected_choice_ids
    for choice in asked.choices:
        marks = [Badge("right", "good", "The correct choice in the dataset.")] if choice.id in right else []
        if choice.id in chosen:
            # Without a known correct choice the chosen one is neither right nor wrong.
            is_wrong = bool(right) and choice.id not in right
            marks.append(Badge("chosen", "bad" if is_wrong else "live" if not right else "good", "The candidate chose this."))
        yield ChoiceView(id=choice.id, text=choice.text, marks=tuple(marks))


def _expected(asked: Case) -> Iterator[TextBlock]:
    if asked.model_context:
        yield TextBlock(title="Context", text=asked.model_context)
    for field in question_fields(asked):
        yield TextBlock(title=field.name, text=field.text)
    for field in grading_fields(asked):
        yield TextBlock(title=field.name, text=field.text, note="only judges saw this")
    for number, reference in enumerate(asked.references, 1):
        yield TextBlock(title="Reference" if len(asked.references) == 1 else f"Reference {number}", text=reference)
    if _is_pair(asked) and asked.criteria:
        # Of one answer, criteria are shown with their votes; a comparison has no vote for each criterion.
        yield TextBlock(title="Criteria", text="\n".join(map(_criterion_line, asked.criteria)))
    if asked.notes:
        yield TextBlock(title="Notes for people", text=asked.notes, note="no model saw this")
    for attachment in asked.attachments:
        words = [attachment.title, attachment.path, attachment.kind, attachment.sha256]
        yield TextBlock(title="Attachment", text="\n".join(filter(None, words)))


def _is_pair(asked: Case) -> bool:
    """Return whether two answers are compared: criteria then apply to both, and no judge votes on one of them."""
    return asked.task == "pairwise"


def _criterion_line(criterion: Criterion) -> str:
    words = (criterion.title or criterion.id, criterion.description)
    return f"{': '.join(filter(None, words))} (weight {criterion.weight:g})"


def _rest(asked: Case) -> Iterator[TextBlock]:
    for title, members in (("Metadata", asked.metadata), ("Other members", asked.extra)):
        if members:
            yield TextBlock(title=title, text=json_text(members), is_code=True)


def _problem(line: PredictionLine) -> TextBlock | None:
    if not line.error_code:
        return None
    return TextBlock(title="Reason for no grade", text=error_text(line.error_code, line.error_message))


def _reasons(line: PredictionLine) -> TextBlock | None:
    """Return why the grade is as it is, where no vote says so."""
    is_said = any(score.justification for score in line.evaluator_scores)
    return None if is_said or not line.justification else TextBlock(title="Why", text=line.justification)


def _criteria(asked: Case, line: PredictionLine, attempts: Sequence[AttemptLine]) -> Iterator[CriterionView]:
    """Yield every criterion with its votes; those without a vote are included."""
    known = {criterion.id: criterion for criterion in (() if _is_pair(asked) else asked.criteria)}
    decided = {decision.criterion: decision for decision in line.panel or ()}
    voted: dict[str, list[Score]] = {name: [] for name in known}
    for score in line.evaluator_scores:
        # Graders may vote on criteria that the record does not list; those follow the ones that it lists.
        voted.setdefault(score.criterion, []).append(score)
    for name, votes in voted.items():
        criterion, decision = known.get(name), decided.get(name)
        weight = criterion.weight if criterion else votes[0].weight
        yield CriterionView(
            name=name,
            title="" if criterion is None or criterion.title == name else criterion.title,
            description="" if criterion is None else criterion.description,
            # A weight of 1 on a criterion that came from the grader says nothing; on the record's own criteria it
            # is a setting.
            weight="" if weight == 1 and not known else f"weight {weight:g}",
            # Without a grade the votes decide nothing.
            mark=_vote_mark(_decided(votes[0], decision), weight) if votes and not line.error_code else None,
            words=_decision(decision, votes),
            votes=tuple(_vote(vote, weight, attempts) for vote in votes),
        )


def _decided(vote: Score, decision: PanelDecision | None) -> Score:
    """Return the result of several votes, in the shape of one vote."""
    if decision is None:
        return vote
    # A panel decides on the scale of its votes, so any of them tells the scale.
    low, high = domain(vote.scale)
    return msgspec.structs.replace(vote, score=decision.score, normalized=(decision.score - low) / (high - low))


def _decision(decision: PanelDecision | None, votes: Sequence[Score]) -> str:
    missing = "" if decision is None else ", ".join(decision.missing)
    absent = f"no vote of {missing}" if missing else "" if votes else "No votes."
    return "; ".join(filter(None, ("" if decision is None else decision.words, absent)))


def _vote_mark(vote: Score, weight: float) -> Badge:
    """Return met or not met, or the score; to meet a criterion that costs points is bad."""
    if vote.scale != "0/1":
        return Badge(f"{level_name(vote.score)} on {vote.scale}", "quiet", f"{score_text(vote.normalized)} of 1")
    is_met = vote.score >= 1
    # A criterion with a negative weight describes a fault: to meet it costs points.
    return Badge("met" if is_met else "not met", "good" if is_met == (weight >= 0) else "bad")


def _vote(vote: Score, weight: float, attempts: Sequence[AttemptLine]) -> VoteView:
    flags = [flag.replace("_", " ") for flag in vote.flags]
    reply = _reply(vote, attempts)
    return VoteView(
        judge=vote.judge or "by rule",
        mark=_vote_mark(vote, weight),
        justification=TextBlock(title="", text=vote.justification),
        note=" · ".join([*([] if vote.confidence is None else [f"confidence {vote.confidence:g}"]), *flags]),
        reply=None if reply is None else TextBlock(title="Raw reply", text=reply, is_code=True),
    )


def _reply(vote: Score, attempts: Sequence[AttemptLine]) -> str | None:
    """Return the last reply of the vote's judge, about the criterion if it was asked about each."""
    # A programmatic vote has no judge, and so no reply.
    said = [attempt for attempt in attempts if vote.judge and attempt.stage == "judge" and attempt.model == vote.judge]
    said = [attempt for attempt in said if attempt.response]
    about = f"judge:{vote.criterion}"
    # Call ids are `judge:CRITERION`, then `@JUDGE` in a panel, then `:NUMBER` for further calls
    # (grading/judge_call.py). A judge that was asked about all criteria at once has one reply for all of them.
    named = [attempt for attempt in said if attempt.call_id == about or attempt.call_id.startswith((f"{about}@", f"{about}:"))]
    return next((attempt.response for attempt in reversed(named or said)), None)


def _attempt_view(attempt: AttemptLine) -> AttemptView:
    texts = {"What came back": attempt.response, "Whole body": attempt.raw or None}
    passages = [TextBlock(title=title, text=text, is_code=True) for title, text in texts.items() if text]
    if attempt.applied:
        passages.append(TextBlock(title="Parameters as sent", text=json_text(attempt.applied), is_code=True))
    if attempt.steps:
        passages.append(TextBlock(title="Steps before the answer", text=json_text(attempt.steps), is_code=True))
    return AttemptView(
        number=attempt.attempt,
        stage=stage_word(attempt),
        # The rest of the call id is the criterion; the judge after `@` has a column of its own.
        about=attempt.call_id.removeprefix(stage_word(attempt)).lstrip(":").partition("@")[0],
        model=attempt.model,
        at=moment(attempt.at),
        round=attempt.record_attempt,
        latency=DisplayValue(shown(latency(attempt.latency_ms)), "Duration of the call; none if no model was called."),
        outcome=_outcome(attempt),
        problem=attempt.error_message or "",
        tokens=DisplayValue(_token_text(attempt) or DASH, "Tokens as the provider counts them."),
        cost=cost_value(attempt.cost),
        passages=tuple(passages),
        facts=tuple(_attempt_facts(attempt)),
    )


def _outcome(attempt: AttemptLine) -> Badge:
    status = "" if attempt.http_status is None else f" {attempt.http_status}"
    if attempt.error_code:
        return Badge(f"{attempt.error_code}{status}", "bad", attempt.error_message or "")
    # These three replies cost no call in this run.
    given = next((flag for flag in ("prefilled", "cached", "replayed") if flag in attempt.flags), "")
    return Badge(given or f"answered{status}", "quiet" if given else "good", "No model was called for this." if given else "")


def _attempt_facts(attempt: AttemptLine) -> Iterator[Fact]:
    named = {
        "Call": attempt.call_id,
        "Answered by": attempt.answered_by or "",
        "Ended with": attempt.finish_reason or "",
        "Flags": ", ".join(attempt.flags),
        "Refused parameters": ", ".join(attempt.refused_parameters or ()),
        "Counted": "" if attempt.counted else "no, it was made again",
        "Told to wait": "" if attempt.retry_after is None else f"{attempt.retry_after:g} s",
        "Waited": "" if attempt.wait_s is None else f"{attempt.wait_s:g} s",
        "Request id": attempt.request_id or "",
    }
    yield from (Fact(label, text) for label, text in named.items() if text)
    for label, digest in (("Request SHA-256", attempt.request_sha256), ("Reply SHA-256", attempt.response_sha256)):
        if digest:
            yield Fact(label, digest, is_hash=True)


def label_view(label: api.KeptLabel) -> LabelView:
    """Return what a person said, as it is shown."""
    verdicts = {True: Badge(PASSED, "good"), False: Badge(NOT_PASSED, "bad"), None: None}
    return LabelView(
        rater=label.rater,
        mark=verdicts[label.passed],
        score="" if label.score is None else f"{label.score:g}",
        note=label.note,
        at=moment(label.at),
    )


# A record as text


def record_sections(record: RecordDetails | InvalidRecord, *, is_verbose: bool) -> list[Section]:
    """Return a record in reading order: question, reference, answer, scores, attempts."""
    if isinstance(record, InvalidRecord):
        failure = record.failure
        name = Cell(cut(failure.record_id or f"record {failure.index}", NAME_LIMIT))
        error = TextBlock(title="error", text=error_text(failure.code, failure.message))
        return [Section(heading=(name, result_cell(failure))), Section(texts=(error,))]
    line, scores, attempts = record.prediction, record.prediction.evaluator_scores, record.attempts
    tables = [
        *([_score_table(scores, limit=0 if is_verbose else MAX_TEXT)] if scores else []),
        *([] if record.samples is msgspec.UNSET else [_sample_table(record.samples)]),
        _attempt_table(attempts),
    ]
    texts = [TextBlock(title=title, text=text) for title, text in _texts(record.input, line) if text]
    # An unreadable verdict is explained by nothing but the reply itself, so that is shown without --verbose too.
    replies = attempts if is_verbose or line.error_code == UNREADABLE_VERDICT else ()
    said = [TextBlock(title=f"reply · {one.call_id}", text=one.response) for one in replies if one.response]
    return [
        Section(heading=_heading(line)),
        *([Section(texts=tuple(texts))] if texts else []),
        Section(tables=tuple(tables)),
        *([Section(texts=tuple(said))] if said else []),
    ]


def _heading(line: PredictionLine) -> tuple[Cell, ...]:
    score = [] if line.raw_score is None else [Cell(f"score {score_of(line)} on {line.scale}")]
    return (Cell(cut(sampled_name(line), NAME_LIMIT)), result_cell(line), *score, Cell(cut(line.candidate_name, NAME_LIMIT)))


def _texts(asked: Case, found: PredictionLine) -> Iterator[tuple[str, str]]:
    for message in asked.messages:
        yield f"message · {message.role}", message.content
    # As on pages: `prompt` repeats the last of the messages.
    yield "prompt", "" if asked.messages and asked.messages[-1].content == asked.prompt else asked.prompt
    yield "context", asked.model_context
    for field in question_fields(asked):
        yield field.name, field.text
    yield "choices", "\n".join(f"{choice.id}. {choice.text}" for choice in asked.choices)
    yield "correct", ", ".join(asked.correct_choice_ids)
    yield "rubric", "\n".join(_rubric_line(criterion, is_one=len(asked.criteria) == 1) for criterion in asked.criteria)
    yield "reference", "\n\n".join(asked.references)
    for field in grading_fields(asked):
        yield f"{field.name} · judge only", field.text
    yield "notes", asked.notes
    yield "answer", found.model_response or ""
    yield "chosen", ", ".join(found.selected_choice_ids)
    yield "justification", _further_reasons(found)
    yield "profile score", _profile_score(found)
    yield "cost by judge", _costs(found.judge_costs or {})
    yield "reason", "" if found.error_code else found.label or ""
    yield "error", error_text(found.error_code, found.error_message) if found.error_code else ""
    yield "flags", ", ".join(found.flags)


def _costs(costs: Mapping[str, float | None]) -> str:
    """Return a line for each judge; empty where no price is known."""
    lines = (f"{judge}: {'unknown price' if cost is None else dollars(cost)}" for judge, cost in costs.items())
    return "\n".join(lines) if any(cost is not None for cost in costs.values()) else ""


def _profile_score(found: PredictionLine) -> str:
    """Return the score by the profile; empty without one."""
    if found.profile_score is not None:
        return level_name(found.profile_score)
    return f"none: {found.profile_unscored}" if found.profile_unscored else ""


def _further_reasons(found: PredictionLine) -> str:
    """Return the lines of the justification that the table of scores does not show."""
    shown_lines = {line for score in found.evaluator_scores for line in score.justification.split("\n")} - {""}
    lines = (found.justification or "").split("\n")
    # The record's justification joins those of its votes, each behind the name of its criterion, which is why
    # ends are compared.
    return "\n".join(line for line in lines if not line.endswith(tuple(shown_lines)))


def _rubric_line(criterion: Criterion, *, is_one: bool) -> str:
    """Return `c1: Names the court (weight 3)`; the only criterion needs no name."""
    name = "" if is_one or criterion.id == criterion.title else f"{criterion.id}: "
    weight = f" (weight {criterion.weight:g})" if criterion.weight != 1 else ""
    return f"{name}{criterion.title}{weight}"


def _sample_table(samples: Sequence[SampleResult]) -> Table:
    """Return the answers to a record that was asked several times."""
    columns = (
        Column("sample", is_number=True),
        Column("score", is_number=True),
        Column("result"),
        Column("why", limit=NAME_LIMIT),
    )
    rows = (
        (Cell(f"{sample.sample}"), Cell(score_of(sample)), result_cell(sample), Cell(sample.error_code or "")) for sample in samples
    )
    return Table(columns=columns, rows=tuple(rows))


def _score_table(scores: Sequence[Score], *, limit: int) -> Table:
    """Return what each judge said of each criterion; weights only where they differ from 1."""
    columns = (
        Column("criterion", limit=NAME_LIMIT),
        Column("weight", is_number=True),
        Column("score", is_number=True),
        Column("scale"),
        Column("judge", limit=NAME_LIMIT),
        Column("justification", limit=limit),
    )
    rows = (
        (
            Cell(score.criterion),
            Cell(f"{score.weight:g}"),
            Cell(f"{score.score:g}"),
            Cell(score.scale),
            Cell(score.judge or UNKNOWN),
            Cell(score.justification),
        )
        for score in scores
    )
    found = Table(columns=columns, rows=tuple(rows))
    is_weighted = any(score.weight != 1 for score in scores)
    return found if is_weighted else found.only("criterion", "score", "scale", "judge", "justification")


def _attempt_table(attempts: Sequence[AttemptLine]) -> Table:
    """Return every call that was made for the record."""
    columns = (
        Column("attempt", is_number=True),
        Column("stage"),
        Column("call", limit=NAME_LIMIT),
        Column("model", limit=NAME_LIMIT),
        *(Column(title, is_number=True) for title in ("latency", "tokens", "cost")),
        Column("what came back", limit=NAME_LIMIT * 2),
    )
    return Table(columns=columns, rows=tuple(map(_attempt_row, attempts)))


def _attempt_row(attempt: AttemptLine) -> tuple[Cell, ...]:
    tokens, cost = attempt.total_tokens, attempt.cost
    texts = (
        f"{attempt.attempt}",
        f"{stage_word(attempt)}, round {attempt.record_attempt}",
        attempt.call_id,
        attempt.model,
        latency(attempt.latency_ms),
        UNKNOWN if tokens is None else f"{tokens:,}",
        UNKNOWN if cost is None else dollars(cost),
    )
    return (*map(Cell, texts), _came_back(attempt))


def _came_back(attempt: AttemptLine) -> Cell:
    if not attempt.error_code:
        return Cell(attempt.finish_reason or "answered")
    status = f" (HTTP {attempt.http_status})" if attempt.http_status else ""
    waited = f"; waited {attempt.wait_s:.1f} s" if attempt.wait_s else ""
    return Cell(f"{attempt.error_code}{status}: {attempt.error_message or ''}{waited}", tone="bad")
