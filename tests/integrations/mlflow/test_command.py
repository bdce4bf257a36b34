"""The options of pushes on the command line: where runs go, and what changes nothing."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from assay.core.errors import UsageProblem
from assay.integrations.mlflow.exporter import destination
from tests.integrations.mlflow.pushing import command, golden_file, runs_in
from tests.integrations.mlflow.serving import MlflowServer
from tests.integrations.mlflow.test_exporter import MODELS
from tests.surfaces.server.serving import free_port


def test_without_an_address_there_is_nowhere_to_push(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    with pytest.raises(UsageProblem, match="no MLflow server is named"):
        destination(None, None)


def test_run_with_mlflow_pushes_what_it_ran_and_still_says_that_a_gate_was_missed(
    client: Any, server: MlflowServer, tmp_path: Path
) -> None:
    models = ("--model", "scripted/say-4", "--judge", "scripted/judge-1")
    dataset = golden_file(tmp_path).rename(tmp_path / "five-sums.json")
    ran = command("run", dataset, *models, "--run-id", "direct", "--mlflow", server.uri, folder=tmp_path)
    assert ran.returncode == 1
    assert "direct: pushed to MLflow, experiment 'five-sums'" in ran.stderr
    assert [found.info.run_name for found in runs_in(client, "five-sums")] == ["direct"]


def test_a_server_that_is_not_there_changes_nothing_but_a_warning_that_says_how_to_push(tmp_path: Path) -> None:
    nowhere = f"http://me:hunter22@127.0.0.1:{free_port()}"
    ran = command("run", golden_file(tmp_path), *MODELS, "--run-id", "kept", "--mlflow", nowhere, folder=tmp_path)
    assert ran.returncode == 0
    assert f"push it later: assay mlflow push kept --uri {nowhere.replace('me:hunter22@', '')}" in ran.stderr
    assert "hunter22" not in ran.stderr + ran.stdout
    assert (tmp_path / "runs" / "kept" / "run_manifest.json").is_file()


def test_a_run_without_mlflow_imports_nothing_of_it(tmp_path: Path) -> None:
    watched = (
        "import sys, runpy\n"
        f"sys.argv = ['assay', 'run', {str(golden_file(tmp_path))!r}, *{MODELS!r}]\n"
        "try: runpy.run_module('assay', run_name='__main__')\n"
        "except SystemExit: print(sorted(name for name in sys.modules if 'mlflow' in name))\n"
    )
    ran = subprocess.run([sys.executable, "-c", watched], capture_output=True, text=True, cwd=tmp_path, check=True)
    assert ran.stdout.splitlines()[-1] == "[]"


def test_the_run_files_of_a_suite_say_where_their_runs_are_pushed_to(client: Any, server: MlflowServer, tmp_path: Path) -> None:
    golden_file(tmp_path)
    models = "candidates: [scripted/say-4, scripted/say-5]\njudges: [scripted/judge-5]\n"
    place = f"mlflow: {{uri: '{server.uri}', experiment: by-file}}\n"
    (tmp_path / "run.yaml").write_text(f"datasets: [sums.json]\n{models}{place}", encoding="utf-8")
    (tmp_path / "suite.yaml").write_text("suite: nightly\nruns: [{run: run.yaml}]\n", encoding="utf-8")
    assert command("suite", "suite.yaml", folder=tmp_path).returncode == 0
    assert len(runs_in(client, "by-file")) == 2


def test_a_run_file_may_not_hold_a_login(tmp_path: Path) -> None:
    golden_file(tmp_path)
    (tmp_path / "run.yaml").write_text("datasets: [sums.json]\nmlflow: {uri: 'http://me:hunter22@host'}\n", encoding="utf-8")
    ran = command("run", "run.yaml", folder=tmp_path)
    assert (ran.returncode, "an address without a user name or password" in ran.stderr) == (2, True)
    assert "hunter22" not in ran.stderr
