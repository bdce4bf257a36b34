"""Custom redaction rules of a server: they hold for every run, over every route."""

import json
from pathlib import Path

import pytest

from assay.core.errors import UsageProblem
from assay.surfaces.server.settings import read_server_settings
from tests.surfaces.server.serving import Serving, dataset

SETTINGS = "redact: [{name: employee, pattern: 'EMP-[0-9]{5}'}]\nrequests_per_minute: 100000\n"
RUN_FILE = """\
candidates: [scripted/echo]
judges: [scripted/judge-5]
redact: [{name: project, pattern: 'Project Falcon'}]
"""
SECRETS = ("EMP-12345", "Project Falcon", "192.168.77.41")


def test_the_rules_of_settings_and_run_file_hold_for_artifacts_responses_and_events(tmp_path: Path) -> None:
    sent = dataset(2)
    sent["records"][0]["input"]["prompt"] += f" asks {' and '.join(SECRETS)}"
    with Serving(tmp_path, settings=SETTINGS, run_file=RUN_FILE) as serving:
        run_id = serving.submit(sent).json["run_id"]
        ended = serving.ended(run_id)
        assert ended["state"].startswith("completed")
        paths = ("", "/records", "/records/0", "/errors", "/failures", "/events", "/artifacts", "/artifacts/run_manifest.json")
        answers = {path: serving.ask("GET", f"/v1/runs/{run_id}{path}") for path in paths}
        manifest = json.loads((serving.runs_dir / run_id / "run_manifest.json").read_text())
        stored = [path for path in serving.runs_dir.rglob("*") if path.is_file()]
    assert {path: answer.status for path, answer in answers.items() if answer.status != 200} == {}
    assert {path for path, answer in answers.items() if any(secret in str(answer.body) for secret in SECRETS)} == set()
    assert [path.name for path in stored if any(secret.encode() in path.read_bytes() for secret in SECRETS)] == []
    assert manifest["redactions"]["employee"] >= 2
    assert manifest["redactions"]["project"] >= 2
    assert manifest["redactions"]["ip_address"] >= 2


def test_every_bad_rule_of_a_server_is_reported_at_once_with_its_location(tmp_path: Path) -> None:
    path = tmp_path / "server.yaml"
    path.write_text("redact: [{name: a, pattern: '('}, {name: b, pattern: 'x'}, {name: b, pattern: 'x*'}]\n")
    with pytest.raises(UsageProblem) as caught:
        read_server_settings(str(path))
    assert "redact[0].pattern: the pattern cannot be used: missing ): (" in caught.value.message
    assert "redact[2].name: two rules have the name 'b'" in caught.value.message
