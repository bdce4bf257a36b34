"""`assay gate`, `assay baseline`, `assay trend`, `assay suite` and `assay audit`."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from assay.surfaces.cli.program import program
from tests.engine.graded_runs import graded, passing, question

ROWS = [question(f"q{number}") for number in range(30)]


def assay(*arguments: str, runs: Path) -> Result:
    return CliRunner().invoke(program, (*arguments, "--runs-dir", str(runs)), prog_name="assay")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("gates")
    graded(folder, "old", ROWS, passing(ROWS))
    graded(folder, "new", ROWS, passing(ROWS, *range(12)))
    return folder / "runs"


def test_a_regression_against_the_baseline_is_exit_1(runs: Path) -> None:
    assert assay("baseline", "set", "old", "--name", "release", runs=runs).stdout == "old is now the baseline 'release'\n"
    result = assay("gate", "new", "--baseline", "release", runs=runs)
    assert result.exit_code == 1
    assert result.stdout.startswith("MISSED      new against old · regression\n")
    assert "pass rate -40.0 pp against the baseline" in result.stdout


def test_a_gate_may_be_read_by_scripts_and_by_reviewers(runs: Path) -> None:
    found = json.loads(assay("gate", "new", "--baseline", "none", "--pass-rate", "0.5", "--json", runs=runs).stdout)
    assert (found["verdict"], found["passed"]) == ("WARNING", True)
    markdown = assay("gate", "new", "--baseline", "none", "--pass-rate", "0.7", "--markdown", runs=runs)
    assert markdown.stdout.startswith("## Gate: MISSED\n\n`new`\n\n- **MISSED** · pass rate 60.0 % is below 70.0 %\n")


def test_thresholds_given_to_the_gate_replace_those_of_the_run(runs: Path) -> None:
    assert assay("gate", "new", "--baseline", "none", "--pass-rate", "0.99", runs=runs).exit_code == 1
    assert assay("gate", "new", "--baseline", "none", runs=runs).exit_code == 0


def test_baselines_are_listed(runs: Path) -> None:
    assay("baseline", "set", "old", "--name", "shown", "--reason", "it is good", runs=runs)
    lines = assay("baseline", "show", runs=runs).stdout.splitlines()
    assert [line.split()[:2] for line in lines if line.startswith("shown")] == [["shown", "old"]]


def test_empty_lists_say_so_and_what_fills_them(tmp_path: Path) -> None:
    audit, shown = assay("audit", runs=tmp_path), assay("baseline", "show", runs=tmp_path)
    assert (audit.exit_code, audit.stdout, shown.exit_code, shown.stdout) == (0, "0 decisions\n", 0, "0 baselines\n")
    assert audit.stderr == f"hint: in '{tmp_path}'; assay gate, assay suite, assay baseline set and assay serve write here\n"
    assert shown.stderr == f"hint: in '{tmp_path}'; assay baseline set RUN chooses one\n"


def test_decisions_are_listed_with_their_reasons(runs: Path) -> None:
    assay("gate", "new", "--baseline", "none", "--max-error-rate", "0", runs=runs)
    assert "MET: error rate 0.0 % (at most 0.0 %)" in assay("audit", runs=runs).stdout


def test_a_trend_is_shown_and_drawn(runs: Path, tmp_path: Path) -> None:
    chart = tmp_path / "trend.svg"
    result = assay("trend", "--chart", str(chart), runs=runs)
    assert "direction   unknown: there are 2 runs, and a direction needs 5" in result.stdout
    assert chart.read_text(encoding="utf-8").startswith("<svg")


@pytest.mark.parametrize(
    "option", [("--pass-rate", "nan"), ("--delta", "inf"), ("--min-score", "nan"), ("--max-error-rate", "-inf")]
)
def test_a_threshold_that_is_no_number_is_refused(runs: Path, option: tuple[str, str]) -> None:
    result = assay("gate", "new", *option, runs=runs)
    assert (result.exit_code, result.stdout) == (2, "")
    assert option[0] in result.stderr


def _changed(tmp_path: Path, name: str, old: str, new: str) -> Path:
    """Two finished runs, one file of the later of which says something else now."""
    graded(tmp_path, "old", ROWS, passing(ROWS))
    graded(tmp_path, "new", ROWS, passing(ROWS, *range(12)))
    file = tmp_path / "runs" / "new" / name
    file.chmod(0o644)
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))
    return tmp_path / "runs"


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("metrics_summary.json", '"pass_rate": 0.6', '"pass_rate": 0.9'),
        ("predictions.jsonl", '"passed":false', '"passed":true'),
        ("run_manifest.json", '"evaluated_records": 30', '"evaluated_records": 31'),
    ],
)
@pytest.mark.parametrize("command", [("gate", "new"), ("gate", "old", "--baseline", "new"), ("baseline", "set", "new")])
def test_nothing_is_decided_by_files_that_were_changed(
    tmp_path: Path, command: tuple[str, ...], name: str, old: str, new: str
) -> None:
    runs = _changed(tmp_path, name, old, new)
    demanded = ("--baseline", "old") if command == ("gate", "new") else ()
    result = assay(*command, *demanded, runs=runs)
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"assay: run 'new' is not as it was published: {name}: was changed" in result.stderr
    assert "hint: see: assay verify new" in result.stderr
    assert not (runs / "audit.jsonl").exists()


def test_thresholds_need_no_records(tmp_path: Path) -> None:
    runs = _changed(tmp_path, "predictions.jsonl", '"passed":false', '"passed":true')
    assert assay("gate", "new", "--pass-rate", "0.5", "--baseline", "none", runs=runs).exit_code == 0


def test_a_manifest_that_cannot_be_read_is_not_as_it_was_published(tmp_path: Path) -> None:
    runs = _changed(tmp_path, "run_manifest.json", "{", "")
    result = assay("verify", "new", runs=runs)
    assert result.exit_code == 1
    assert "run_manifest.json: was changed, it cannot be read" in result.stdout
