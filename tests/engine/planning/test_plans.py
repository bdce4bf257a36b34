import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from assay.core.plan import plan_sha256
from assay.core.settings import Gates
from assay.engine.planning.plans import list_records
from assay.engine.planning.request import PlanProblems, RunRequest
from tests.engine.run_settings import JUDGE, batch_record, mcq_row, planned, problems_of, write_batch, write_golden, write_rows


def test_the_short_form_makes_one_complete_plan(tmp_path: Path) -> None:
    dataset = write_golden(tmp_path / "assistant.json")
    runs = planned(RunRequest(datasets=(str(dataset),), models=("scripted/echo",), judges=(JUDGE,), limit=3, pass_rate=0.8))
    (plan,) = runs.plans
    assert (plan.run_id, plan.candidate.name, plan.judges[0].name, plan.suite) == ("run_1", "scripted/echo", JUDGE, "")
    assert (plan.limit, plan.gates.pass_rate, plan.case_pass_score) == (3, 0.8, 4)
    assert (runs.valid_records, runs.invalid_records) == (3, 0)


def test_a_plan_is_written_as_by_earlier_versions(tmp_path: Path) -> None:
    # A run that goes on, or is compared with an earlier one, has the same settings only if they are encoded in the same way.
    dataset = write_golden(tmp_path / "assistant.json")
    (plan,) = planned(RunRequest(datasets=(str(dataset),), models=("scripted/echo",), judges=(JUDGE,))).plans
    written = msgspec.json.encode(plan).decode()
    assert written.count('"parameters":{"temperature":0.0}') == 2
    assert '"parameters":{"temperature":0.0}}],"panel":{"min_confidence":0.7},"providers":[' in written
    assert (
        '"headers":{}}],"response_source":"sampled","responses_path":"","responses_sha256":"","system_prompt":"","retry":'
        in written
    )
    assert (
        '"retry":{"max_attempts":3,"jitter":0.2,"base_delay":2.0,"max_delay":60.0},"concurrency":32,"generation":{},"judging":{},'
        '"max_cost":null,"gates":{"pass_rate":0.8,"min_score":3.5,"max_error_rate":0.0},"default_gates":["pass_rate","min_score",'
        '"max_error_rate"],"profile":null,"compat":false,"slices":["tags","dataset"],"cluster_key":"","pass_threshold":0.7,'
        '"case_pass_score":4,"rubric_mode":"per_criterion","mcq_mode":"exact","criteria":[],"on_invalid":"reject","records":[],'
        '"limit":null,"sample":null,"seed":0,"repeat":1,"keep_raw":false,"cache_dir":"","suite":"","project":"default",'
    ) in written
    assert plan_sha256(msgspec.json.decode(written, type=type(plan))) == plan_sha256(plan)


def test_a_golden_dataset_is_named_by_its_file_and_version(tmp_path: Path) -> None:
    dataset = write_golden(tmp_path / "assistant.json")
    (plan,) = planned(RunRequest(datasets=(str(dataset),), models=("scripted/echo",), judges=(JUDGE,))).plans
    (read,) = plan.datasets
    assert (read.dataset_id, read.dataset_version, read.schema_version, len(read.sha256)) == ("assistant", "1.2.3", "golden_v1", 64)


def test_a_golden_run_has_the_gates_of_its_contract_where_it_sets_none(tmp_path: Path) -> None:
    dataset = write_golden(tmp_path / "assistant.json")
    request = RunRequest(datasets=(str(dataset),), models=("scripted/echo",), judges=(JUDGE,), pass_rate=0.6)
    (plan,) = planned(request).plans
    assert (plan.gates, plan.default_gates) == (
        Gates(pass_rate=0.6, min_score=3.5, max_error_rate=0.0),
        ("min_score", "max_error_rate"),
    )


def test_gates_of_a_contract_are_for_runs_over_it_alone(tmp_path: Path) -> None:
    datasets = (str(write_golden(tmp_path / "g.json")), str(write_batch(tmp_path / "b.json", batch_record("a"))))
    runs = planned(RunRequest(datasets=datasets, models=("scripted/echo",), judges=(JUDGE,)))
    assert (runs.plans[0].gates, runs.plans[0].default_gates, runs.plans[0].candidate.parameters.max_tokens) == (Gates(), (), None)
    assert any("thresholds of golden_v1 are not used as gates" in note for note in runs.notes)


def test_gates_that_are_set_as_the_contract_has_them_make_the_same_run(tmp_path: Path) -> None:
    request = RunRequest(datasets=(str(write_golden(tmp_path / "g.json")),), models=("scripted/echo",), judges=(JUDGE,))
    written = msgspec.structs.replace(request, pass_rate=0.8, min_score=3.5, max_error_rate=0.0)
    assert plan_sha256(planned(request).plans[0]) == plan_sha256(planned(written).plans[0])


def test_a_judge_that_is_the_candidate_stays_the_same_model(tmp_path: Path) -> None:
    request = RunRequest(datasets=(str(write_golden(tmp_path / "g.json")),), models=(JUDGE, "scripted/echo"), judges=(JUDGE,))
    first, second = planned(request).plans
    assert first.candidate == first.judges[0] == second.judges[0]


def test_a_batch_names_itself(tmp_path: Path) -> None:
    dataset = write_batch(tmp_path / "x.json", batch_record("a"))
    (plan,) = planned(RunRequest(datasets=(str(dataset),), models=("scripted/echo",), judges=(JUDGE,))).plans
    (read,) = plan.datasets
    assert (read.dataset_id, read.dataset_version, read.schema_version) == ("support", "v7", "1.0")


def test_rows_without_a_version_are_known_by_their_content(tmp_path: Path) -> None:
    dataset = write_rows(tmp_path / "law.jsonl", mcq_row("a"))
    (plan,) = planned(RunRequest(datasets=(str(dataset),), models=("scripted/echo",))).plans
    (read,) = plan.datasets
    assert (read.dataset_id, read.dataset_version, read.schema_version) == ("law", f"sha256:{read.sha256[:12]}", "legal_eval_v1")


def test_options_count_more_than_the_run_file(tmp_path: Path) -> None:
    write_rows(tmp_path / "law.jsonl", mcq_row("a"), mcq_row("b"))
    run_file = tmp_path / "run.yaml"
    run_file.write_text(
        "datasets: [law.jsonl]\ncandidates: [scripted/echo]\nlimit: 1\ngates: {pass_rate: 0.5, max_error_rate: 0.1}\n"
    )
    (plan,) = planned(RunRequest(run_file=str(run_file), limit=2, pass_rate=0.9, models=("scripted/mcq-first",))).plans
    assert (plan.limit, plan.gates.pass_rate, plan.gates.max_error_rate) == (2, 0.9, 0.1)
    assert plan.candidate.name == "scripted/mcq-first"


def test_paths_of_a_run_file_are_relative_to_its_folder(tmp_path: Path) -> None:
    write_rows(tmp_path / "law.jsonl", mcq_row("a"))
    run_file = tmp_path / "run.yaml"
    run_file.write_text("datasets: [law.jsonl]\ncandidates: [scripted/echo]\nrun: {runs_dir: out}\ncache: {folder: kept}\n")
    runs = planned(RunRequest(run_file=str(run_file)))
    assert (runs.plans[0].datasets[0].path, runs.runs_dir) == (str(tmp_path / "law.jsonl"), str(tmp_path / "out"))
    assert runs.plans[0].cache_dir == str(tmp_path / "kept")


def test_each_candidate_is_a_run_of_one_suite(tmp_path: Path) -> None:
    dataset = write_rows(tmp_path / "law.jsonl", mcq_row("a"))
    runs = planned(RunRequest(datasets=(str(dataset),), models=("scripted/echo", "scripted/mcq-last"), run_id="nightly"))
    assert [plan.run_id for plan in runs.plans] == ["nightly-scripted-echo", "nightly-scripted-mcq-last"]
    assert {plan.suite for plan in runs.plans} == {runs.suite}
    assert runs.suite.startswith("suite_20231114T221320Z_")


def test_all_problems_are_told_at_once(tmp_path: Path) -> None:
    golden = write_golden(tmp_path / "golden.json")
    request = RunRequest(
        datasets=(str(golden), str(tmp_path / "gone.json")),
        models=("opnai/x", "gpt"),
        concurrency=0,
        pass_rate=1.5,
        min_score=0.5,
    )
    assert problems_of(request) == (
        "--concurrency: run.concurrency must be an integer from 1 to 10,000, not 0",
        "--pass-rate: gates.pass_rate must be a number from 0 to 1, not 1.5",
        f"DATASET: cannot read '{tmp_path / 'gone.json'}': no such file or directory",
        "--model: unknown provider 'opnai'; did you mean 'openai'? for another server add an entry with its base_url to "
        "providers, use --base-url, or write litellm/opnai/MODEL",
        "--model: 'gpt' has no provider prefix; did you mean openai/gpt?",
        "--min-score: 0.5 is not on the scale 1-5 of the datasets",
        "'golden' (golden_v1) cannot be graded without a judge; add judges (--judge provider/model)",
    )


def test_problems_of_a_run_file_have_their_place(tmp_path: Path) -> None:
    run_file = tmp_path / "run.yaml"
    run_file.write_text("datasets:\n  - gone.jsonl\ncandidates:\n  - {model: x, provider: nobody}\n")
    gone, stranger = problems_of(RunRequest(run_file=str(run_file)))
    assert gone == f"{run_file}:2:5: cannot read '{tmp_path / 'gone.jsonl'}': no such file or directory"
    assert stranger.startswith(f"{run_file}:4:26: unknown provider 'nobody'; known are anthropic, ")
    assert stranger.endswith("add an entry with its base_url to providers, use --base-url, or write litellm/nobody/MODEL")


def test_one_exception_carries_every_problem() -> None:
    with pytest.raises(PlanProblems, match="2 problems: no dataset is named; no candidate is named"):
        planned(RunRequest())


@pytest.mark.parametrize(
    ("members", "problem"),
    [
        ("candidates: [scripted/echo, scripted/echo]", "the name 'scripted/echo' is taken by an earlier entry of candidates"),
        ("candidates: [scripted/echo]\njudges: [{model: scripted/echo, seed: 1}]", "a candidate with other parameters is called"),
        (
            "candidates: [scripted/echo]\nproviders: [{name: a}, {name: a}]",
            "the name 'a' is taken by an earlier entry of providers",
        ),
        ("candidates: [scripted/echo]\nrun: {response_source: prefilled}", "the response source 'prefilled' needs a file"),
        ("candidates: [scripted/echo]\nrun: {response_source: sampled, responses: x}", "but the response source is 'sampled'"),
        ("candidates: [scripted/echo]\nrun: {response_source: part_of_conversation}", "only conversation_v1 has recorded replies"),
        ("candidates: [scripted/echo]\nrun: {responses: gone.jsonl}", "gone.jsonl': no such file or directory"),
        ("candidates: [replay/gone.jsonl]", "gone.jsonl"),
        ("candidates: [openai/gpt-4.1]", "the environment variable OPENAI_API_KEY with the key of provider 'openai' is not set"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(tmp_path: Path, members: str, problem: str) -> None:
    write_rows(tmp_path / "law.jsonl", mcq_row("a"))
    run_file = tmp_path / "run.yaml"
    run_file.write_text(f"datasets: [law.jsonl]\n{members}\n")
    (found,) = problems_of(RunRequest(run_file=str(run_file)))
    assert problem in found


def test_the_scales_of_two_contracts_have_no_common_mean(tmp_path: Path) -> None:
    datasets = (str(write_golden(tmp_path / "g.json")), str(write_rows(tmp_path / "law.jsonl", mcq_row("a"))))
    (problem,) = problems_of(RunRequest(datasets=datasets, models=("scripted/echo",), judges=(JUDGE,), min_score=0.5))
    assert problem.startswith("--min-score: the datasets have different scales")


@pytest.mark.parametrize(("options", "scale"), [({}, "1-5"), ({"models": ("scripted/echo",)}, "0-1")])
def test_a_gate_lies_on_the_scale_that_the_same_conversation_is_graded_on(
    tmp_path: Path, options: dict[str, Any], scale: str
) -> None:
    turns = [{"turn_id": 1, "speaker": "user", "message": "Hi"}, {"turn_id": 2, "speaker": "assistant", "assistant_reply": "Hello"}]
    (tmp_path / "talk.json").write_text(json.dumps(turns))
    request = RunRequest(datasets=(str(tmp_path / "talk.json"),), judges=(JUDGE,), min_score=7, **options)
    assert problems_of(request) == (f"--min-score: 7 is not on the scale {scale} of the datasets",)


def test_given_answers_to_a_conversation_are_gated_on_the_scale_of_their_references(tmp_path: Path) -> None:
    turns = [{"turn_id": 1, "speaker": "user", "message": "Hi"}, {"turn_id": 2, "speaker": "assistant", "assistant_reply": "Hello"}]
    (tmp_path / "talk.json").write_text(json.dumps(turns))
    request = RunRequest(datasets=(str(tmp_path / "talk.json"),), judges=(JUDGE,), models=("scripted/echo",))
    (record,) = list_records(request, environ={}).records
    (tmp_path / "answers.json").write_text(json.dumps({record.record_id: "Good day"}))
    given = msgspec.structs.replace(request, models=(), responses=str(tmp_path / "answers.json"))
    assert problems_of(msgspec.structs.replace(given, min_score=0.8)) == ()
    assert problems_of(msgspec.structs.replace(given, min_score=3)) == ("--min-score: 3 is not on the scale 0-1 of the datasets",)


def test_only_the_selected_records_decide_on_the_scale(tmp_path: Path) -> None:
    datasets = (str(write_golden(tmp_path / "g.json")), str(write_rows(tmp_path / "law.jsonl", mcq_row("a"))))
    request = RunRequest(datasets=datasets, models=("scripted/echo",), judges=(JUDGE,), min_score=3.5, limit=2)
    assert problems_of(request) == ()


def test_multiple_choice_needs_no_judge(tmp_path: Path) -> None:
    dataset = write_rows(tmp_path / "law.jsonl", mcq_row("a"))
    assert problems_of(RunRequest(datasets=(str(dataset),), models=("scripted/echo",))) == ()


def test_invalid_rows_of_legal_eval_v1_refuse_the_run(tmp_path: Path) -> None:
    dataset = write_rows(tmp_path / "law.jsonl", mcq_row("a"), mcq_row("b", correct_choice_ids=["Z"]))
    summary, error = problems_of(RunRequest(datasets=(str(dataset),), models=("scripted/echo",)))
    assert summary.endswith("has 1 invalid record(s); correct them, or leave them out with on_invalid: skip (--on-invalid skip):")
    assert error.startswith(f"{dataset}:2:")
    assert error.endswith("invalid_enum_value: 'Z' is not the id of a choice (choices are A, B)")


def test_invalid_rows_may_be_skipped(tmp_path: Path) -> None:
    dataset = write_rows(tmp_path / "law.jsonl", mcq_row("a"), mcq_row("b", correct_choice_ids=["Z"]))
    runs = planned(RunRequest(datasets=(str(dataset),), models=("scripted/echo",), on_invalid="skip"))
    assert (runs.valid_records, runs.invalid_records, runs.plans[0].on_invalid) == (1, 1, "skip")


def test_batch_v1_goes_on_with_the_valid_records(tmp_path: Path) -> None:
    dataset = write_batch(tmp_path / "x.json", batch_record("a"), {"record_id": "b"})
    runs = planned(RunRequest(datasets=(str(dataset),), models=("scripted/echo",), judges=(JUDGE,)))
    assert (runs.valid_records, runs.invalid_records, runs.plans[0].on_invalid) == (1, 1, "skip")


def test_batch_v1_can_be_refused_for_one_invalid_record(tmp_path: Path) -> None:
    dataset = write_batch(tmp_path / "x.json", batch_record("a"), {"record_id": "b"})
    request = RunRequest(datasets=(str(dataset),), models=("scripted/echo",), judges=(JUDGE,), on_invalid="reject")
    assert len(problems_of(request)) == 2


def test_concurrency_does_not_change_what_a_run_is(tmp_path: Path) -> None:
    dataset = write_rows(tmp_path / "law.jsonl", mcq_row("a"))
    first, second = (
        planned(RunRequest(datasets=(str(dataset),), models=("scripted/echo",), concurrency=number)).plans[0] for number in (1, 9)
    )
    assert plan_sha256(first) == plan_sha256(second)


def test_conversations_are_judged_as_recorded_unless_a_candidate_is_named(tmp_path: Path) -> None:
    turns = [{"turn_id": 1, "speaker": "user", "message": "Hi"}, {"turn_id": 2, "speaker": "assistant", "assistant_reply": "Hello"}]
    dataset = tmp_path / "talk.json"
    dataset.write_text(json.dumps([*turns, {"turn_id": 3, "speaker": "user", "message": "Bye"}]))
    recorded = planned(RunRequest(datasets=(str(dataset),), judges=(JUDGE,)))
    asked = planned(RunRequest(datasets=(str(dataset),), judges=(JUDGE,), models=("scripted/echo",)))
    assert (recorded.plans[0].response_source, recorded.plans[0].candidate.name) == ("part_of_conversation", "recorded")
    assert (asked.plans[0].response_source, asked.plans[0].candidate.name) == ("sampled", "scripted/echo")
    assert recorded.notes == ("1 user turn(s) of 'talk' have no reply and are not evaluated",)


def test_standard_input_is_no_dataset_of_a_run() -> None:
    (problem,) = problems_of(RunRequest(datasets=("-",), models=("scripted/echo",)))
    assert problem.startswith("DATASET: a run cannot be read from standard input")


def test_an_id_that_is_too_long_with_the_names_of_the_candidates_is_a_problem(tmp_path: Path) -> None:
    dataset = write_rows(tmp_path / "law.jsonl", mcq_row("a"))
    request = RunRequest(datasets=(str(dataset),), models=("scripted/echo", "scripted/mcq-first"), run_id="x" * 120)
    problems = problems_of(request)
    assert [problem.split(": ")[0] for problem in problems] == ["--run-id", "--run-id"]
    assert all("cannot be a run id" in problem for problem in problems)


def test_no_candidate_is_asked_when_the_place_of_another_is_taken(tmp_path: Path) -> None:
    dataset = write_rows(tmp_path / "law.jsonl", mcq_row("a"))
    (tmp_path / "x-scripted-mcq-first").touch()
    models = ("scripted/echo", "scripted/mcq-first")
    (problem,) = problems_of(RunRequest(datasets=(str(dataset),), models=models, run_id="x", runs_dir=str(tmp_path)))
    assert problem.startswith("--run-id: ")
    assert "exists and is not a run" in problem


def test_candidates_whose_names_differ_in_case_alone_have_different_ids(tmp_path: Path) -> None:
    write_rows(tmp_path / "law.jsonl", mcq_row("a"))
    run_file = tmp_path / "run.yaml"
    candidates = "[{model: scripted/echo, name: M}, {model: scripted/echo, name: m}]"
    run_file.write_text(f"datasets: [law.jsonl]\ncandidates: {candidates}\n")
    assert [plan.run_id for plan in planned(RunRequest(run_file=str(run_file), run_id="x")).plans] == ["x-1-M", "x-2-m"]
