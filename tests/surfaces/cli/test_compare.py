"""`assay compare`."""

import json
from pathlib import Path

import pytest

from assay import api
from tests.commands import assay
from tests.engine.graded_runs import graded, passing, question
from tests.surfaces.conftest import HOSTILE

ANSWER = HOSTILE.replace("\ud800", "")
ROWS = [question(f"q{number}") for number in range(8)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("compared")
    graded(folder, "old", ROWS, passing(ROWS, 1))
    graded(folder, "new", ROWS, {**passing(ROWS), "q0": ANSWER, "q2": ANSWER})
    return folder / "runs"


def test_the_report_says_what_changed_and_what_it_is_worth(folder: Path) -> None:
    result = assay("compare", "old", "new", "--runs-dir", str(folder))
    assert result.exit_code == 0
    assert "pass rate  87.5 %  75.0 %  -12.5 pp [" in result.stdout
    flips = "1 better and 2 worse of 8 records; McNemar's exact p 1.000"
    assert f"UNDECIDED   no significant difference in pass rate ({flips})" in result.stdout


def test_a_difference_that_is_shown_says_why_the_exact_test_is_less_sure(folder: Path) -> None:
    graded(folder.parent, "worst", ROWS, passing(ROWS, 1, 2, 3, 4, 5))
    found = " ".join(assay("compare", "old", "worst", "--runs-dir", str(folder)).stdout.split())
    assert "WORSE the pass rate is lower (0 better and 4 worse of 8 records, p 0.046;" in found
    assert "McNemar's exact p 0.125: it is the more cautious test, and does not decide)" in found


def test_runs_without_a_common_grade_have_no_table_of_differences(folder: Path) -> None:
    api.run(folder.parent / "law.jsonl", model="scripted/fail-invalid_request", run_id="failed", runs_dir=str(folder))
    text = assay("compare", "old", "failed", "--runs-dir", str(folder)).stdout
    markdown = assay("compare", "old", "failed", "--markdown", "--runs-dir", str(folder)).stdout
    assert text.startswith("before      old")
    assert "UNDECIDED   no record was graded in both runs\n" in text
    assert [said.count("no record was graded") for said in (text, markdown)] == [1, 1]
    assert [word for word in ("score 0-1", "pass rate", "|") if word in text + markdown] == []


def test_flips_are_as_many_as_are_asked_for(folder: Path) -> None:
    one, none = (assay("compare", "old", "new", "--flips", count, "--runs-dir", str(folder)).stdout for count in ("1", "0"))
    assert "… and 2 more flips" in one
    assert "answer and why" not in none


def test_answers_of_models_reach_no_terminal_and_no_markdown_as_they_are(folder: Path) -> None:
    text = assay("compare", "old", "new", "--runs-dir", str(folder)).stdout
    markdown = assay("compare", "old", "new", "--markdown", "--runs-dir", str(folder)).stdout
    assert "\x1b" not in text
    assert "gnp.exe" in text
    assert "<script" not in markdown
    assert "\u202e" not in markdown


def test_scripts_get_the_whole_comparison(folder: Path) -> None:
    found = json.loads(assay("compare", "old", "new", "--json", "--flips", "all", "--runs-dir", str(folder)).stdout)
    assert (found["n"], found["n_flips"], len(found["flips"]), found["mcnemar"]["worse"]) == (8, 3, 3, 2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("old", "nowhere"), "nowhere"),
        (("old", "new", "--flips", "some"), "--flips takes a number or 'all', not 'some'"),
        (("old", "new", "--json", "--markdown"), "both want standard output"),
    ],
)
def test_what_cannot_be_compared_is_one_line_and_exit_2(folder: Path, arguments: tuple[str, ...], message: str) -> None:
    result = assay("compare", *arguments, "--runs-dir", str(folder))
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr
