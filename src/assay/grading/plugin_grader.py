"""Custom graders: functions that return a grade, or generators that ask judges first."""

from collections.abc import Generator
from typing import Any

import msgspec

from assay.core.case import Message
from assay.core.errors import ThirdPartyCode, ThirdPartyError
from assay.core.model_call import GraderRequest, ModelRequest, Reply
from assay.core.outcome import GRADER_ERROR, Flow, Grade, GraderResult, GradingFailure, Judgement, Score, judgement_of
from assay.grading.answer_text import suspicion_flags
from assay.grading.assignment import MCQ_ANSWER, GradingAssignment, GradingMethod
from assay.grading.candidate import candidate_ask

CALL_ID = "grader"
GraderFlow = Generator[tuple[ModelRequest, ...], tuple[Reply, ...], Judgement]

_decode = msgspec.json.Decoder(Judgement).decode


def grade_by_plugin(assignment: GradingAssignment) -> Flow:
    """Ask the candidate, then the run's custom grader."""
    (reply,) = yield (candidate_ask(assignment),)
    grader = assignment.settings.grader
    is_driven = grader is not None and grader.asks_judges
    judgement = yield from (_driven if is_driven else _called)(assignment, reply.text)
    return _grade(assignment, reply.text, judgement=judgement)


def _called(assignment: GradingAssignment, answer: str) -> GraderFlow:
    """Call the grader like a judge, so that a slow one does not block the event loop and its result is logged."""
    case, grader = assignment.case, assignment.settings.grader
    assert grader is not None
    # The messages only identify the call in the log; the grader receives case and answer themselves.
    messages = (Message("user", case.record_sha256), Message("assistant", answer))
    ask = GraderRequest(stage="judge", call_id=CALL_ID, model=f"grader/{grader.name}", messages=messages, case=case, answer=answer)
    (reply,) = yield (ask,)
    return _decode(reply.text)


def _driven(assignment: GradingAssignment, answer: str) -> GraderFlow:
    """Drive a generator grader: send what it yields to judges, and take what it returns as its judgement."""
    sent: Any = None
    asked_count = 0
    try:
        # StopIteration carries the grader's result, so it passes through.
        with ThirdPartyCode(StopIteration):
            # Calling a generator function runs none of its code; what it does begins with the first send.
            flow = assignment.settings.grader_code(assignment.case, answer)
        while True:
            with ThirdPartyCode(StopIteration):
                yielded = flow.send(sent)
            questions = tuple(yielded) if isinstance(yielded, tuple | list) else (yielded,)
            asks = tuple(_ask(question, assignment, number=asked_count + offset) for offset, question in enumerate(questions, 1))
            asked_count += len(asks)
            replies = yield asks
            answers = tuple(_answer_to(question, reply) for question, reply in zip(questions, replies, strict=True))
            # A grader gets what it gave: one reply for one question, a tuple for several.
            sent = answers if isinstance(yielded, tuple | list) else answers[0]
    except StopIteration as end:
        return judgement_of(end.value)
    except ThirdPartyError as failure:
        raise GradingFailure(GRADER_ERROR, f"the grader raised {failure}") from failure.problem


def _ask(question: object, assignment: GradingAssignment, *, number: int) -> ModelRequest:
    """Turn a grader's question into a request to a judge; calls are numbered, so that a resumed run finds their replies."""
    judges, call_id = assignment.settings.judges, f"judge:{CALL_ID}:{number}"
    if not judges:
        raise GradingFailure("judge_missing", "the grader asks a judge and the run has none")
    if isinstance(question, str):
        return ModelRequest(stage="judge", call_id=call_id, model=judges[0], messages=(Message("user", question),))
    if isinstance(question, ModelRequest) and question.model in judges:
        # Stage and id are ours: they are the address of the reply in the ledger, and decide which limits apply.
        return msgspec.structs.replace(question, stage="judge", call_id=call_id, may_fail=False)
    what = f"the model '{question.model}'" if isinstance(question, ModelRequest) else type(question).__name__
    raise GradingFailure(GRADER_ERROR, f"the grader asks {what}; it may yield a text, or an Ask to one of: {', '.join(judges)}")


def _answer_to(question: object, reply: Reply) -> str | Reply:
    return reply.text if isinstance(question, str) else reply


def _grade(assignment: GradingAssignment, answer: str, *, judgement: Judgement) -> Grade:
    score = judgement.score
    passed = score >= assignment.settings.pass_threshold if judgement.passed is None else judgement.passed
    scores = judgement.scores or {CALL_ID: score}
    grade = Grade(
        score=score,
        passed=passed,
        answer=answer,
        raw_score=score,
        scale=judgement.scale,
        scores=tuple(Score(criterion=name, score=value, scale=judgement.scale, normalized=value) for name, value in scores.items()),
        justification=judgement.justification,
        # failures.jsonl needs a label for every answer that did not pass; graders rarely give one.
        label="" if passed else judgement.label or "incorrect_answer",
        flags=(*judgement.flags, *suspicion_flags(answer)),
    )
    signed = assignment.sign(grade)
    # Further scores are metrics of the grader; of several graders the results are collected where they are driven.
    return msgspec.structs.replace(signed, graders=(_result(assignment, signed),)) if judgement.scores else signed


def _result(assignment: GradingAssignment, grade: Grade) -> GraderResult:
    grader = assignment.settings.grader
    assert grader is not None
    return GraderResult(
        name=grader.name.rpartition(":")[2],
        kind="plugin",
        is_primary=True,
        status="graded",
        passed=grade.passed,
        score=grade.score,
        raw_score=grade.raw_score,
        scale=grade.scale,
        scores=grade.scores,
        justification=grade.justification,
        label=grade.label,
        evaluator=grade.evaluator,
    )


def _names(assignment: GradingAssignment) -> tuple[str, str]:
    """Name the grader with the version of its distribution, or else the beginning of its source's hash."""
    grader = assignment.settings.grader
    assert grader is not None
    # Two versions of a grader are two evaluators: their scores must not be compared as if they were one.
    version = grader.version or grader.source_sha256[:12]
    return f"{grader.name}/{version}" if version else grader.name, MCQ_ANSWER if assignment.case.task == "mcq" else ""


METHOD = GradingMethod(
    about="graded by the run's own grader",
    flow=grade_by_plugin,
    names=_names,
    evaluators=(),
    needs_judge=False,
    scale="0-1",
    topics=lambda *_: (),
)
"""The plugin declares whether it needs a judge (`asks_judges`); only the plugin can read the replies, so there are no topics."""
