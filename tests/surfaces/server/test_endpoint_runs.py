"""Runs of the service over an HTTP endpoint of the operator's run file: chosen by name, failed by a wrong path, and resumed."""

from pathlib import Path
from typing import Any

from assay.testing import StubProvider, StubReply
from tests.models.asking import KEY
from tests.surfaces.server.serving import Serving, dataset

RUN_FILE = """candidates: [scripted/say-4]
judges: [scripted/judge-5]
providers:
  - {name: mine, kind: http, url: URL/ask, key_variable: APP_KEY, body: {q: "{{prompt}}", model: "{{model}}"}, answer: $.answer}
"""


def test_a_caller_chooses_an_endpoint_by_its_name_and_a_failed_run_is_resumed(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("APP_KEY", KEY)
    replies: dict[str, Any] = {"body": {"output": "4"}}
    with StubProvider(lambda _: StubReply(**replies)) as stub:
        run_file = RUN_FILE.replace("URL", stub.base_url)
        with Serving(tmp_path, run_file=run_file, settings="models: ['*']\n") as serving:
            run_id = serving.submit(dataset(5), "?model=mine/fast").json["run_id"]
            failed = serving.ended(run_id)
            assert failed["state"] == "failed"
            assert "has nothing at $.answer; it has {output: text}" in failed["problem"]
            replies["body"] = {"answer": "4"}
            assert serving.ask("POST", f"/v1/runs/{run_id}/resume").status == 202
            assert serving.ended(run_id)["state"] == "completed"
            assert {request.body["model"] for request in stub.requests} == {"fast"}
            assert {request.headers["authorization"] for request in stub.requests} == {f"Bearer {KEY}"}
            elsewhere = serving.submit(dataset(1), "?model=http/x")
            assert elsewhere.status == 400
    stored = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert KEY.encode() not in stored
