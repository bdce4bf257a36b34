"""Policies and modes in whole runs: what planning says of them, and what predictions keep."""

import json
from pathlib import Path
from typing import Any

import msgspec

from assay.api.runs import run
from assay.api.stored_runs import open_run
from assay.engine.planning.request import RunRequest
from assay.grading.templates import texts_sha256
from tests.engine.run_settings import mcq_row, planned, write_rows

RUBRIC = [{"id": "one", "title": "Names the law"}, {"id": "two", "title": "Names the court"}]
TRAVEL = Path(__file__).parent.parent.parent / "examples" / "conversation_v1" / "travel-agent.json"


def row(row_id: str, task_type: str = "rubric_qa", **members: Any) -> dict[str, Any]:
    return {
        "schema_version": "legal_eval_v1",
        "id": row_id,
        "dataset": "law",
        "task_type": task_type,
        "prompt": "Is it?",
        **members,
    }


def run_file(folder: Path, *rows: dict[str, Any], judge: str = "echo", **settings: Any) -> Path:
    """A run file for these rows, next to them."""
    write_rows(folder / "law.jsonl", *rows)
    document = {
        "datasets": ["law.jsonl"],
        "candidates": [{"model": "scripted/say-A", "name": "a"}],
        "judges": [{"provider": "scripted", "model": judge, "name": "judge"}],
        "run": {"runs_dir": str(folder / "runs"), "id": "first", **settings},
    }
    path = folder / "run.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


def predictions(path: Path) -> dict[str, dict[str, Any]]:
    run(path)
    lines = open_run("first", runs_dir=path.parent / "runs").predictions()
    return {line.record_id: msgspec.json.decode(msgspec.json.encode(line)) for line in lines}


def test_every_prediction_names_its_policy_and_the_hash_of_its_template(tmp_path: Path) -> None:
    rows = [
        mcq_row("lexam", metadata={"policy_id": "lexam_mcq_v1"}),
        mcq_row("house", metadata={"policy_id": "house_v9"}),
        mcq_row("plain"),
        row("apex", rubric=RUBRIC, metadata={"policy_id": "apexv1_extended_v1"}),
    ]
    lines = predictions(run_file(tmp_path, *rows, judge='say-{"result": 1, "reason": "x"}'))
    assert {name: line["policy_id"] for name, line in lines.items()} == {
        "lexam": "lexam_mcq_v1",
        "house": "default",
        "plain": "default",
        "apex": "apexv1_extended_v1",
    }
    assert lines["house"]["flags"] == ["unknown_policy"]
    assert (lines["apex"]["template"], lines["plain"]["template"]) == ("judge_result/1", "mcq_answer/1")
    assert lines["apex"]["template_sha256"] == texts_sha256(("judge_result/1", "ask_again/1"))


def test_a_record_without_a_grade_says_how_it_was_to_be_graded(tmp_path: Path) -> None:
    failed = predictions(run_file(tmp_path, row("apex", rubric=RUBRIC, metadata={"policy_id": "prbench_v1"}), judge="empty"))[
        "apex"
    ]
    assert (failed["score"], failed["error_code"], failed["policy_id"]) == (None, "judge_parse_error", "prbench_v1")
    assert (failed["evaluator"], failed["template"]) == ("rubric_per_criterion/1", "judge_criterion/1")
    assert failed["template_sha256"] == texts_sha256(("judge_criterion/1", "ask_again/1"))


def test_a_rubric_is_judged_in_one_call_where_the_run_file_says_so(tmp_path: Path) -> None:
    verdicts = [{"number": number, "criteria_met": number == 1, "explanation": "x"} for number in (1, 2)]
    path = run_file(tmp_path, row("r", rubric=RUBRIC), judge=f"say-{json.dumps({'verdicts': verdicts})}", rubric_mode="one_call")
    (line,) = predictions(path).values()
    calls = [attempt.call_id for attempt in open_run("first", runs_dir=tmp_path / "runs").attempts("r")]
    assert (line["score"], line["evaluator"], calls) == (0.5, "rubric_one_call/1", ["candidate", "judge:rubric"])


def test_any_correct_choice_suffices_where_the_run_file_says_so(tmp_path: Path) -> None:
    path = run_file(tmp_path, mcq_row("m", correct_choice_ids=["A", "B"]), mcq_mode="any")
    assert predictions(path)["m"]["passed"]


def test_planning_notes_policies_that_are_unknown_or_made_for_another_task(tmp_path: Path) -> None:
    rows = [mcq_row("a", metadata={"policy_id": "house_v9"}), mcq_row("b", metadata={"policy_id": "prbench_v1"}), mcq_row("c")]
    notes = planned(RunRequest(run_file=str(run_file(tmp_path, *rows)))).notes
    assert len(notes) == 2
    assert notes[0].startswith("1 record(s) name the policy 'house_v9', which is none of default, prbench_v1")
    assert "'prbench_v1', which is made for another task; they are graded by the default policy" in notes[1]


def test_planning_notes_records_that_the_system_prompt_is_not_sent_to(tmp_path: Path) -> None:
    rows = [mcq_row("a", metadata={"policy_id": "lexam_mcq_v1"}), mcq_row("b")]
    (note,) = planned(RunRequest(run_file=str(run_file(tmp_path, *rows, system_prompt="Be brief.")))).notes
    assert note == "1 record(s) have a policy without a system prompt, so that they get none"


def test_tool_use_of_a_replayed_conversation_is_compared_and_labelled(tmp_path: Path) -> None:
    call = '{"tool": "hold_seat", "input": {"train": "RJ 131", "position": "window"}}'
    judge = 'scripted/say-{"score": 0.2, "justification": "Not as friendly."}'
    run(TRAVEL, model=f"scripted/say-{call}", judge=judge, runs_dir=str(tmp_path), run_id="first")
    lines = list(map(msgspec.to_builtins, open_run("first", runs_dir=tmp_path).predictions()))
    assert [line["passed"] for line in lines] == [False, True, False]
    assert [line["label"] for line in lines] == ["tool_or_retrieval_misuse", None, "tool_or_retrieval_misuse"]
