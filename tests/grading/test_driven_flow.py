from collections.abc import Generator
from typing import Any

from assay.core.case import Message
from assay.core.model_call import FailedReply, ModelRequest, Reply
from assay.core.outcome import Grade, GradingFailure
from assay.grading.driven_flow import DrivenFlow

LOST = FailedReply(text="", code="timeout", message="no whole answer within 60 s", attempts=3)


def request(call_id: str, stage: Any = "judge") -> ModelRequest:
    return ModelRequest(stage=stage, call_id=call_id, model="J", messages=(Message("user", "?"),))


def flow(*call_ids: str) -> Generator[tuple[ModelRequest, ...], tuple[Reply, ...], Grade]:
    yield (request("candidate", "candidate"),)
    replies = yield tuple(request(call_id) for call_id in call_ids)
    if any(isinstance(reply, FailedReply) for reply in replies):
        raise GradingFailure("judge_lost", "no vote")
    return Grade(score=1.0, passed=True, answer="", raw_score=1.0, scale="0-1")


def begun(driven: DrivenFlow) -> DrivenFlow:
    assert driven.begin() is not None
    driven.send((Reply(text="4"),))
    return driven


def test_calls_of_the_primary_grader_keep_their_names() -> None:
    driven = begun(DrivenFlow(flow("judge:overall", "grader")))
    assert [one.call_id for one in driven.requests] == ["judge:overall", "grader"]


def test_calls_of_other_graders_have_the_names_of_these() -> None:
    driven = begun(DrivenFlow(flow("judge:overall", "grader"), name="house"))
    assert [one.call_id for one in driven.requests] == ["judge:house:overall", "grader:house"]


def test_no_call_of_a_grader_may_end_the_record() -> None:
    assert all(one.may_fail for one in begun(DrivenFlow(flow("judge:overall"))).requests)


def test_a_grade_ends_the_flow() -> None:
    driven = begun(DrivenFlow(flow("judge:overall")))
    driven.send((Reply(text="x"),))
    assert (driven.requests, driven.failure) == ((), None)
    assert driven.grade is not None


def test_a_failure_is_kept() -> None:
    driven = begun(DrivenFlow(flow("judge:overall")))
    driven.send((LOST,))
    assert driven.grade is None
    assert driven.failure is not None
    assert driven.failure.code == "judge_lost"


def test_a_custom_grader_is_not_given_failed_replies() -> None:
    called, driven = (begun(DrivenFlow(flow(name), takes_failed_replies=False)) for name in ("grader", "judge:grader:1"))
    for one in (called, driven):
        one.send((LOST,))
        assert one.failure is not None
    assert (called.failure and called.failure.message) == "no whole answer within 60 s"
    assert (driven.failure and driven.failure.message) == "judge J: timeout after 3 attempts: no whole answer within 60 s"


def test_a_grader_that_fails_before_the_candidate_is_asked_has_no_request() -> None:
    def failing() -> Generator[tuple[ModelRequest, ...], tuple[Reply, ...], Grade]:
        raise GradingFailure("rubric_without_points", "no points")
        yield ()

    driven = DrivenFlow(failing())
    assert driven.begin() is None
    assert driven.failure is not None
