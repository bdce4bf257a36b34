"""Runs over an HTTP endpoint of a run file: planned with places, resumed, cached, sealed without keys, and refused when wrong."""

import asyncio
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from assay import RunRequest, RunResult, open_run, run
from assay.core.plan import plan_sha256
from assay.engine.planning.model_probes import probe_models
from assay.testing import StubProvider, StubReply, StubRequest
from tests.engine.run_settings import planned, problems_of
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


def test_metadata_that_an_endpoint_is_sent_is_not_reported_as_unsent(tmp_path: Path) -> None:
    entry = ENTRY.format(url="http://127.0.0.1:9")
    (dataset,) = planned(write(tmp_path, entry), **ENVIRON).plans[0].datasets
    assert "metadata" not in dataset.fields.get("not_sent", {})
    (dataset,) = planned(write(tmp_path, entry.replace("{{metadata.court}}", "none")), **ENVIRON).plans[0].datasets
    assert dataset.fields["not_sent"]["metadata"] == 3


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


@pytest.mark.parametrize(
    ("change", "place", "problem"),
    [
        (("kind: http", "kind: openai"), "7:", "'url' describes an HTTP endpoint; set kind: http, or leave it out"),
        (("    answer: $.out.text\n", ""), "5:", "the HTTP endpoint 'mine' needs 'answer', the path of the answer"),
        (("$.out.text", "$.out.[text"), "11:", "the path '$.out.[text' cannot be read from '.[text' on"),
        (
            ("$.out.text", "out.text"),
            "11:",
            "the path 'out.text' does not begin with $, which stands for the whole reply: write $.out.text",
        ),
        (("{{prompt}}", "{{question}}"), "10:", "'{{question}}' stands for no value; known are {{prompt}}"),
        (("127.0.0.1:9", "{{metadata.host}}"), "7:", "the host of url must be fixed"),
        (('"${TEAM}"', "sk-abcdefghijklmnop"), "9:", "the header 'X-Team' seems to hold a key"),
        (("court:", "api_key: abc, court:"), "10:", "'api_key' seems to hold a key"),
        (("/ask", "/ask?api_key=abc"), "7:", "'url' seems to hold a key"),
        (("    error: $.error\n", "    session: $.id\n"), "14:", "the id of a session is read but not sent"),
        (("$.usage.in", "$.usage..in"), "13:", "cannot be read from '..in' on"),
    ],
)
def test_a_wrong_entry_is_refused_at_its_place(tmp_path: Path, change: tuple[str, str], place: str, problem: str) -> None:
    entry = ENTRY.format(url="http://127.0.0.1:9").replace(*change)
    problems = problems_of(write(tmp_path, entry), **ENVIRON)
    assert [line for line in problems if problem in line and f"run.yaml:{place}" in line], problems


def test_parameters_of_an_endpoint_stand_in_its_body(tmp_path: Path) -> None:
    request = write(tmp_path, ENTRY.format(url="http://127.0.0.1:9"))
    path = tmp_path / "run.yaml"
    path.write_text(path.read_text().replace("[mine]", "[{model: mine/fast, temperature: 0.5}]"))
    (problem,) = problems_of(request, **ENVIRON)
    assert problem.endswith("'mine/fast' is an HTTP endpoint, which gets what its body says; put parameters there")


def test_an_endpoint_has_models_of_any_name(tmp_path: Path) -> None:
    def said(request: StubRequest) -> StubReply:
        return StubReply(body={"a": f"I am {request.body['model']}."})

    with StubProvider(said) as stub:
        body = "{q: '{{prompt}}', model: '{{model}}'}"
        entry = f"  - {{name: mine, kind: http, url: {stub.base_url}, body: {body}, answer: $.a}}\n"
        request = write(tmp_path, entry)
        path = tmp_path / "run.yaml"
        path.write_text(path.read_text().replace("[mine]", "[mine, mine/fast]"))
        results: list[Any] = run(request)
    lines = [next(iter(open_run(result.run_dir).predictions())) for result in results]
    assert [(line["candidate_name"], line["model_response"]) for line in lines] == [
        ("mine", "I am mine."),
        ("mine/fast", "I am fast."),
    ]


def test_a_probe_shows_the_request_and_what_was_read(tmp_path: Path) -> None:
    with StubProvider(answer) as stub:
        (plan,) = planned(write(tmp_path, ENTRY.format(url=stub.base_url)), **ENVIRON).plans
        candidate, _judge = asyncio.run(probe_models([plan], environ=ENVIRON))
    assert [check.standing for check in candidate.checks if check.standing == "problem"] == []
    assert candidate.exchange is not None
    assert candidate.exchange.request.splitlines() == [
        f"POST {stub.base_url}/ask",
        "Authorization: ***",
        "X-Team: ***",
        '{"q":"What is 2 + 2? Answer with the number alone.","court":"metadata.court"}',
    ]
    assert candidate.exchange.read["answer"] == "4"
    assert ENVIRON["TEAM"] not in repr(candidate)


def test_an_endpoint_needs_an_entry(tmp_path: Path) -> None:
    request = write(tmp_path, "  - {name: other}\n")
    path = tmp_path / "run.yaml"
    path.write_text(path.read_text().replace("[mine]", "[http/x]"))
    (problem,) = problems_of(request)
    assert "the provider 'http' needs an entry in providers, with kind: http" in problem


def test_an_endpoint_has_its_address_in_its_entry_alone(tmp_path: Path) -> None:
    request = write(tmp_path, ENTRY.format(url="http://127.0.0.1:9"))
    (problem,) = problems_of(msgspec.structs.replace(request, base_url="http://127.0.0.1:9/v1"), **ENVIRON)
    assert problem == "--base-url: the HTTP endpoint 'mine' has its address in url; leave base_url out"
