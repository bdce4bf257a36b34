import json
from pathlib import Path
from typing import Any

import pytest

from assay import api
from assay.core.errors import UsageProblem
from assay.engine.planning.request import RunRequest
from assay.engine.planning.responses import load_responses, open_responses
from assay.store.published_run import open_run_folder
from tests.engine.run_settings import JUDGE, batch_record, mcq_row, planned, problems_of, write_batch, write_rows


def answer(example_id: str, text: str = "A", candidate: str = "big") -> dict[str, Any]:
    return {"example_id": example_id, "candidate_name": candidate, "response_text": text}


def law(folder: Path, *ids: str, **options: Any) -> RunRequest:
    dataset = write_rows(folder / "law.jsonl", *(mcq_row(row_id) for row_id in ids))
    return RunRequest(datasets=(str(dataset),), responses=str(folder / "answers.jsonl"), **options)


def test_answers_come_from_lines(tmp_path: Path) -> None:
    loaded = load_responses(write_rows(tmp_path / "answers.jsonl", answer("a", "Ä"), answer("b", ""), answer("a", "x", "small")))
    assert (loaded.of("big").text_for("a"), loaded.of("big").text_for("b"), loaded.of("small").text_for("a")) == ("Ä", "", "x")
    assert (len(loaded.of("big")), loaded.of("small").has("b"), loaded.problems) == (2, False, ())


def test_answers_come_from_a_list(tmp_path: Path) -> None:
    path = tmp_path / "answers.json"
    path.write_text(json.dumps([answer("a", "one"), answer("b", "two")], indent=1))
    assert load_responses(path).of("big").text_for("b") == "two"


def test_answers_come_from_an_object_for_the_only_candidate(tmp_path: Path) -> None:
    path = tmp_path / "answers.json"
    path.write_text(json.dumps({"a": "one", "b": "two"}))
    assert load_responses(path).of("anybody").text_for("b") == "two"


def test_answers_come_from_the_folder_of_a_run(tmp_path: Path) -> None:
    write_rows(tmp_path / "responses.jsonl", answer("a", "again"))
    assert load_responses(tmp_path).of("big").text_for("a") == "again"


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ('{"example_id": "a", "candidate_name": "big"', "the text ends where ',' or '}' should be"),
        ('{"candidate_name": "big", "response_text": "x"}', "example_id is missing"),
        ('{"example_id": "a", "response_text": "x"}', "candidate_name is missing"),
        ('{"example_id": "a", "candidate_name": "big", "response_text": null}', "response_text must be a string, not null"),
        ('{"example_id": "a", "candidate_name": "big", "response_text": 5}', "response_text must be a string, not an integer"),
        ('{"example_id": " ", "candidate_name": "big", "response_text": "x"}', "example_id is empty"),
        (
            '{"example_id": "a", "example_id": "b", "candidate_name": "c", "response_text": "x"}',
            "the name 'example_id' appears twice in one object",
        ),
        (
            r'{"surrogate": 1, "surrogate": 2, "example_id": "a", "candidate_name": "c", "response_text": "\ud800"}',
            "the name 'surrogate' appears twice in one object",
        ),
        ('["a"]', "a row must be an object, not an array"),
        (json.dumps(answer("first")), "a second response of 'big' to 'first'; the first is on line 1"),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, line: str, problem: str) -> None:
    path = tmp_path / "answers.jsonl"
    path.write_text(f"{json.dumps(answer('first'))}\n\n{line}\n")
    assert load_responses(path).problems == (f"{path}:3: {problem}",)


def test_a_bad_entry_of_a_list_is_named_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "answers.json"
    path.write_text('[\n {"example_id": "a", "candidate_name": "b", "response_text": "x"},\n 7\n]')
    assert load_responses(path).problems == (f"{path}:3: a row must be an object, not an integer",)


def test_a_bad_member_of_an_object_is_named_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / "answers.json"
    path.write_text('{\n "a": "x",\n "b": 7\n}')
    assert load_responses(path).problems == (f"{path}:3:7: the response of 'b' must be a string, not an integer",)


def test_characters_that_cannot_be_stored_are_replaced_and_flagged(tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    path.write_text('{"example_id": "a", "candidate_name": "big", "response_text": "x\\u0000y\\ud800z"}\n')
    reply = load_responses(path).of("big").reply_for("a")
    assert (reply.text, reply.flags) == ("x\ufffdy\ufffdz", ("prefilled", "replaced_characters"))


def test_a_prefilled_model_gives_the_answer_of_its_case(tmp_path: Path) -> None:
    reply = load_responses(write_rows(tmp_path / "answers.jsonl", answer("a", "yes"))).of("big").reply_for("a")
    assert (reply.text, reply.flags) == ("yes", ("prefilled",))


def test_a_run_takes_its_only_candidate_from_the_responses(tmp_path: Path) -> None:
    write_rows(tmp_path / "answers.jsonl", answer("a"), answer("b", "B"))
    (plan,) = planned(law(tmp_path, "a", "b")).plans
    assert (plan.candidate.name, plan.response_source, len(plan.responses_sha256)) == ("big", "prefilled", 64)
    reply_for = open_responses(plan)
    assert reply_for is not None
    assert reply_for("b", 0).text == "B"


def test_every_selected_pair_needs_an_answer(tmp_path: Path) -> None:
    write_rows(tmp_path / "answers.jsonl", answer("r0"))
    (problem,) = problems_of(law(tmp_path, *(f"r{n}" for n in range(15))))
    listed = ", ".join(f"(big, r{n})" for n in range(1, 11))
    assert problem == f"no response for 14 of the selected (candidate, record) pairs: {listed} and 4 more"


def test_records_that_are_not_selected_need_no_answer(tmp_path: Path) -> None:
    write_rows(tmp_path / "answers.jsonl", answer("r0"))
    assert problems_of(law(tmp_path, "r0", "r1", limit=1)) == ()


def test_answers_under_another_name_are_pointed_out(tmp_path: Path) -> None:
    write_rows(tmp_path / "answers.jsonl", answer("a"))
    problems = problems_of(law(tmp_path, "a", models=("openai/big",)))
    assert problems[0] == "--responses: the file has no answers of 'openai/big', but of 'big'"


def test_every_candidate_of_a_file_becomes_a_run_where_none_is_named(tmp_path: Path) -> None:
    write_rows(tmp_path / "answers.jsonl", answer("a"), {**answer("a", "B"), "candidate_name": "small"})
    plans = planned(law(tmp_path, "a")).plans
    assert [plan.candidate.name for plan in plans] == ["big", "small"]
    replies = [open_responses(plan) for plan in plans]
    assert [reply("a", 0).text for reply in replies if reply] == ["A", "B"]


def test_several_candidates_cannot_share_an_object(tmp_path: Path) -> None:
    (tmp_path / "answers.jsonl").write_text('{"a": "x"}')
    (tmp_path / "answers.jsonl").rename(tmp_path / "answers.json")
    request = RunRequest(
        datasets=(str(write_rows(tmp_path / "law.jsonl", mcq_row("a"))),),
        responses=str(tmp_path / "answers.json"),
        models=("scripted/echo", "scripted/empty"),
    )
    assert problems_of(request) == (
        "--responses: an object of record id and text answers for one candidate, and the run has several",
    )


def test_a_key_is_not_missed_for_a_candidate_that_is_not_asked(tmp_path: Path) -> None:
    write_rows(tmp_path / "answers.jsonl", answer("a", candidate="openai/big"))
    assert problems_of(law(tmp_path, "a", models=("openai/big",))) == ()


def test_responses_that_have_changed_are_refused(tmp_path: Path) -> None:
    write_rows(tmp_path / "answers.jsonl", answer("a"))
    (plan,) = planned(law(tmp_path, "a")).plans
    write_rows(tmp_path / "answers.jsonl", answer("a", "B"))
    with pytest.raises(UsageProblem, match="has changed since the run was planned"):
        open_responses(plan)


def test_recorded_replies_are_the_answers_of_a_conversation(tmp_path: Path) -> None:
    path = tmp_path / "talk.json"
    turns = [{"turn_id": 1, "speaker": "user", "message": "Hi"}, {"turn_id": 2, "speaker": "assistant", "assistant_reply": "Hello"}]
    path.write_text(json.dumps(turns))
    runs = planned(RunRequest(datasets=(str(path),), judges=(JUDGE,)))
    reply_for = open_responses(runs.plans[0])
    (case,) = runs.inputs[0].report.cases
    assert reply_for is not None
    assert reply_for(f"conversation:{case.record_sha256[:16]}:turn-1", 0).text == "Hello"


def test_questions_and_judged_rows_with_given_answers_share_a_run(tmp_path: Path) -> None:
    judged = {**mcq_row("b"), "task_type": "reference_qa", "reference_answers": ["Yes."]}
    rows = [mcq_row("a"), {name: judged[name] for name in judged if "choice" not in name}, mcq_row("c")]
    dataset = write_rows(tmp_path / "law.jsonl", *rows)
    responses = write_rows(tmp_path / "answers.jsonl", answer("a"), answer("b", "Yes."), answer("c", "B"))
    (result,) = api.run(dataset, judges=(JUDGE,), responses=str(responses), runs_dir=str(tmp_path / "runs"))
    sealed = open_run_folder(Path(result.run_dir))
    stages = [(line["record_id"], line["stage"], line["record_attempt"]) for line in sealed.lines("attempt_logs.jsonl")]
    assert stages == [("a", "candidate", 1), ("b", "candidate", 1), ("b", "judge", 1), ("c", "candidate", 1)]
    assert [line["status"] for line in sealed.lines("predictions.jsonl")] == ["evaluated"] * 3


def test_a_judge_may_have_the_name_of_the_candidate_whose_answers_it_grades(tmp_path: Path) -> None:
    dataset = write_batch(tmp_path / "batch.json", batch_record("a"))
    responses = write_rows(tmp_path / "answers.jsonl", answer("a", candidate=JUDGE))
    (result,) = api.run(dataset, judges=(JUDGE,), responses=str(responses), runs_dir=str(tmp_path / "runs"))
    assert (result.candidate, result.state, result.metrics["raw_score_mean"]) == (JUDGE, "completed", 5.0)


def test_sampled_answers_are_not_given(tmp_path: Path) -> None:
    dataset = write_rows(tmp_path / "law.jsonl", mcq_row("a"))
    assert open_responses(planned(RunRequest(datasets=(str(dataset),), models=("scripted/echo",))).plans[0]) is None
