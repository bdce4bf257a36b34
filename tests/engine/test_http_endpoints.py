"""Runs over an HTTP endpoint of a run file: planned with places, resumed, cached, sealed without keys, and refused when wrong."""

import json
from pathlib import Path

import pytest

from assay import RunRequest, RunResult, open_run, run
from assay.core.plan import plan_sha256
from assay.testing import StubProvider, StubReply, StubRequest
from tests.engine.run_settings import planned
from tests.models.asking import KEY

HEAD = "datasets: [rows.jsonl]\ncandidates: [mine]\njudges: [scripted/judge-5]\nproviders:\n"
ENTRY = """  - name: mine
    kind: http
    url: {url}/ask
    key_variable: APP_KEY
    headers: {{X-Team: "${{TEAM}}"}}
    body: {{q: "{{{{prompt}}}}", court: "{{{{metadata.court}}}}"}}
    answer: $.out.text
    steps: $.out.steps
    usage: {{input_tokens: $.usage.in, output_tokens: $.usage.out}}
    error: $.error
"""
ENVIRON = {"APP_KEY": KEY, "TEAM": "team-secret-123"}


def write(folder: Path, entry: str, *, more: str = "") -> RunRequest:
    rows = [
        {
            "schema_version": "legal_eval_v1",
            "id": f"r{number}",
            "dataset": "d",
            "task_type": "reference_qa",
            "prompt": f"What is {number}?",
            "reference_answers": ["4"],
            "metadata": {"court": f"court-{number}"},
        }
        for number in range(3)
    ]
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "run.yaml").write_text(HEAD + entry + more)
    return RunRequest(run_file=str(folder / "run.yaml"), runs_dir=str(folder / "runs"))


def answer(request: StubRequest) -> StubReply:
    steps = [{"tool": "search", "query": request.body["q"], "token": ENVIRON["TEAM"]}]
    return StubReply(body={"out": {"text": "4", "steps": steps}, "usage": {"in": 5, "out": 1}})


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in ENVIRON.items():
        monkeypatch.setenv(name, value)


def finished(request: RunRequest) -> RunResult:
    (result,) = run(request)
    return result


def test_an_endpoint_is_evaluated_and_its_steps_are_kept_without_keys(tmp_path: Path) -> None:
    with StubProvider(answer) as stub:
        result = finished(write(tmp_path, ENTRY.format(url=stub.base_url)))
    assert (result.counts.evaluated_records, result.state) == (3, "completed")
    assert {request.body["court"] for request in stub.requests} == {"court-0", "court-1", "court-2"}
    assert {request.headers["authorization"] for request in stub.requests} == {f"Bearer {KEY}"}
    attempts = [next(iter(open_run(result.run_dir).attempts(f"r{number}"))) for number in range(3)]
    assert [attempt["steps"][0]["tool"] for attempt in attempts] == ["search"] * 3
    assert {attempt["input_tokens"] for attempt in attempts} == {5}
    folder = Path(result.run_dir)
    stored = b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())
    assert KEY.encode() not in stored
    assert ENVIRON["TEAM"].encode() not in stored
    assert b"{{metadata.court}}" in stored, "the plan says what was sent"


def test_replies_of_an_endpoint_are_cached_by_what_is_sent(tmp_path: Path) -> None:
    with StubProvider(lambda _: StubReply(body={"out": {"text": "4", "steps": []}})) as stub:
        entry = ENTRY.format(url=stub.base_url)
        finished(write(tmp_path, entry, more="cache: {}\n"))
        again = finished(write(tmp_path, entry, more="cache: {}\n"))
        assert len(stub.requests) == 3
        finished(write(tmp_path, entry.replace("q:", "question: x, q:"), more="cache: {}\n"))
        assert len(stub.requests) == 6
    assert {tuple(line["flags"]) for line in open_run(again.run_dir).predictions()} == {("cached",)}


def test_a_run_is_another_one_when_its_requests_change(tmp_path: Path) -> None:
    entry = ENTRY.format(url="http://127.0.0.1:9")
    variants = [entry, entry.replace("$.out.text", "$.out"), entry.replace("q:", "p:"), entry.replace("/ask", "/other")]
    hashes = [plan_sha256(planned(write(tmp_path, variant), **ENVIRON).plans[0]) for variant in variants]
    assert len(set(hashes)) == len(variants)


def test_a_wrong_path_ends_the_run_with_the_structure_of_the_reply(tmp_path: Path) -> None:
    with StubProvider(lambda _: StubReply(body={"output": "4"})) as stub:
        result = finished(write(tmp_path, ENTRY.format(url=stub.base_url)))
    assert result.state == "failed"
    assert "has nothing at $.out.text; it has {output: text}" in result.problem
