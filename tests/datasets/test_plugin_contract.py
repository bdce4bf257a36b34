"""Contracts of one's own: a row in, a case and issues out; the door, places, duplicates and hashes are assay's."""

import json
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

import assay
from assay import api
from assay.core.canonical import canonical_json, sha256_hex
from assay.core.errors import UsageProblem
from assay.engine.execution.run import open_or_create
from assay.engine.storage.run_paths import folders_of
from assay.testing import example_dataset
from tests.engine.run_settings import write_rows
from tests.plugins.datasets import predictions
from tests.plugins.functions import is_reference, last_word
from tests.plugins.packages import Site

CODE = """
class Tickets:
    name = "tickets_v1"
    member = "tickets"

    def recognises(self, names):
        return {"ticket", "question"} <= names

    def case(self, row, found):
        if not row.get("answer"):
            found.missing(("answer",))
            return None
        if row["ticket"] < 0:
            found.add("no_such_code", ("ticket",), "tickets count from 0")
        if row.get("team") == "":
            found.warn("suspicious_value", ("team",), "the team is empty")
        made = {"id": f"t{row['ticket']}", "prompt": row["question"], "references": [row["answer"]]}
        return {**made, "metadata": {"team": row.get("team")}}

tickets = Tickets()
"""
POINTS = {"contracts": {"acme": "acme_tickets:Tickets"}}


def ticket(number: int, **members: Any) -> dict[str, Any]:
    return {"ticket": number, "question": f"Say word{number}", "answer": f"word{number}", **members}


@pytest.fixture
def contract(tmp_path: Path) -> str:
    (tmp_path / "mine.py").write_text(CODE, encoding="utf-8")
    return f"{tmp_path}/mine.py:Tickets"


def test_issues_have_lines_columns_and_paths(tmp_path: Path, contract: str) -> None:
    path = write_rows(tmp_path / "t.jsonl", ticket(1), {"ticket": 2, "question": "?", "answer": ""}, ticket(-3), ticket(4, team=""))
    report = assay.validate(path, contract)
    found = [(issue.index, issue.line, issue.path, issue.code, issue.severity) for issue in report.issues]
    assert found == [
        (1, 2, "answer", "missing_required_field", "error"),
        (2, 3, "ticket", "value_out_of_range", "error"),
        (3, 4, "team", "suspicious_value", "warning"),
    ]
    assert report.issues[1].message == "tickets count from 0 (no_such_code)"
    assert (report.outcome, report.counts.accepted_records) == ("accepted_with_record_errors", 2)


FORMATS = {
    "json list": ("t.json", json.dumps([ticket(1), ticket(2)])),
    "json member": ("t.json", json.dumps({"made": "today", "tickets": [ticket(1), ticket(2)]}, indent=1)),
    "yaml": ("t.yaml", "- {ticket: 1, question: Say word1, answer: word1}\n- {ticket: 2, question: Hm, answer: yes it is}\n"),
    "yaml member": ("t.yaml", "tickets:\n  - ticket: 1\n    question: a\n    answer: b\n  - {ticket: 2, question: c, answer: d}\n"),
}


@pytest.mark.parametrize(("name", "text"), FORMATS.values(), ids=FORMATS)
def test_rows_are_read_in_any_format(tmp_path: Path, contract: str, name: str, text: str) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    report = assay.validate(tmp_path / name, contract)
    assert [case.id for case in report.cases] == ["t1", "t2"]
    assert report.is_valid


def test_paths_in_a_document_begin_at_its_root(contract: str) -> None:
    text = json.dumps({"tickets": [ticket(1), ticket(2, answer="")]}, indent=1)
    (issue,) = assay.validate(text.encode(), contract).issues
    assert (issue.index, issue.path) == (1, "tickets[1].answer")
    assert text.splitlines()[(issue.line or 0) - 1].strip() == '"answer": ""'


def test_the_door_duplicates_and_hashes_are_ours(tmp_path: Path, contract: str) -> None:
    lines = [
        json.dumps(ticket(1)),
        '{"ticket": 2, "ticket": 3, "question": "a", "answer": "b"}',
        "{nonsense",
        json.dumps(ticket(1, team="x")),
    ]
    (tmp_path / "t.jsonl").write_text("\n".join(lines), encoding="utf-8")
    report = assay.validate(tmp_path / "t.jsonl", contract)
    assert [(issue.line, issue.code) for issue in report.issues] == [
        (2, "invalid_encoding"),
        (3, "invalid_json"),
        (4, "duplicate_record_id"),
    ]
    assert [case.record_sha256 for case in report.cases] == [sha256_hex(canonical_json(ticket(1)))]


def test_a_document_that_is_no_json_is_rejected_as_a_whole(contract: str) -> None:
    report = assay.validate(b'[{"ticket": 1,]', contract)
    assert (report.outcome, [issue.code for issue in report.issues], list(report.cases)) == ("rejected", ["invalid_json"], [])


CODE_FAULTS = {
    "raises": (lambda row, _: row["nothing"], "KeyError: 'nothing'"),
    "gives nothing": (lambda *_: None, "made no case of the row, and reported no issue"),
    "gives text": (lambda *_: "case", "it gave str, not a dict"),
    "unknown member": (lambda *_: {"id": "1", "promt": "x"}, "did you mean 'prompt'?"),
    "member of ours": (lambda *_: {"id": "1", "prompt": "x", "index": 7}, "'index'"),
    "wrong type": (lambda *_: {"id": 1, "prompt": "x"}, "id"),
    "no prompt": (lambda *_: {"id": "1"}, "neither a prompt nor messages"),
    "no choice is correct": (lambda *_: {"id": "1", "prompt": "x", "choices": [{"id": "A", "text": "a"}]}, "no choice is correct"),
}


@pytest.mark.parametrize(("make", "why"), CODE_FAULTS.values(), ids=CODE_FAULTS)
def test_a_fault_of_the_contract_is_an_issue_of_the_record(make: Any, why: str) -> None:
    report = assay.validate([ticket(1)], make)
    assert (report.outcome, [issue.code for issue in report.issues]) == ("rejected", ["contract_error"])
    assert why in report.issues[0].message


def test_tasks_follow_from_what_a_case_has() -> None:
    members = ({"references": ["a"]}, {"criteria": [{"id": "c", "title": "t"}]}, {})
    tasks = [
        next(assay.validate([ticket(1)], lambda row, _, m=m: {"id": "1", "prompt": row["question"], **m}).cases).task
        for m in members
    ]
    assert tasks == ["reference", "rubric", "open"]


def test_a_run_over_a_contract_of_ones_own(tmp_path: Path, contract: str) -> None:
    path = write_rows(tmp_path / "t.jsonl", ticket(1), ticket(2, team="post"))
    (result,) = api.run(path, contract=contract, model=last_word, grader=is_reference, runs_dir=str(tmp_path / "runs"))
    manifest = assay.open_run(result.run_dir).manifest
    assert (result.metrics["pass_rate"], manifest["contract"], [line["record_id"] for line in predictions(result)]) == (
        1,
        "tickets_v1",
        ["t1", "t2"],
    )
    assert {plugin["kind"] for plugin in manifest["plan"]["plugins"]} == {"contract", "grader", "model"}
    assert api.verify(result.run_id, runs_dir=tmp_path / "runs") == []
    assert api.replay(result.run_id, runs_dir=tmp_path / "runs") == []


def test_a_run_goes_on_with_the_same_contract_only(tmp_path: Path, contract: str) -> None:
    path = write_rows(tmp_path / "t.jsonl", ticket(1))
    request = api.RunRequest(datasets=(str(path),), contract=contract, models=(last_word,), grader=is_reference)
    for run_id in ("same", "changed"):
        plan = api.plan_runs(request).plans[0]
        open_or_create(_named(plan, run_id), folders_of(tmp_path / "runs", run_id), at=time.time())
    assert api.resume("same", runs_dir=tmp_path / "runs").state == "completed"
    (tmp_path / "mine.py").write_text(CODE + "# another\n", encoding="utf-8")
    with pytest.raises(UsageProblem, match="the contract 'tickets_v1' has changed"):
        api.resume("changed", runs_dir=tmp_path / "runs")


def test_an_installed_contract_is_recognised_by_content(tmp_path: Path) -> None:
    site = Site(tmp_path / "packages")
    site.install("acme_tickets", CODE, POINTS)
    path = write_rows(tmp_path / "t.jsonl", ticket(1))
    done = site.assay("run", str(path), "--model", "scripted/echo", "--judge", "scripted/judge-5", "--run-id", "x", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    plan = json.loads((tmp_path / "runs" / "x" / "run_manifest.json").read_bytes())["plan"]
    assert [(plugin["name"], plugin["distribution"]) for plugin in plan["plugins"]] == [("tickets_v1", "acme_tickets")]


def test_what_ours_recognise_is_never_a_plugins(tmp_path: Path) -> None:
    site = Site(tmp_path / "packages")
    site.install("greedy", CODE.replace('{"ticket", "question"} <= names', "True"), {"contracts": {"greedy": "greedy:Tickets"}})
    with site.here():
        assert assay.validate(example_dataset("batch_v1")).contract == "batch_v1"
        assert assay.validate(b'{"a": 1}', "built-in").contract is None


def test_a_contract_cannot_have_the_name_of_ours(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(CODE.replace("tickets_v1", "batch_v1"), encoding="utf-8")
    with pytest.raises(UsageProblem, match="'batch_v1' is built in"):
        assay.validate(b"[]", f"{tmp_path}/mine.py:Tickets")


def _named(plan: Any, run_id: str) -> Any:
    return msgspec.structs.replace(plan, run_id=run_id)
