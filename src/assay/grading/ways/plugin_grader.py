"""Graders of one's own: a function that is called for a grade, or a generator that asks judges on its way to one."""

from collections.abc import Generator
from typing import Any

import msgspec

from assay.core.ask import Ask, GraderAsk, Reply
from assay.core.case import Message
from assay.core.foreign import ForeignCode, ForeignFailure
from assay.core.judgement import GRADER_ERROR, Judgement, judgement_of
from assay.core.outcome import Flow, Grade, GradingFailure, Score
from assay.grading.assignment import MCQ_ANSWER, Assignment, Way
from assay.grading.candidate import candidate_ask
from assay.grading.suspicion import suspicion_flags

CALL_ID = "grader"
Judging = Generator[tuple[Ask, ...], tuple[Reply, ...], Judgement]

_decode = msgspec.json.Decoder(Judgement).decode


def grade_by_plugin(assignment: Assignment) -> Flow:
    """Asks the candidate, then the run's own grader."""
    (reply,) = yield (candidate_ask(assignment),)
    grader = assignment.settings.grader
    is_driven = grader is not None and grader.asks_judges
    judgement = yield from (_driven if is_driven else _called)(assignment, reply.text)
    return _grade(assignment, reply.text, judgement=judgement)


def _called(assignment: Assignment, answer: str) -> Judging:
    """The grader is asked like a judge, so that a slow one blocks nobody and what it said is on record."""
    case, grader = assignment.case, assignment.settings.grader
    assert grader is not None
    messages = (Message("user", case.record_sha256), Message("assistant", answer))
    ask = GraderAsk(stage="judge", call_id=CALL_ID, model=f"grader/{grader.name}", messages=messages, case=case, answer=answer)
    (reply,) = yield (ask,)
    return _decode(reply.text)


def _driven(assignment: Assignment, answer: str) -> Judging:
    """The grader is a generator: what it yields is asked, and what it returns is its judgement."""
    said: Any = None
    asked = 0
    try:
        with ForeignCode(StopIteration):
            flow = assignment.settings.grader_code(assignment.case, answer)
        while True:
            with ForeignCode(StopIteration):
                wanted = flow.send(said)
            questions = tuple(wanted) if isinstance(wanted, tuple | list) else (wanted,)
            asks = tuple(_ask(question, assignment, number=asked + place) for place, question in enumerate(questions, 1))
            asked += len(asks)
            replies = yield asks
            heard = tuple(_heard(question, reply) for question, reply in zip(questions, replies, strict=True))
            said = heard if isinstance(wanted, tuple | list) else heard[0]
    except StopIteration as end:
        return judgement_of(end.value)
    except ForeignFailure as failure:
        raise GradingFailure(GRADER_ERROR, f"the grader raised {failure}") from failure.problem


def _ask(question: Any, assignment: Assignment, *, number: int) -> Ask:
    """A question of the grader's as an ask to a judge; the calls are numbered, so that a run that goes on finds their replies."""
    judges, call_id = assignment.settings.judges, f"judge:{CALL_ID}:{number}"
    if not judges:
        raise GradingFailure("judge_missing", "the grader asks a judge and the run has none")
    if isinstance(question, str):
        return Ask(stage="judge", call_id=call_id, model=judges[0], messages=(Message("user", question),))
    if isinstance(question, Ask) and question.model in judges:
        return msgspec.structs.replace(question, stage="judge", call_id=call_id, may_fail=False)
    what = f"the model '{question.model}'" if isinstance(question, Ask) else type(question).__name__
    raise GradingFailure(GRADER_ERROR, f"the grader asks {what}; it may yield a text, or an Ask to one of: {', '.join(judges)}")


def _heard(question: Any, reply: Reply) -> Any:
    return reply.text if isinstance(question, str) else reply


def _grade(assignment: Assignment, answer: str, *, judgement: Judgement) -> Grade:
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
        label="" if passed else judgement.label or "incorrect_answer",
        flags=(*judgement.flags, *suspicion_flags(answer)),
    )
    return assignment.signed(grade)


def _names(assignment: Assignment) -> tuple[str, str]:
    """A grader of one's own has the version of its distribution, or else the beginning of its source's hash."""
    grader = assignment.settings.grader
    assert grader is not None
    version = grader.version or grader.source_sha256[:12]
    return f"{grader.name}/{version}" if version else grader.name, MCQ_ANSWER if assignment.case.task == "mcq" else ""


WAY = Way(
    about="graded by the run's own grader",
    flow=grade_by_plugin,
    names=_names,
    evaluators=(),
    needs_judge=False,
    scale="0-1",
    topics=lambda *_: (),
)
"""Whether it needs a judge, the grader itself says (`asks_judges`); what it makes of replies, nobody else can read."""
