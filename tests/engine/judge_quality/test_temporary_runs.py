import time
from pathlib import Path

from assay.core.model_call import Reply
from assay.core.outcome import GradedOutcome
from assay.engine.execution.run_context import RunEnvironment
from assay.engine.judge_quality.temporary_runs import evaluate_cases
from assay.engine.planning.request import RunRequest
from tests.engine.graded_files import run_file
from tests.engine.run_settings import planned
from tests.grading.driving import reference_case


def test_cases_are_evaluated_as_in_a_run_and_nothing_is_kept(tmp_path: Path) -> None:
    (plan,) = planned(RunRequest(run_file=str(run_file(tmp_path)))).plans
    given = RunEnvironment(environ={}, clock=time.time, answers=lambda _id, _sample: Reply(text="Four.", flags=("prefilled",)))
    cases = [reference_case(id=name) for name in ("a", "b")]
    first, second = evaluate_cases(plan, cases, given)
    assert isinstance(first.outcome, GradedOutcome)
    assert [one.name for one in first.outcome.grade.graders] == ["form", "polite", "house"]
    assert [attempt.stage for attempt in second.attempts] == ["candidate", "judge", "judge"]
    assert not (tmp_path / "runs").exists()
