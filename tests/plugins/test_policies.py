"""Policies of one's own: what the candidate is asked, and perhaps how its answer is graded."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import assay
from assay import api
from assay.engine.planning.request import PlanProblems
from tests.engine.run_settings import mcq_row, write_rows
from tests.plugins.datasets import attempts, predictions, question, run_words
from tests.plugins.functions import is_reference, last_word


def shout(record: assay.Case) -> str:
    """Asks in capitals."""
    return record.prompt.upper()


class Formal:
    """Asks with a system prompt, and grades what comes back."""

    name, version = "formal", "3"

    def ask(self, record: assay.Case) -> list[dict[str, str]]:
        return [{"role": "system", "content": "Be formal."}, {"role": "user", "content": record.prompt}]

    def grade(self, _record: assay.Case, answer: str) -> bool:
        return answer.startswith("Be formal.")


class Judged(Formal):
    """Grades by asking a judge."""

    def grade(self, _record: assay.Case, answer: str) -> Iterator[Any]:
        said = yield f"Is {answer!r} formal?"
        return said == "yes"


def transcript(messages: list[dict[str, str]]) -> str:
    return " | ".join(message["content"] for message in messages)


def test_a_function_says_what_the_candidate_is_asked(tmp_path: Path) -> None:
    result = run_words(tmp_path, 1, model=transcript, policy=shout, grader=lambda _, answer: answer == "SAY WORD0")
    (line,) = predictions(result)
    assert (line["passed"], line["policy_id"]) == (True, "tests.plugins.test_policies:shout")


def test_an_object_asks_and_grades(tmp_path: Path) -> None:
    result = run_words(tmp_path, 1, model=transcript, policy=Formal())
    (line,) = predictions(result)
    assert (line["model_response"], line["passed"], line["policy_id"]) == ("Be formal. | Say word0", True, "formal")
    assert line["evaluator"] == "formal/3"


def test_a_class_is_made_an_instance_of_and_may_ask_a_judge(tmp_path: Path) -> None:
    result = run_words(tmp_path, 1, model=transcript, judge=lambda _: "yes", policy=Judged)
    assert [(attempt["stage"], attempt["call_id"]) for attempt in attempts(result)] == [
        ("candidate", "candidate"),
        ("judge", "judge:grader:1"),
    ]
    assert result.metrics["pass_rate"] == 1


def test_judges_and_choices_grade_as_usual_under_a_policy_that_only_asks(tmp_path: Path) -> None:
    judged = run_words(tmp_path, 1, model=transcript, judge="scripted/judge-5", policy=shout)
    (graded,) = api.run(
        write_rows(tmp_path / "mcq.jsonl", mcq_row("q:1")), model=lambda _: "A", policy=shout, runs_dir=str(tmp_path / "runs")
    )
    assert [predictions(run)[0]["evaluator"] for run in (judged, graded)] == ["judge_reference/1", "mcq_exact/1"]
    assert [predictions(run)[0]["template"] for run in (judged, graded)] == ["judge_reference/1", None]
    assert graded.metrics["pass_rate"] == 1


NO_MESSAGES = {
    "none": (lambda _: None, "other than messages"),
    "empty": (lambda _: [], "no messages"),
    "unknown role": (lambda _: [{"role": "referee", "content": "x"}], "referee"),
    "number": (lambda _: 7, "got `int`"),
    "raises": (lambda record: record.nothing, "AttributeError"),
}


@pytest.mark.parametrize(("policy", "why"), NO_MESSAGES.values(), ids=NO_MESSAGES)
def test_a_policy_without_messages_fails_the_record_before_any_call(tmp_path: Path, policy: Any, why: str) -> None:
    result = run_words(tmp_path, 1, model=last_word, policy=policy, grader=is_reference)
    (line,) = predictions(result)
    assert (line["error_code"], line["score"], attempts(result)) == ("policy_error", None, [])
    assert why in line["error_message"]


def test_attachments_reach_a_policy_that_takes_them_and_are_missed_by_one_that_does_not(tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_text("the note", encoding="utf-8")
    dataset = write_rows(tmp_path / "with.jsonl", question(0, attachments=[{"path": "note.txt"}]))
    policies = (lambda record, attachments: attachments[record.attachments[0].path], shout)
    lines = [
        predictions(api.run(dataset, model=transcript, policy=policy, grader=lambda *_: True, runs_dir=str(tmp_path / "runs"))[0])[
            0
        ]
        for policy in policies
    ]
    assert lines[0]["model_response"] == "the note"
    assert lines[1]["error_code"] == "policy_error"


def test_a_policy_that_grades_and_a_grader_are_one_too_many(tmp_path: Path) -> None:
    with pytest.raises(PlanProblems, match="grades by itself"):
        run_words(tmp_path, model=transcript, policy=Formal(), grader=is_reference)


def test_a_system_prompt_beside_a_policy_is_said_not_to_be_sent(tmp_path: Path) -> None:
    run_file = tmp_path / "run.yaml"
    run_file.write_text("run: {system_prompt: Be nice.}\n", encoding="utf-8")
    dataset = str(write_rows(tmp_path / "one.jsonl", question(0)))
    request = api.RunRequest(
        run_file=str(run_file), datasets=(dataset,), models=(transcript,), policy=shout, judges=("scripted/judge-5",)
    )
    planned = api.plan_runs(request)
    assert any("system prompt is not sent" in note for note in planned.notes)


def test_an_estimate_counts_what_the_policy_asks(tmp_path: Path) -> None:
    dataset = str(write_rows(tmp_path / "one.jsonl", question(0)))
    options = {"datasets": (dataset,), "models": ("scripted/echo",), "judges": ("scripted/judge-5",)}
    long, short = (
        api.estimate_cost(api.plan_runs(api.RunRequest(**options, policy=policy)))
        for policy in (lambda record: record.prompt * 100, shout)
    )
    assert long.models[0].input_tokens > short.models[0].input_tokens


def test_what_is_no_policy_is_refused(tmp_path: Path) -> None:
    with pytest.raises(assay.UsageProblem, match="a policy is a function, or an object with a method 'ask'"):
        run_words(tmp_path, model=transcript, policy=7)
