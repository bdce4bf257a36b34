"""Whatever shows a run uses one vocabulary: passed, not passed, error; met, missed; rates as percentages."""

import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

import assay
from assay.surfaces.cli.program import program
from tests.engine.run_settings import mcq_row, write_rows

WORDS = re.compile(r"\b(fail|fails|failing|failed|failure|failures|PASS|FAIL)\b|\d evaluated\b|>evaluated\b")
RATES = re.compile(r"(?:pass rate|error rate|agreement|Pass rate)\D{0,12}[01]\.\d\d\b(?! %)")
TERMS = re.compile(
    # Artifacts, states, statuses, codes and options keep the terms of the contracts; so does JUnit.
    r"failures\.jsonl|evaluation_error|completed[ _]with[ _]failures|[a-z_]+_records|scripted/\S+|failed calls?"
    r"|[Ff]ailed attempts|the script fails|fail-invalid_request|live\|fail|--traces failed"
    r"|</?failure\b|failures=|status=\S+|(?:call_)?failed_\w+|--[a-z-]+"
)
HIDDEN = re.compile(
    r"<(script|style)\b.*?</\1>|\b(?:href|class|id|value|name|for|data-[a-z-]+|aria-labelledby|content|src)=\"[^\"]*\"", re.DOTALL
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs, each with a record that passed, one that did not, and one with an error."""
    folder = tmp_path_factory.mktemp("vocabulary")
    head = {"schema_version": "legal_eval_v1", "id": "unjudged", "dataset": "law", "task_type": "rubric_qa", "prompt": "Why?"}
    unjudged = {**head, "rubric": [{"id": "c1", "title": "States a reason"}]}
    rows = [mcq_row("right", correct_choice_ids=["B"]), mcq_row("wrong"), unjudged]
    write_rows(folder / "law.jsonl", *rows)
    for run_id, answer in (("old", "A"), ("new", "B")):
        options = {"model": f"scripted/say-{answer}", "judge": "scripted/fail-invalid_request", "pass_rate": 0.9}
        assay.run(str(folder / "law.jsonl"), run_id=run_id, runs_dir=str(folder / "runs"), **options)
    return folder


def shown(folder: Path, command: str) -> str:
    arguments = [word.replace("FOLDER", str(folder)) for word in shlex.split(command)]
    result = CliRunner().invoke(program, [*arguments, "--runs-dir", str(folder / "runs")], prog_name="assay")
    assert result.exit_code in (0, 1), result.output
    return result.output


def complaints(text: str) -> list[str]:
    """Lines with a word that users should not read, or with a rate that is not a percentage."""
    plain = TERMS.sub("", HIDDEN.sub("", text))
    return [line.strip()[:160] for line in plain.splitlines() if WORDS.search(line) or RATES.search(line)]


@pytest.mark.parametrize(
    "command",
    [
        "show new",
        "show new --verbose",
        "show new right",
        "show new wrong",
        "show new unjudged",
        "resume new --markdown -",
        "runs",
        "gate new --baseline none",
        "gate new --baseline none --markdown",
        "gate new --baseline old --github",
        "compare old new",
        "compare old new --markdown",
        "run FOLDER/law.jsonl --model scripted/say-B --judge scripted/judge-2 --pass-rate 0.9 --dry-run",
        "audit",
    ],
)
def test_what_a_command_prints(command: str, folder: Path) -> None:
    text = shown(folder, command)
    assert text
    assert complaints(text) == []


def test_a_report_in_one_file(folder: Path, tmp_path: Path) -> None:
    shown(folder, f"report new -o {tmp_path / 'report.html'}")
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "not passed" in text
    assert complaints(text) == []


def test_charts(folder: Path, tmp_path: Path) -> None:
    shown(folder, f"charts old new -o {tmp_path / 'charts'}")
    drawn = [path.read_text(encoding="utf-8") for path in (tmp_path / "charts").glob("*.svg")]
    assert any("50.0 %" in text for text in drawn)
    assert [complaint for text in drawn for complaint in complaints(text)] == []


def test_junit_texts(folder: Path, tmp_path: Path) -> None:
    shown(folder, f"gate new --baseline none --junit {tmp_path / 'gate.xml'}")
    text = (tmp_path / "gate.xml").read_text(encoding="utf-8")
    assert 'type="MISSED"' in text
    assert complaints(text) == []


def test_a_notebook(folder: Path) -> None:
    run, other = (assay.open_run(name, runs_dir=folder / "runs") for name in ("new", "old"))
    texts = (run._repr_html_(), repr(run), run.compare(other)._repr_html_())
    assert [complaint for text in texts for complaint in complaints(text)] == []


def test_the_help_of_commands() -> None:
    found = {}
    for name in (
        "run",
        "show",
        "gate",
        "suite",
        "retry",
        "resume",
        "compare",
        "trend",
        "runs",
        "report",
        "mlflow",
        "audit",
        "baseline",
    ):
        text = CliRunner().invoke(program, [name, "--help"], prog_name="assay").output
        found[name] = complaints(text)
    assert {name: lines for name, lines in found.items() if lines} == {}
