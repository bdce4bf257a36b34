import json
from pathlib import Path
from typing import Any

import pytest

from assay.core.checks import MAX_CHECKS
from assay.engine.planning.request import RunRequest
from tests.engine.run_settings import JUDGE, planned, problems_of, write_batch, write_rows


def row(row_id: str, *checks: Any, references: tuple[str, ...] = ("Paris",), **members: Any) -> dict[str, Any]:
    head = {"schema_version": "legal_eval_v1", "id": row_id, "dataset": "caps", "task_type": "reference_qa", "prompt": "Where?"}
    metadata = {"checks": list(checks)} if checks else {}
    return {**head, "reference_answers": list(references), "metadata": metadata, **members}


def request(folder: Path, *rows: dict[str, Any], **changes: Any) -> RunRequest:
    write_rows(folder / "caps.jsonl", *rows)
    return RunRequest(**{"datasets": (str(folder / "caps.jsonl"),), "models": ("scripted/echo",), **changes})


def with_file(folder: Path, *rows: dict[str, Any], **settings: Any) -> RunRequest:
    write_rows(folder / "caps.jsonl", *rows)
    path = folder / "run.json"
    path.write_text(json.dumps({"datasets": ["caps.jsonl"], "candidates": ["scripted/echo"], **settings}), encoding="utf-8")
    return RunRequest(run_file=str(path))


def test_checks_of_records_need_no_judge(tmp_path: Path) -> None:
    runs = planned(request(tmp_path, row("a", {"type": "equals"}), row("b", {"type": "length", "max": 3})))
    assert (runs.judged_records, runs.plans[0].checks) == (0, ())


def test_a_record_without_checks_still_needs_a_judge(tmp_path: Path) -> None:
    (problem,) = problems_of(request(tmp_path, row("a", {"type": "equals"}), row("b")))
    assert "cannot be graded without a judge" in problem


def test_a_run_with_a_judge_counts_the_records_that_it_grades(tmp_path: Path) -> None:
    write_batch(
        tmp_path / "b.json",
        {"record_id": "a", "input": {"prompt": "?"}, "metadata": {"checks": [{"type": "is-json"}]}},
        {"record_id": "b", "input": {"prompt": "?"}, "reference": {"answer": "x"}, "metadata": {"checks": [{"type": "is-json"}]}},
    )
    runs = planned(RunRequest(datasets=(str(tmp_path / "b.json"),), models=("scripted/echo",), judges=(JUDGE,)))
    assert runs.judged_records == 1


def test_every_wrong_check_of_every_record_is_reported_with_its_line(tmp_path: Path) -> None:
    rows = (
        row("a", {"type": "equal"}, {"type": "regex", "value": "("}),
        row("b"),
        row("c", {"type": "length", "max": "3", "unit": "lines"}),
        row("d", metadata={"checks": "equals"}),
    )
    found = problems_of(with_file(tmp_path, *rows, checks=[{"type": "contain"}]))
    path = tmp_path / "caps.jsonl"
    texts = [problem.replace(str(path), "caps.jsonl") for problem in found]
    assert [text.partition(" is ")[0].partition(" must ")[0] for text in texts if text.startswith("caps.jsonl")] == [
        "caps.jsonl:1: record 'a': metadata.checks[0].type",
        "caps.jsonl:1: record 'a': metadata.checks[1].value: the pattern cannot be used: missing ): ( (patterns are in the syntax "
        "of RE2, which has neither look-around nor back-references)",
        "caps.jsonl:3: record 'c': metadata.checks[0].max",
        "caps.jsonl:3: record 'c': metadata.checks[0].unit",
        "caps.jsonl:4: record 'd': metadata.checks",
    ]
    assert any("run.json:1:" in text and "checks[0].type is 'contain'" in text for text in texts)


def test_a_check_without_anything_to_compare_with_is_refused(tmp_path: Path) -> None:
    rows = [{"record_id": "a", "input": {"prompt": "?"}}, {"record_id": "b", "input": {"prompt": "?"}}]
    write_batch(tmp_path / "b.json", *rows)
    path = tmp_path / "run.json"
    path.write_text(json.dumps({"datasets": ["b.json"], "candidates": ["scripted/echo"], "checks": [{"type": "equals"}]}))
    (problem,) = problems_of(RunRequest(run_file=str(path)))
    assert problem.startswith("the check 'equals' has nothing to compare an answer with")


def test_records_without_a_reference_are_noted(tmp_path: Path) -> None:
    rows = [
        {"record_id": name, "input": {"prompt": "?"}, **more} for name, more in (("a", {"reference": {"answer": "x"}}), ("b", {}))
    ]
    write_batch(tmp_path / "b.json", *rows)
    path = tmp_path / "run.json"
    path.write_text(json.dumps({"datasets": ["b.json"], "candidates": ["scripted/echo"], "checks": [{"type": "equals"}]}))
    notes = planned(RunRequest(run_file=str(path))).notes
    assert notes[0] == "the check 'equals' has no value, and 1 of 2 records have no reference for it: it is left out there"
    assert notes[1].startswith("1 of 2 records that only checks grade have nothing to compare an answer with")


def test_checks_without_a_weight_cannot_grade_alone(tmp_path: Path) -> None:
    (problem,) = problems_of(with_file(tmp_path, row("a"), checks=[{"type": "equals", "weight": 0}]))
    assert problem == "1 record(s) are graded by checks alone, of which none has a weight above 0"


@pytest.mark.parametrize(("kind", "limit"), [("latency", {"max_ms": 1}), ("cost", {"max_usd": 1})])
def test_what_given_answers_cannot_tell_is_noted(tmp_path: Path, kind: str, limit: dict[str, Any]) -> None:
    write_rows(tmp_path / "answers.jsonl", {"example_id": "a", "candidate_name": "m", "response_text": "Paris"})
    checks = [{"type": "equals"}, {"type": kind, **limit}]
    asked = with_file(tmp_path, row("a"), checks=checks, candidates=[], run={"responses": "answers.jsonl"})
    assert planned(asked).notes == (f"the answers are given, so that their {kind} is not known: checks of it have no result",)


def test_an_unknown_price_is_noted_for_checks_of_the_cost(tmp_path: Path) -> None:
    checks = [{"type": "equals"}, {"type": "cost", "max_usd": 1}]
    entry = {"name": "here", "base_url": "http://127.0.0.1:9/v1"}
    notes = planned(with_file(tmp_path, row("a"), checks=checks, candidates=["here/m"], providers=[entry])).notes
    assert "the price of 'here/m' is not known: checks of the cost have no result; set --price" in notes


def test_names_of_checks_are_limited_because_each_is_a_metric(tmp_path: Path) -> None:
    rows = [row(f"r{number}", {"type": "equals", "name": f"c{number}"}) for number in range(MAX_CHECKS + 1)]
    (problem,) = problems_of(request(tmp_path, *rows))
    assert problem.startswith("the records' checks have more than 200 names")
