"""The workflows and the hook that are shipped work: their steps are run as they stand, without a network."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
SEARCH_PATH = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])


def document(name: str) -> Any:
    return yaml.safe_load((ROOT / name).read_text(encoding="utf-8"))


def bash(script: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """A step as a runner of GitHub starts it."""
    known = {**os.environ, "PATH": SEARCH_PATH, "NO_COLOR": "1", **environment}
    return subprocess.run(
        ["bash", "-eo", "pipefail", "-c", script], cwd=folder, env=known, capture_output=True, text=True, check=False, timeout=100
    )


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A working folder with the examples."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    return tmp_path


def test_every_step_of_the_github_workflow_works_on_the_examples(checkout: Path) -> None:
    workflow = document("examples/ci/github-workflow.yml")
    steps = [step for step in workflow["jobs"]["evaluate"]["steps"] if "run" in step and step["name"] != "Install"]
    given = {**workflow["env"], "GITHUB_RUN_ID": "7", "GITHUB_SHA": "abc", "GITHUB_STEP_SUMMARY": str(checkout / "summary.md")}
    done = {step["name"]: bash(step["run"], checkout, **given) for step in steps}
    assert {name: step.stderr for name, step in done.items() if step.returncode} == {}
    assert list(done) == ["Validate the datasets", "Run", "Gate against the baseline", "Export", "Make it the baseline"]
    written = {path.name for path in (checkout / "results").iterdir()}
    assert written == {"datasets.xml", "run.xml", "gate.xml", "records.xlsx", "report.html"}
    headings = re.findall(r"^#+ (.+?)$", (checkout / "summary.md").read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert [heading for heading in headings if ":" in heading or "report" in heading] == [
        *("Validation report", "Evaluation: MET", "Gate: MET"),
    ]


def test_the_workflow_keeps_values_of_the_outside_out_of_its_scripts() -> None:
    steps = document("examples/ci/github-workflow.yml")["jobs"]["evaluate"]["steps"]
    assert [step["run"] for step in steps if "${{" in step.get("run", "")] == []


def test_every_step_of_the_gitlab_job_works_on_the_examples(checkout: Path) -> None:
    job = document("examples/ci/gitlab-ci.yml")["evaluate"]
    given = {
        **job["variables"],
        "CI_PIPELINE_ID": "7",
        "CI_COMMIT_SHA": "abc",
        "CI_COMMIT_BRANCH": "main",
        "CI_DEFAULT_BRANCH": "main",
    }
    done = bash("\n".join(job["script"]), checkout, **given)
    assert (done.returncode, done.stderr.count("JUnit in ")) == (0, 3)
    assert len(list((checkout / "results").glob("*.xml"))) == 3


def test_the_hook_takes_many_files_and_names_the_broken_one(checkout: Path) -> None:
    (hook,) = document(".pre-commit-hooks.yaml")
    shutil.move(checkout / "examples", checkout / "datasets")
    (checkout / "package.json").write_text("{}", encoding="utf-8")
    names = [path.relative_to(checkout).as_posix() for path in checkout.rglob("*") if path.is_file()]
    chosen = [name for name in sorted(names) if re.search(hook["files"], name) and "/batch_v1/" in name]
    done = bash(shlex.join([*shlex.split(hook["entry"]), *chosen]), checkout)
    assert "package.json" not in [name for name in names if re.search(hook["files"], name)]
    assert "datasets/legal_eval_v1/warm-up.jsonl" in [name for name in names if re.search(hook["files"], name)]
    assert (len(chosen), done.returncode) == (3, 1)
    assert "datasets/batch_v1/broken.json:22:19: error[invalid_field_type]" in done.stdout


def test_the_hook_passes_files_that_are_valid(checkout: Path) -> None:
    (hook,) = document(".pre-commit-hooks.yaml")
    good = ["examples/batch_v1/support-answers.json", "examples/golden_v1/assistant.json", "examples/legal_eval_v1/warm-up.jsonl"]
    assert bash(shlex.join([*shlex.split(hook["entry"]), *good]), checkout).returncode == 0
