"""The OpenAPI document and the service agree, as far as a fuzzer can tell."""

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from assay.surfaces.server.app import HANDLERS, addresses
from tests.surfaces.server.serving import Serving, dataset

pytestmark = pytest.mark.skipif(find_spec("schemathesis") is None, reason="schemathesis is not installed")


def test_fuzzer_finds_nothing(service: Serving, tmp_path: Path) -> None:
    run_id = service.ended(service.submit(dataset(3)).json["run_id"])["run_id"]
    known = {"run_id": run_id, "record_id": "q_0001", "name": "predictions.jsonl", "before": run_id, "after": run_id}
    lines = ["[parameters]", *(f"{name} = {json.dumps(value)}" for name, value in known.items())]
    # What the contract refuses with 400 is more than a schema can say.
    lines += [
        "[[operations]]",
        'include-operation-id = "submit_run"',
        "[operations.checks]",
        "positive_data_acceptance.enabled = false",
        # Values that are too long may be refused by their number of characters, before anything reads them.
        "[checks]",
        "negative_data_rejection.expected-statuses = [400, 401, 403, 404, 405, 406, 409, 414, 415, 422, 428, 429, '5xx']",
    ]
    (tmp_path / "schemathesis.toml").write_text("\n".join(lines), encoding="utf-8")
    command = [Path(sys.executable).with_name("schemathesis"), "run", f"http://127.0.0.1:{service.port}/openapi.json"]
    options = ["--max-examples", "8", "--generation-deterministic", "--phases", "coverage,fuzzing"]
    done = subprocess.run([*command, *options], cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout[-6000:]


def test_every_address_says_what_it_takes_and_answers(service: Serving) -> None:
    document = service.ask("GET", "/openapi.json").json
    operations = [operation for methods in document["paths"].values() for operation in methods.values()]
    assert len(operations) >= 22
    assert [
        operation["operationId"] for operation in operations if not operation["summary"] or "400" not in operation["responses"]
    ] == []


def test_summary_of_an_address_is_what_its_code_says_of_it() -> None:
    said = {handler.handler_name: handler.fn.__doc__ for handler in HANDLERS}
    paths = addresses()["paths"]
    assert {o["operationId"]: o["summary"] for methods in paths.values() for o in methods.values()}.items() <= said.items()
