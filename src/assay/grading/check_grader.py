"""Grades by checks: alone where no judge decides, and else in addition to another grading method."""

from collections.abc import Sequence

import msgspec

from assay.core.case import Case
from assay.core.checks import RECORD_CHECKS, Check, CheckResult, ToolCalledCheck
from assay.core.model_call import MeasuredReply, Reply
from assay.core.outcome import Flow, Grade, GradingFailure, Score
from assay.grading.assignment import GradingAssignment, GradingMethod, GradingSettings
from assay.grading.candidate import candidate_ask
from assay.grading.checks import checks_for, comparable, decide, label_of, run_checks, summary_of
from assay.grading.driven_flow import DrivenFlow
from assay.grading.judge_call import ReplySpec

EVALUATOR = "checks/1"
NOTHING_TO_COMPARE = "nothing_to_compare"
"""Failure code of a record that only checks grade, and whose checks have nothing to compare its answer with."""
UNDECIDED = "checks_undecided"
"""Failure code of a record whose checks are about what is not known of its answer."""


def grade_by_checks(assignment: GradingAssignment) -> Flow:
    """Ask the candidate and check its answer; raises GradingFailure when no check says anything about it."""
    case = assignment.case
    checks = all_checks(case, assignment.settings)
    # Before the candidate is asked: an answer that cannot get a score would be paid for in vain.
    if not any(comparable(check, case.references) and check.weight for check in checks):
        names = ", ".join(f"'{check.title}'" for check in checks)
        raise GradingFailure(
            NOTHING_TO_COMPARE, f"the record has no reference to compare an answer with, as its checks need ({names})"
        )
    request = candidate_ask(assignment)
    # A call of a tool is an answer where that is what is checked.
    wants_calls = any(isinstance(check, ToolCalledCheck) for check in checks)
    (reply,) = yield (msgspec.structs.replace(request, takes_tool_calls=True) if wants_calls else request,)
    results = run_checks(checks, reply, case.references)
    return assignment.sign(check_grade(assignment, checks, reply=reply, results=results))


def check_grade(assignment: GradingAssignment, checks: Sequence[Check], *, reply: Reply, results: tuple[CheckResult, ...]) -> Grade:
    """Return the grade that checks alone give; raises GradingFailure when nothing is known that they are about."""
    decision = decide(checks, results, assignment.settings.pass_rule)
    if decision is None:
        reasons = "; ".join(f"{result.name}: {result.reason}" for result in results)
        raise GradingFailure(UNDECIDED, f"no check can be decided: {reasons}")
    weights = {check.title: check.weight for check in checks}
    return Grade(
        score=decision.share,
        passed=decision.passed,
        answer=reply.text,
        raw_score=decision.share,
        scale="0-1",
        scores=tuple(
            Score(
                criterion=result.name,
                score=result.score,
                scale="0-1" if result.type == "similarity" else "0/1",
                normalized=result.score,
                weight=weights[result.name],
                justification=result.reason,
            )
            for result in results
            if result.score is not None
        ),
        justification=summary_of(results),
        label="" if decision.passed else label_of(checks, results) or "incorrect_answer",
        checks=results,
    )


def with_checks(assignment: GradingAssignment, flow: Flow) -> Flow:
    """Grade by another method, and check the answer too: it passes only if both say so; the score is that of the method."""
    case = assignment.case
    checks = all_checks(case, assignment.settings)
    driven = DrivenFlow(flow, takes_failed_replies=assignment.settings.grader is None)
    request = driven.begin()
    if request is None:
        assert driven.failure is not None, "a flow without a request has failed"
        raise driven.failure
    (answer,) = yield (request,)
    driven.send((answer,))
    while driven.requests:
        replies = yield driven.requests
        # Every method asks the candidate for one reply at a time; a candidate that calls tools is asked again.
        if driven.asks_candidate:
            answer = joined(answer, replies[0])
        driven.send(replies)
    results = run_checks(checks, answer, case.references)
    if driven.failure is not None:
        # What the checks say of the answer is known, whatever became of its judge.
        driven.failure.checks = results
        raise driven.failure
    assert driven.grade is not None, "a flow ends with a grade or a failure"
    return add_checks(driven.grade, assignment, checks=checks, results=results)


def joined(earlier: Reply, reply: Reply) -> Reply:
    """Return a reply with the tool calls, the time and the cost of the earlier steps that led to it."""
    members: dict[str, object] = {"tool_calls": (*earlier.tool_calls, *reply.tool_calls)}
    if isinstance(earlier, MeasuredReply) and isinstance(reply, MeasuredReply):
        members |= {"latency_ms": _sum(earlier.latency_ms, reply.latency_ms), "cost": _sum(earlier.cost, reply.cost)}
    return msgspec.structs.replace(reply, **members)


def _sum(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one + other


def add_checks(grade: Grade, assignment: GradingAssignment, *, checks: Sequence[Check], results: tuple[CheckResult, ...]) -> Grade:
    """Return a grade with the results of checks, which an answer must pass too."""
    decision = decide(checks, results, assignment.settings.pass_rule)
    grade = msgspec.structs.replace(grade, checks=results)
    if decision is None or decision.passed or not grade.passed:
        return grade
    # The score is that of the method; why the answer did not pass nonetheless has to be said.
    justification = "\n".join(filter(None, (summary_of(results), grade.justification)))
    return msgspec.structs.replace(grade, passed=False, label=label_of(checks, results), justification=justification)


def has_checks(case: Case, settings: GradingSettings) -> bool:
    """Return whether an answer to the case is checked."""
    own = case.metadata.get(RECORD_CHECKS) if settings.takes_record_checks else None
    return case.task != "pairwise" and bool(settings.checks or own)


def all_checks(case: Case, settings: GradingSettings) -> tuple[Check, ...]:
    """Return the checks of a case: those of the run, and its own."""
    return checks_for(case, settings.checks) if settings.takes_record_checks else settings.checks


def _no_topics(*_: object) -> tuple[ReplySpec, ...]:
    return ()


METHOD = GradingMethod(
    about="graded by checks",
    flow=grade_by_checks,
    names=lambda _: (EVALUATOR, ""),
    evaluators=(EVALUATOR,),
    needs_judge=False,
    scale="0-1",
    topics=_no_topics,
)
