"""A run is sealed, and all that is done with it works, whatever its custom redaction rules find."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from assay.surfaces.cli.program import program

PATTERNS = (
    r"\b\d{3}\b", "attachments", "[a-z]{6,}", ".", r"\d", "prompt", "(?i)candidate", "id", "record_id", "overall", "user",
    "metadata",
)  # fmt: skip
RECORDS = 120


def batch(count: int = RECORDS) -> dict[str, Any]:
    head = {"schema_version": "1.0", "dataset_id": "numbers", "dataset_version": "1", "created_at": "2026-01-01T00:00:00Z"}
    records = [
        {
            "record_id": f"q{number:04d}",
            "input": {"prompt": f"Question {number} of matter 123, please?", "history": "EMP-1"},
            "reference": {"answer": f"Answer {number}"},
            "expected": {"required_criteria": ["overall"], "max_latency_ms": 100_000},
            "tags": ["contracts"],
            "metadata": {"matter": 123, "candidate": "a text", "year": 1999},
        }
        for number in range(count)
    ]
    return {**head, "records": records}


def choice(number: int) -> dict[str, Any]:
    return {
        "schema_version": "legal_eval_v1",
        "id": f"m-{number}",
        "dataset": "exam",
        "task_type": "mcq",
        "prompt": f"Which one is right in matter {number}?",
        "messages": [{"role": "user", "content": "Which one?"}],
        "choices": [{"id": "A", "text": "the first"}, {"id": "B", "text": "the second"}],
        "correct_choice_ids": ["A"],
    }


def said(*arguments: str, code: int = 0) -> str:
    result = CliRunner().invoke(program, arguments)
    assert result.exit_code == code, (arguments, result.output, result.exception)
    return result.output


def ran(folder: Path, dataset: Path, pattern: str) -> Path:
    settings = {
        "datasets": [str(dataset)],
        "candidates": ["scripted/echo"],
        "judges": ["scripted/judge-5"],
        "redact": [{"name": "matter", "pattern": pattern}],
    }
    (folder / "run.yaml").write_text(json.dumps(settings))
    said("run", str(folder / "run.yaml"), "--run-id", "x", "--runs-dir", str(folder / "runs"))
    return folder / "runs" / "x"


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_run_is_sealed_and_readable_whatever_a_custom_rule_finds(pattern: str, tmp_path: Path) -> None:
    (tmp_path / "d.json").write_text(json.dumps(batch()))
    run = ran(tmp_path, tmp_path / "d.json", pattern)
    of = ("--runs-dir", str(tmp_path / "runs"))
    said("verify", "x", *of)
    said("replay", "x", *of)
    said("resume", "x", *of)
    said("show", "x", *of)
    lines = [json.loads(line) for line in (run / "predictions.jsonl").read_text().splitlines()]
    assert [line["index"] for line in lines] == list(range(RECORDS))
    assert {line["status"] for line in lines} == {"evaluated"}
    assert len({line["record_id"] for line in lines}) == RECORDS
    said("show", "x", lines[7]["record_id"], *of)
    said("validate", str(run / "input_dataset.json"))


@pytest.mark.parametrize("pattern", ["[a-z]{4,}", ".", "id", "user", "choices"])
def test_choices_stay_apart_whatever_a_custom_rule_finds(pattern: str, tmp_path: Path) -> None:
    (tmp_path / "d.jsonl").write_text("".join(json.dumps(choice(number)) + "\n" for number in range(3)))
    run = ran(tmp_path, tmp_path / "d.jsonl", pattern)
    said("validate", str(run / "input_dataset.json"))
    said("replay", "x", "--runs-dir", str(tmp_path / "runs"))


def test_custom_rules_apply_to_all_that_users_write(tmp_path: Path) -> None:
    sent = batch(5)
    for record in sent["records"]:
        record["input"] |= {"prompt": "Ask EMP-12345", "EMP-12345": 1}
        record |= {"metadata": {"EMP-12345": "x", "who": "EMP-12345"}, "tags": ["EMP-12345"]}
    (tmp_path / "d.json").write_text(json.dumps(sent))
    run = ran(tmp_path, tmp_path / "d.json", "EMP-[0-9]{5}")
    assert [path.name for path in run.rglob("*") if path.is_file() and b"EMP-12345" in path.read_bytes()] == []


@pytest.mark.parametrize(
    ("rules", "reason"),
    [
        ("[{name: a}]", "pattern"),
        ("[{pattern: a}]", "name"),
        ("[{name: a, pattern: ''}]", "pattern"),
        ("[{name: a, pattern: 5}]", "pattern must be"),
        ("[{name: '', pattern: x}]", "name must be"),
        ("[{name: 'a]b', pattern: x}]", "name must be"),
        ("[abc]", "must be an object"),
        (r"[{name: a, pattern: '\b'}]", "empty text"),
        (r"[{name: a, pattern: 'a*'}]", "empty text"),
        (r"[{name: a, pattern: '\C'}]", "single bytes"),
    ],
)
def test_a_malformed_custom_rule_is_refused_with_its_place(rules: str, reason: str, tmp_path: Path) -> None:
    (tmp_path / "d.json").write_text(json.dumps(batch(1)))
    path = tmp_path / "run.yaml"
    path.write_text(f"datasets: [d.json]\ncandidates: [scripted/echo]\njudges: [scripted/judge-5]\nredact: {rules}\n")
    for command in (("check",), ("run",), ("run", "--dry-run")):
        found = said(*command, str(path), code=2)
        assert re.search(r"run\.yaml:4:\d+", found), found
        assert reason in found
        assert "internal error" not in found
