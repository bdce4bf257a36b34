"""The shipped examples are what they claim to be: the good ones are clean, the broken ones show the mistakes they are for."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import assay

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "examples"

GOOD = {
    "legal_eval_v1/contract-law.jsonl": ("legal_eval_v1", 10),
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
        "invalid_field_type": 2,
        "invalid_field_value": 1,
        "sequence_error": 1,
        "tool_error": 2,
    },
}


def run(*command: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]), "NO_COLOR": "1"}
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


def test_every_example_dataset_is_listed_here() -> None:
    shipped = {path.relative_to(EXAMPLES).as_posix() for path in EXAMPLES.glob("*_v1/*.*")}
    assert shipped - {"conversation_v1/config.yaml"} == {*GOOD, *BROKEN}


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


def test_demo_ends_well_although_it_shows_broken_files() -> None:
    demo = run("sh", "examples/demo.sh")
    assert demo.returncode == 0, demo.stderr
    assert [line for line in demo.stdout.splitlines() if line.startswith("exit code")] == ["exit code 0", *["exit code 1"] * 4]
