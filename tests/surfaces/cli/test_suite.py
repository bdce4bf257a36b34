"""'assay suite' on the command line."""

from pathlib import Path

import pytest

from tests.commands import assay
from tests.surfaces.cli.test_pipeline import cases, commands
from tests.surfaces.cli.test_run import FULL, RUN_FILE, needs_full


@pytest.fixture
def summary(workplace: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with a golden dataset, as a step of a job has one."""
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(workplace / "summary.md"))
    return workplace / "summary.md"


@pytest.mark.usefixtures("workplace")
@needs_full
def test_a_suite_whose_report_cannot_be_written_says_what_writes_it() -> None:
    Path("run.yaml").write_text(RUN_FILE, encoding="utf-8")
    Path("suite.yaml").write_text("runs: [{run: run.yaml}]", encoding="utf-8")
    result = assay("suite", "suite.yaml", "--run-id", "night", "--quiet", "--markdown", FULL)
    assert result.exit_code == 2
    assert "  run 'night-run' is in runs/night-run\n" in result.stderr
    assert result.stderr.endswith("no call is repeated: assay suite suite.yaml --run-id night --markdown /dev/full\n")


def test_a_broken_suite_is_one_complaint_and_exit_2(tmp_path: Path) -> None:
    (tmp_path / "suite.yaml").write_text("suite: nightly\nrun: x.yaml\n", encoding="utf-8")
    result = assay("suite", str(tmp_path / "suite.yaml"))
    assert (result.exit_code, result.stdout) == (2, "")
    assert "unknown key 'run' (did you mean 'runs'?)" in result.stderr


def test_a_suite_tells_of_runs_that_may_fail_without_failing(summary: Path) -> None:
    for name, judge in (("good", "5"), ("bad", "1")):
        lines = ["datasets: [golden.json]", "candidates: [scripted/echo]", f"judges: [scripted/judge-{judge}]"]
        Path(f"{name}.yaml").write_text("\n".join(lines), encoding="utf-8")
    suite = "suite: nightly\nruns:\n  - run: good.yaml\n  - {run: bad.yaml, required: false}\n"
    Path("suite.yaml").write_text(suite, encoding="utf-8")
    result = assay("suite", "suite.yaml", "--run-id", "n", "--github", "--junit", "suite.xml", "--markdown", "suite.md", "--quiet")
    assert result.exit_code == 0
    assert "error" not in {kind for kind, _, _ in commands(result.stdout)}
    assert summary.read_text(encoding="utf-8") == Path("suite.md").read_text(encoding="utf-8")
    assert cases("suite.xml")["mean score"] == "passed"
