"""Checks in whole runs: what predictions and metrics hold, whether a model, a cache or a file answers."""

import json
from pathlib import Path
from typing import Any

import pytest

import assay
from assay.core.checks import EqualsCheck
from tests.engine.run_settings import write_rows

EXAMPLE = Path(__file__).parents[2] / "examples" / "checks" / "run.yaml"


def row(row_id: str, reference: str, *checks: Any, **members: Any) -> dict[str, Any]:
    head = {"schema_version": "legal_eval_v1", "id": row_id, "dataset": "caps", "task_type": "reference_qa", "prompt": "Where?"}
    return {**head, "reference_answers": [reference], "metadata": {"checks": list(checks)} if checks else {}, **members}


def run_file(folder: Path, *rows: dict[str, Any], **settings: Any) -> Path:
    write_rows(folder / "caps.jsonl", *rows)
    path = folder / "run.json"
    given = {"datasets": ["caps.jsonl"], "candidates": ["scripted/say-Paris"], "run": {"runs_dir": str(folder / "runs")}}
    path.write_text(json.dumps({**given, **settings}), encoding="utf-8")
    return path


def lines(run: assay.Run, name: str = "predictions.jsonl") -> list[dict[str, Any]]:
    return [json.loads(line) for line in (Path(run.run_dir) / name).read_text(encoding="utf-8").splitlines()]


def metrics(run: assay.Run, name: str = "metrics_summary.json") -> dict[str, Any]:
    return json.loads((Path(run.run_dir) / name).read_text(encoding="utf-8"))


def test_the_example_is_checked_without_a_judge(tmp_path: Path) -> None:
    [run] = assay.run(EXAMPLE, runs_dir=str(tmp_path))
    checks = {line["record_id"]: {check["name"]: check["passed"] for check in line["checks"]} for line in lines(run)}
    assert checks["germany"] == {"answer": True, "short": False, "polite": True, "exact": False}
    assert checks["pi"]["answer"] is True
    assert {line["record_id"]: line["passed"] for line in lines(run)} == {"france": True, "germany": False, "pi": True}
    found = metrics(run)["checks"]
    assert {name: check["pass_rate"] for name, check in found.items()} == {
        "answer": 1.0,
        "short": pytest.approx(2 / 3),
        "polite": 1.0,
        "exact": pytest.approx(1 / 3),
    }
    assert run.verify() == []


def test_a_check_in_a_prediction_has_five_members(tmp_path: Path) -> None:
    [run] = assay.run(run_file(tmp_path, row("a", "Lyon"), checks=[{"type": "equals"}]))
    assert lines(run)[0]["checks"] == [
        {"name": "equals", "type": "equals", "passed": False, "score": 0.0, "reason": "the answer 'Paris' is not 'Lyon'"}
    ]


def test_latency_and_cost_are_those_of_the_candidates_call(tmp_path: Path) -> None:
    checks = [{"type": "latency", "max_ms": 60_000}, {"type": "cost", "max_usd": 0}]
    [run] = assay.run(run_file(tmp_path, row("a", "Paris"), checks=checks, cache={}))
    assert [check["passed"] for check in lines(run)[0]["checks"]] == [True, True]


def test_a_secret_that_a_reason_quotes_is_redacted(tmp_path: Path) -> None:
    key = "sk-ant-api03-" + "Ab1" * 31 + "AA"
    path = run_file(tmp_path, row("a", "Paris"), candidates=[f"scripted/say-{key}"], checks=[{"type": "equals"}])
    [run] = assay.run(path)
    assert key not in (Path(run.run_dir) / "predictions.jsonl").read_text(encoding="utf-8")
    assert "[REDACTED:" in lines(run)[0]["checks"][0]["reason"]


def test_a_record_without_anything_to_compare_with_ends_in_an_error(tmp_path: Path) -> None:
    records = [
        {"record_id": "a", "input": {"prompt": "?"}, "reference": {"answer": "Paris"}},
        {"record_id": "b", "input": {"prompt": "?"}},
    ]
    head = {"schema_version": "1.0", "dataset_id": "d", "dataset_version": "1", "created_at": "2026-01-01T00:00:00Z"}
    (tmp_path / "d.json").write_text(json.dumps({**head, "records": records}), encoding="utf-8")
    [run] = assay.run(run_file(tmp_path, row("unused", "x"), datasets=["d.json"], checks=[{"type": "equals"}]))
    assert [(line["status"], line["score"], line["error_code"]) for line in lines(run)] == [
        ("evaluated", 1.0, None),
        ("evaluation_error", None, "nothing_to_compare"),
    ]
    assert lines(run, "attempt_logs.jsonl")[-1]["record_id"] == "a"


def test_every_answer_of_a_repeated_record_is_checked(tmp_path: Path) -> None:
    [run] = assay.run(run_file(tmp_path, row("a", "Paris"), row("b", "Rome"), checks=[{"type": "equals"}], repeat=3))
    assert metrics(run)["checks"]["equals"]["n"] == 6


def test_slices_have_checks_too(tmp_path: Path) -> None:
    rows = [row("a", "Paris", dataset="x"), row("b", "Rome", dataset="y")]
    [run] = assay.run(run_file(tmp_path, *rows, checks=[{"type": "equals"}]))
    values = metrics(run, "metrics_by_slice.json")["slices"]["dataset"]["values"]
    assert {one["value"]: one["checks"]["equals"]["pass_rate"] for one in values} == {"x": 1.0, "y": 0.0}


def test_other_checks_of_the_answers_of_a_run_call_no_model(tmp_path: Path) -> None:
    [first] = assay.run(run_file(tmp_path, row("a", "Paris"), checks=[{"type": "equals"}]))
    path = run_file(
        tmp_path,
        row("a", "Paris"),
        candidates=[],
        checks=[{"type": "length", "max": 4}],
        run={"runs_dir": str(tmp_path / "runs"), "responses": first.run_dir},
    )
    [second] = assay.run(path)
    assert [check["passed"] for check in lines(second)[0]["checks"]] == [False]
    assert lines(second)[0]["model_response"] == "Paris"


def test_checks_are_given_in_python_as_structs_or_as_mappings(tmp_path: Path) -> None:
    data = write_rows(tmp_path / "caps.jsonl", row("a", "Paris"))
    checks = [EqualsCheck(name="exact"), {"type": "length", "max": 4}]
    [run] = assay.run(str(data), model="scripted/say-Paris", checks=checks, runs_dir=str(tmp_path / "runs"))
    assert [(check["name"], check["passed"]) for check in lines(run)[0]["checks"]] == [("exact", True), ("length", False)]


def test_a_wrong_check_in_python_is_refused_before_any_call(tmp_path: Path) -> None:
    data = write_rows(tmp_path / "caps.jsonl", row("a", "Paris"))
    with pytest.raises(assay.UsageProblem, match=r"checks\[0\].type is 'equal'"):
        assay.run(str(data), model="scripted/say-Paris", checks=[{"type": "equal"}], runs_dir=str(tmp_path / "runs"))
    assert not (tmp_path / "runs").exists()
