"""A golden file of another size than the contract's 5 to 20 cases is accepted by the same switch in every interface."""

import json
from pathlib import Path
from typing import Any

import pytest

import assay
from assay import api
from tests.commands import assay as command
from tests.surfaces.server.serving import Serving

MODELS = ("--model", "scripted/echo", "--judge", "scripted/judge-5")


def golden(cases: int) -> dict[str, Any]:
    listed = [
        {"id": f"case-{number}", "user_prompt": f"What is {number}?", "rubric": "The answer names the number."}
        for number in range(cases)
    ]
    return {"version": "1.0.0", "cases": listed}


@pytest.fixture(params=[1, 21])
def path(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file with too few cases, or too many."""
    monkeypatch.chdir(tmp_path)
    found = tmp_path / "golden.json"
    found.write_text(json.dumps(golden(request.param)), encoding="utf-8")
    return found


def hints(report: assay.ValidationReport) -> list[str]:
    return [issue.hint for issue in report.issues if issue.path == "cases"]


def test_python_says_allow_size_and_takes_it(path: Path) -> None:
    (hint,) = hints(assay.validate(path))
    assert "pass allow_size=True" in hint
    assert "--allow-size" not in hint
    assert assay.validate(path, allow_size=True).outcome == "accepted"
    assert assay.validate(path, config=assay.ValidationConfig(allow_size=True)).outcome == "accepted"
    assert assay.run(path, model="scripted/echo", judge="scripted/judge-5", allow_size=True)
    with pytest.raises(api.PlanProblems, match="pass allow_size=True"):
        assay.run(path, model="scripted/echo", judge="scripted/judge-5")


def test_command_line_says_its_option_and_takes_it(path: Path) -> None:
    refused = command("validate", str(path))
    assert (refused.exit_code, "--allow-size" in refused.stdout, "allow_size=" in refused.stdout) == (1, True, False)
    assert command("validate", "--allow-size", str(path)).exit_code == 0
    refused = command("run", str(path), *MODELS)
    assert (refused.exit_code, "--allow-size" in refused.stderr, "allow_size=" in refused.stderr) == (2, True, False)
    assert command("run", "--allow-size", str(path), *MODELS).exit_code == 0


def test_run_file_takes_it(path: Path) -> None:
    lines = f"datasets: [{path.name}]\ncandidates: [scripted/echo]\njudges: [scripted/judge-5]\n"
    Path("run.yaml").write_text(lines, encoding="utf-8")
    assert "--allow-size" in command("check", "run.yaml").output
    Path("run.yaml").write_text(f"{lines}allow_size: true\n", encoding="utf-8")
    assert command("check", "run.yaml").exit_code == 0
    assert command("run", "run.yaml").exit_code == 0


@pytest.mark.parametrize("cases", [1, 21])
def test_service_says_its_parameter_and_takes_it(service: Serving, cases: int) -> None:
    checked = service.ask("POST", "/v1/validate?contract=golden_v1", golden(cases)).json
    submitted = service.submit(golden(cases), "?contract=golden_v1")
    for errors in (checked["dataset_errors"], submitted.json["error"]["details"]["errors"]):
        (hint,) = [error["hint"] for error in errors]
        assert "send the parameter allow_size=true" in hint
    assert submitted.status == 400
    query = "?contract=golden_v1&allow_size=true"
    assert service.ask("POST", f"/v1/validate{query}", golden(cases)).json["outcome"] == "accepted"
    assert service.submit(golden(cases), query).status == 202


def test_client_takes_it(service: Serving) -> None:
    client = api.Client(f"http://127.0.0.1:{service.port}")
    content = json.dumps(golden(2)).encode()
    assert client.validate(content, contract="golden_v1").outcome == "rejected"
    assert client.validate(content, contract="golden_v1", allow_size=True).outcome == "accepted"
    assert client.start(content, contract="golden_v1", allow_size=True).status == "accepted"


def test_command_sends_it_to_a_server(service: Serving, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("golden.json").write_text(json.dumps(golden(2)), encoding="utf-8")
    where = ("--server", f"http://127.0.0.1:{service.port}", "--no-download")
    refused = command("run", "golden.json", *MODELS, *where)
    assert (refused.exit_code, "hint: give --allow-size to accept golden datasets" in refused.stderr) == (2, True)
    assert "allow_size=" not in refused.stderr
    assert command("run", "golden.json", "--allow-size", *MODELS, *where).exit_code == 0


def test_validation_page_names_its_box_and_heeds_it(tmp_path: Path) -> None:
    # A server of its own: what the page was sent stays there for a while, and other tests count what is left.
    with Serving(tmp_path) as service:
        shown: dict[str, str] = {}
        for ticked in ("", "true"):
            field = '--b\r\nContent-Disposition: form-data; name="{}"{}\r\n\r\n{}\r\n'
            parts = [field.format("file", '; filename="g.json"', json.dumps(golden(2))), field.format("allow_size", "", ticked)]
            headers = {"Content-Type": "multipart/form-data; boundary=b", "Origin": f"http://127.0.0.1:{service.port}"}
            address = service.ask("POST", "/validate", ("".join(parts) + "--b--\r\n").encode(), headers).headers["location"]
            service.wait_for(lambda address=address: b"data-wait" not in service.ask("GET", address).body)
            shown[ticked] = service.ask("GET", address).body.decode()
        label = "Accept golden datasets with fewer than 5 or more than 20 cases"
        assert f"tick “{label}”" in shown[""]
        assert label in service.ask("GET", "/validate").body.decode()
        assert "Start the run" in shown["true"]


@pytest.mark.usefixtures("path")
def test_a_suite_says_what_a_run_file_takes() -> None:
    settings = {"datasets": ["golden.json"], "candidates": ["scripted/echo"], "judges": ["scripted/judge-5"]}
    Path("run.yaml").write_text(json.dumps(settings), encoding="utf-8")
    Path("suite.yaml").write_text(json.dumps({"runs": [{"run": "run.yaml"}]}), encoding="utf-8")
    refused = command("suite", "suite.yaml")
    assert refused.exit_code == 2
    assert "in a run file or config: allow_size: true" in refused.output
    assert "allow_size=True" not in refused.output
