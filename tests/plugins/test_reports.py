"""Reports on runs with code of one's own: each of them names who asked and who graded, and keeps what they said."""

from pathlib import Path

import pytest
from click.testing import CliRunner

import assay
from assay.surfaces.cli.program import program
from assay.surfaces.python_api.cards import run_cards
from tests.plugins.datasets import predictions, run_words, words

CODE = """
import assay

def shout(record):
    return record.prompt.upper()

def strict(record, answer):
    parts = {"first half": 0.0, "second half": 1.0}
    return assay.Judgement(score=0.5, passed=False, justification="missing: the first half", scores=parts)
"""


def command(*arguments: str | Path) -> str:
    """What the command prints, in this process."""
    done = CliRunner().invoke(program, [str(argument) for argument in arguments], prog_name="assay")
    assert done.exit_code in (0, 1), done.output
    return done.stdout


@pytest.fixture
def named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, ...]:
    """The options of a run with a policy and a grader of the current folder."""
    monkeypatch.chdir(tmp_path)
    Path("own.py").write_text(CODE, encoding="utf-8")
    return str(words(tmp_path, 1)), "--model", "scripted/echo", "--policy", "own.py:shout", "--grader", "own.py:strict"


@pytest.fixture
def graded(named: tuple[str, ...]) -> str:
    """The folder of such a run."""
    command("run", *named, "--pass-rate", "0.5", "--run-id", "words")
    return "runs/words"


def test_the_report_names_grader_and_policy(graded: str) -> None:
    shown = command("show", graded)
    assert "\npolicy      own.py:shout" in shown
    assert "\ngrader      own.py:strict" in shown


def test_the_plan_names_grader_and_policy(named: tuple[str, ...]) -> None:
    planned = command("run", *named, "--dry-run")
    assert "\npolicy      own.py:shout" in planned
    assert "\ngrader      own.py:strict" in planned


def test_the_page_names_grader_and_policy(graded: str) -> None:
    page = command("report", graded, "-o", "-")
    assert "<dt>Policy</dt>" in page
    assert "<dt>Grader</dt>" in page
    assert "own.py:strict" in page


def test_the_comment_on_a_change_names_grader_and_policy(named: tuple[str, ...]) -> None:
    comment = command("run", *named, "--markdown", "--quiet")
    assert " Policy: own.py:shout · source " in comment
    assert " Grader: own.py:strict · source " in comment


def test_the_card_of_a_notebook_names_grader_and_policy(graded: str) -> None:
    card = run_cards([assay.open_run(graded).reader])
    assert "policy own.py:shout" in card
    assert "grader own.py:strict" in card


def test_what_a_grader_says_is_kept_where_it_has_several_scores(graded: str) -> None:
    assert "missing: the first half" in command("show", graded).partition("worst")[2]


def test_a_grader_is_called_no_judge(graded: str) -> None:
    shown = command("show", graded)
    assert "grader p50" in shown
    assert "judge" not in shown
    assert "grader, round 1" in command("show", graded, "q:0")


@pytest.mark.parametrize("scores", [{}, {"tone": 0.5}])
def test_a_score_between_the_ends_of_a_scale_without_a_middle_is_no_grade(tmp_path: Path, scores: dict[str, float]) -> None:
    def half(_record: assay.Case, _answer: str) -> assay.Judgement:
        return assay.Judgement(score=0.0 if scores else 0.5, scale="0/1", scores=scores)

    (line,) = predictions(run_words(tmp_path, 1, model="scripted/echo", grader=half))
    assert (line["score"], line["error_code"]) == (None, "grader_invalid_result")
    assert "is 0.5, which is neither 0 nor 1, as the scale '0/1' says" in line["error_message"]
