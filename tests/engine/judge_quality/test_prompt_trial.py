import json
import time
from pathlib import Path
from typing import Any

import pytest

from assay.core.errors import RunNotFound, UsageProblem
from assay.core.graders import CategoryScale
from assay.engine.judge_quality.prompt_trial import PromptTrial, PromptTrialRequest, try_prompt
from assay.engine.planning.request import PlanProblems
from tests.engine.graded_files import PROMPT, graded, run_file

PASSING = 'scripted/say-{"verdict": "pass", "reason": "polite"}'


def tried(folder: Path, record: str = "a", **options: Any) -> PromptTrial:
    prompt = folder / "own.txt"
    if not prompt.exists():
        prompt.write_text(PROMPT, encoding="utf-8")
    given = {"prompt": str(prompt), "record": record, "runs_dir": str(folder / "runs"), **options}
    return try_prompt(PromptTrialRequest(**given), environ={}, clock=time.time)


def record_file(folder: Path, **members: Any) -> str:
    path = folder / "record.json"
    path.write_text(json.dumps({"question": "Where?", **members}), encoding="utf-8")
    return str(path)


def test_a_record_of_a_run_is_judged_with_its_answer(tmp_path: Path) -> None:
    run = graded(tmp_path)
    trial = tried(tmp_path, "b", run=run.run_id, judge=PASSING)
    assert (trial.answer, trial.status, trial.passed, trial.raw_score, trial.reason) == ("Lyon!", "graded", True, 1.0, "polite")
    (sent,) = trial.sent
    assert [message.role for message in sent.messages] == ["system", "user"]
    assert "Lyon!" in sent.messages[1].content
    assert [reply.text for reply in trial.replies] == ['{"verdict": "pass", "reason": "polite"}']


def test_the_latest_run_and_its_judge_are_taken_where_none_is_named(tmp_path: Path) -> None:
    graded(tmp_path)
    assert tried(tmp_path).judge == "J"


def test_a_record_of_a_dataset_is_judged_with_its_reference(tmp_path: Path) -> None:
    run_file(tmp_path)
    trial = tried(tmp_path, dataset=str(tmp_path / "caps.jsonl"), judge=PASSING)
    assert (trial.record_id, trial.answer) == ("a", "Paris")


def test_a_record_may_be_a_file(tmp_path: Path) -> None:
    (tmp_path / "own.txt").write_text(
        "{{question}} {{answer}} {{reference}} {{rubric}} {{context}} {{metadata.x}}", encoding="utf-8"
    )
    record = record_file(tmp_path, answer="A", reference="R", rubric="Says B", context="C", metadata={"x": "D"})
    text = tried(tmp_path, record, judge=PASSING).sent[0].messages[1].content
    assert all(part in text for part in ("Where?", " A ", " R ", "Says B", " C ", " D "))


def test_another_answer_takes_the_place_of_the_records(tmp_path: Path) -> None:
    assert tried(tmp_path, record_file(tmp_path, answer="A"), judge=PASSING, answer="B").answer == "B"


def test_nothing_is_sent_in_a_dry_run(tmp_path: Path) -> None:
    trial = tried(tmp_path, record_file(tmp_path, answer="A"), is_dry=True)
    assert (trial.status, trial.replies, len(trial.sent)) == (None, (), 1)


@pytest.mark.parametrize(
    ("scale", "read"),
    [("", "pass_fail"), ("1-5", "1-5"), ("good=1, poor=0.3", CategoryScale(categories={"good": 1.0, "poor": 0.3}))],
)
def test_a_scale_is_given_in_one_word(tmp_path: Path, scale: str, read: Any) -> None:
    assert tried(tmp_path, record_file(tmp_path, answer="A"), is_dry=True, scale=scale).scale == read


def test_judge_and_scale_are_those_of_the_run_files_grader(tmp_path: Path) -> None:
    scaled = {
        "name": "house",
        "judge": {"provider": "scripted", "model": "judge-2", "name": "J"},
        "prompt": "own.txt",
        "scale": "1-5",
    }
    path = run_file(tmp_path, graders=[scaled])
    trial = tried(tmp_path, record_file(tmp_path, answer="A"), run_file=str(path))
    assert (trial.judge, trial.scale, trial.raw_score, trial.passed) == ("J", "1-5", 2.0, False)


def test_a_reply_without_a_verdict_is_an_error_with_both_replies(tmp_path: Path) -> None:
    trial = tried(tmp_path, record_file(tmp_path, answer="A"), judge="scripted/say-no")
    assert (trial.status, len(trial.replies), trial.passed) == ("error", 2, None)


def test_an_answer_that_cannot_be_assessed_is_said_to_be_so(tmp_path: Path) -> None:
    judge = 'scripted/say-{"verdict": "cannot_assess", "reason": "no facts"}'
    trial = tried(tmp_path, record_file(tmp_path, answer="A"), judge=judge)
    assert (trial.status, trial.reason) == ("not_assessed", "the judge cannot assess the answer: no facts")


def test_secrets_are_not_shown(tmp_path: Path) -> None:
    key = "sk-ant-api03-" + "Ab1" * 31 + "AA"
    trial = tried(tmp_path, record_file(tmp_path, answer=key), judge=PASSING)
    assert key not in json.dumps(trial.to_dict())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "no judge is named"),
        ({"judge": "nosuch/model"}, "--judge: unknown provider 'nosuch'"),
        ({"judge": PASSING, "scale": "1-10"}, "'1-10' is not a scale"),
        ({"judge": PASSING, "record": "nothing.json"}, "'nothing.json' cannot be read"),
        ({"judge": PASSING, "dataset": "caps.jsonl", "record": "z"}, "has no valid record 'z'"),
    ],
)
def test_what_cannot_be_tried_is_said_before_any_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], words: str
) -> None:
    run_file(tmp_path)
    monkeypatch.chdir(tmp_path)
    with pytest.raises((UsageProblem, RunNotFound), match=words):
        tried(tmp_path, **{"record": record_file(tmp_path, answer="A"), **options})


def test_a_record_without_an_answer_needs_one(tmp_path: Path) -> None:
    with pytest.raises(UsageProblem, match="has no answer"):
        tried(tmp_path, record_file(tmp_path), judge=PASSING)


def test_every_problem_of_a_prompt_is_reported(tmp_path: Path) -> None:
    (tmp_path / "own.txt").write_text("{{answr}}", encoding="utf-8")
    with pytest.raises(PlanProblems) as failure:
        tried(tmp_path, record_file(tmp_path, answer="A"), judge=PASSING)
    assert len(failure.value.problems) == 2


def test_a_file_with_other_members_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageProblem, match="is not a record"):
        tried(tmp_path, record_file(tmp_path, answr="A"), judge=PASSING)
