"""Several graders of one answer: the candidate is asked once, their judges side by side, and one of them decides."""

from collections.abc import Callable, Generator, Sequence

import msgspec

from assay.core.case import Case
from assay.core.graders import GraderPlan
from assay.core.model_call import ModelRequest, Reply
from assay.core.outcome import Flow, Grade, GraderResult
from assay.grading.assignment import GradingSettings
from assay.grading.check_grader import joined
from assay.grading.driven_flow import DrivenFlow
from assay.grading.judge_call import escape_call_id
from assay.grading.judge_prompt import NOT_ASSESSED_CODE
from assay.grading.methods import kind_in_run

_FOLLOWING = ("turn", "tool_call", "judged_tool_call")
"""Methods that ask the candidate again after its tool calls."""
StartFlow = Callable[[Case, GradingSettings], Flow]


def settings_for(grader: GraderPlan, settings: GradingSettings) -> GradingSettings:
    """Return the settings with which one of several graders grades."""
    first_checks = next((one.name for one in settings.graders if one.kind == "checks"), "")
    return msgspec.structs.replace(
        settings,
        graders=(),
        judges=(grader.judge,) if grader.judge else (),
        checks=grader.checks,
        pass_rule=grader.pass_rule,
        # Checks of records belong to the first grader that has checks.
        takes_record_checks=grader.name == first_checks,
        grader=settings.grader_plugins.get(grader.plugin) if grader.kind == "plugin" else None,
        grader_code=settings.graders_code.get(grader.plugin) if grader.kind == "plugin" else None,
        grader_name=grader.name,
        method="checks" if grader.kind == "checks" else "prompt" if grader.prompt else None,
        prompt=grader.prompt,
        scale=grader.scale,
        at_least=grader.at_least,
    )


def primary_of(settings: GradingSettings) -> GraderPlan:
    """Return the grader that decides."""
    return next(grader for grader in settings.graders if grader.is_primary)


def grade_by_all(case: Case, settings: GradingSettings, *, start: StartFlow) -> Flow:
    """Ask the candidate, then everything that the graders want to know, and return the grade of the primary one.

    Raises the failure of the primary grader, with the results of the others; theirs are results without a score.
    """
    following = _following(case, settings)
    flows: list[DrivenFlow] = []
    for number, grader in enumerate(settings.graders):
        own = settings_for(grader, settings)
        if following and number in following[1:]:
            # One grader follows the candidate; for the others its answer, with all of its calls, is given.
            own = msgspec.structs.replace(own, has_answers=True)
        name = "" if grader.is_primary else escape_call_id(grader.name)
        flows.append(DrivenFlow(start(case, own), name=name, takes_failed_replies=grader.kind != "plugin"))
    first = [flow.begin() for flow in flows]
    primary = next(flow for grader, flow in zip(settings.graders, flows, strict=True) if grader.is_primary)
    if primary.failure is not None:
        # Before the candidate is asked: an answer that cannot get a grade would be paid for in vain.
        raise primary.failure
    follower = flows[following[0]] if following else None
    request = first[flows.index(follower or primary)]
    assert request is not None, "a flow without a failure has a request"
    wants_calls = any(one.takes_tool_calls for one in first if one is not None)
    (answer,) = yield (msgspec.structs.replace(request, takes_tool_calls=True) if wants_calls else request,)
    if follower is not None:
        answer = yield from _follow(follower, answer)
    for flow in flows:
        if flow.failure is None and flow is not follower:
            flow.send((answer,))
    while pending := [flow for flow in flows if flow.requests]:
        replies = yield tuple(request for flow in pending for request in flow.requests)
        start_at = 0
        for flow in pending:
            end = start_at + len(flow.requests)
            flow.send(replies[start_at:end])
            start_at = end
    return _decided(settings.graders, flows, primary)


def _following(case: Case, settings: GradingSettings) -> list[int]:
    """List the graders that follow the candidate from tool call to tool call, the primary one first."""
    numbers = sorted(range(len(settings.graders)), key=lambda number: not settings.graders[number].is_primary)
    return [number for number in numbers if kind_in_run(case, settings_for(settings.graders[number], settings)) in _FOLLOWING]


def _follow(follower: DrivenFlow, answer: Reply) -> Generator[tuple[ModelRequest, ...], tuple[Reply, ...], Reply]:
    """Drive a grader to its end, with the steps of the candidate that it asks for, and return what the candidate did in all."""
    follower.send((answer,))
    while follower.requests:
        replies = yield follower.requests
        if follower.asks_candidate:
            answer = joined(answer, replies[0])
        follower.send(replies)
    return answer


def _decided(graders: Sequence[GraderPlan], flows: Sequence[DrivenFlow], primary: DrivenFlow) -> Grade:
    results = tuple(_result(grader, flow) for grader, flow in zip(graders, flows, strict=True))
    checks = tuple(check for flow in flows if flow.grade is not None for check in flow.grade.checks)
    if primary.failure is not None:
        primary.failure.checks, primary.failure.graders = checks, results
        raise primary.failure
    assert primary.grade is not None, "a flow ends with a grade or a failure"
    return msgspec.structs.replace(primary.grade, checks=checks, graders=results)


def _result(grader: GraderPlan, flow: DrivenFlow) -> GraderResult:
    grade, failure = flow.grade, flow.failure
    if grade is None:
        assert failure is not None, "a flow ends with a grade or a failure"
        return GraderResult(
            name=grader.name,
            kind=grader.kind,
            is_primary=grader.is_primary,
            status="not_assessed" if failure.code == NOT_ASSESSED_CODE else "error",
            scores=failure.scores,
            error_code=failure.code,
            error_message=failure.message,
        )
    return GraderResult(
        name=grader.name,
        kind=grader.kind,
        is_primary=grader.is_primary,
        status="graded",
        passed=grade.passed,
        score=grade.score,
        raw_score=grade.raw_score,
        scale=grade.scale,
        # Scores of a plugin besides the one that is its grade.
        scores=grade.scores if grader.kind != "plugin" or grade.graders else (),
        justification=grade.justification,
        label=grade.label,
        evaluator=grade.evaluator,
        template=grade.template,
        template_sha256=grade.template_sha256,
    )
