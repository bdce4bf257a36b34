"""Entries of HTTP endpoints in a plan: what is refused, and which models they have."""

from pathlib import Path
from typing import Any

import pytest

from assay import open_run, run
from assay.testing import StubProvider, StubReply, StubRequest
from tests.engine.run_settings import problems_of
from tests.engine.test_http_endpoints import ENTRY, ENVIRON, write


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in ENVIRON.items():
        monkeypatch.setenv(name, value)


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
