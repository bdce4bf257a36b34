"""Several graders of one answer: the candidate is asked once, their judges side by side, and one of them decides."""

from collections.abc import Callable, Sequence

import msgspec

from assay.core.case import Case
from assay.core.graders import GraderPlan
from assay.core.outcome import Flow, Grade, GraderResult
from assay.grading.assignment import GradingSettings
from assay.grading.driven_flow import DrivenFlow
from assay.grading.judge_call import escape_call_id
from assay.grading.judge_prompt import NOT_ASSESSED_CODE

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
    flows: list[DrivenFlow] = []
    for grader in settings.graders:
        name = "" if grader.is_primary else escape_call_id(grader.name)
        own = start(case, settings_for(grader, settings))
        flows.append(DrivenFlow(own, name=name, takes_failed_replies=grader.kind != "plugin"))
    first = [flow.begin() for flow in flows]
    primary = next(flow for grader, flow in zip(settings.graders, flows, strict=True) if grader.is_primary)
    asked = [request for request in first if request is not None]
    if primary.failure is not None:
        # Before the candidate is asked: an answer that cannot get a grade would be paid for in vain.
        raise primary.failure
    wants_calls = any(request.takes_tool_calls for request in asked)
    request = msgspec.structs.replace(asked[0], takes_tool_calls=True) if wants_calls else asked[0]
    replies = yield (request,)
    for flow in flows:
        if flow.failure is None:
            flow.send(replies)
    while pending := [flow for flow in flows if flow.requests]:
        replies = yield tuple(request for flow in pending for request in flow.requests)
        start_at = 0
        for flow in pending:
            end = start_at + len(flow.requests)
            flow.send(replies[start_at:end])
            start_at = end
    return _decided(settings.graders, flows, primary)


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
