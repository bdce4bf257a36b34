"""Repeats and panels on the command line: reports, lists, dry runs, and what is refused."""

import json

import pytest
from click.testing import Result

from assay.core.artifact_lines import JudgeDisagreement
from assay.core.outcome import Score
from assay.presentation.judges import disagreement_sections
from assay.surfaces.reporters.formats import ReportSettings
from assay.surfaces.reporters.terminal import report_text
from tests.commands import assay
from tests.surfaces.conftest import HOSTILE

pytestmark = pytest.mark.usefixtures("workplace")
PLAIN = ReportSettings(version="1", width=None, is_coloured=False, is_verbose=False)
JUDGES = ("--judge", "scripted/judge-2", "--judge", "scripted/judge-4")


def run(*options: str) -> Result:
    return assay("run", "golden.json", "--model", "scripted/echo", "--run-id", "x", "--quiet", *options)


def test_a_report_names_the_panel_its_judges_and_where_they_disagree() -> None:
    said = run(*JUDGES).stdout
    assert "panel       5 records judged · 5 with different votes, 5 of them tied" in said
    assert "next        assay show x sum-1\n            assay show x --disagreements" in said


def test_disagreements_are_shown_as_text_and_as_json() -> None:
    run(*JUDGES)
    text, document = assay("show", "x", "--disagreements"), json.loads(assay("show", "x", "--disagreements", "--json").stdout)
    assert text.stdout.startswith("x · 5 disagreements, the widest apart first\n\nsum-1 · rubric · judges say 2, 4; a tie")
    assert [entry["record_id"] for entry in document["disagreements"]] == [f"sum-{number}" for number in range(1, 6)]
    assert document["disagreements"][0]["votes"][1]["judge"] == "scripted/judge-4"


def test_a_run_without_a_panel_has_no_disagreements() -> None:
    run(*JUDGES[:2])
    assert assay("show", "x", "--disagreements").stdout == "x · no judges disagree\n"


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (("sum-1", "--disagreements"), "--disagreements are of a whole run"),
        (("--sample", "1"), "--sample is an answer to a record"),
    ],
)
def test_options_of_show_that_do_not_go_together_are_refused(options: tuple[str, ...], complaint: str) -> None:
    run(*JUDGES)
    refused = assay("show", "x", *options)
    assert (refused.exit_code, complaint in refused.stderr) == (2, True)


def test_a_dry_run_says_who_is_asked_how_often() -> None:
    said = run(*JUDGES, "--repeat", "3", "--escalate", "--quorum", "1", "--dry-run").stdout
    assert "5 to evaluate · 3 times each" in said
    assert "panel       scripted/judge-2 first, the others where it is unsure · at least 1 of 2 judges must vote" in said
    assert "15 calls of candidates · at least 15 of judges" in said


def test_show_tells_one_answer_of_several_and_what_came_of_the_others() -> None:
    run(*JUDGES[:2], "--repeat", "2")
    said = assay("show", "x", "sum-2", "--sample", "1").stdout
    assert said.startswith("sum-2 (sample 1) · not passed · score 2 on 1-5")
    assert "sample  score  result      why\n     0      2  not passed\n     1      2  not passed\n" in said


def test_a_markdown_report_says_that_records_were_asked_several_times_and_judges_differ() -> None:
    said = run(*JUDGES, "--repeat", "2", "--markdown").stdout
    assert "They do not agree on 10 of 10 records." in said
    assert "Every record has 2 answers, and each counts; intervals are by record." in said


def test_what_judges_say_cannot_move_the_cursor_or_begin_a_line() -> None:
    vote = Score(criterion=HOSTILE, score=3.0, scale="1-5", normalized=0.5, judge=HOSTILE, justification=HOSTILE)
    entry = JudgeDisagreement(
        record_id=HOSTILE,
        index=0,
        passed=True,
        criterion=HOSTILE,
        score=2.0,
        spread=0.5,
        is_tied=False,
        is_escalated=False,
        missing=(),
        words="judges say 1, 3",
        votes=(vote,),
    )
    text = "".join(report_text(disagreement_sections("x", [entry], is_verbose=False), PLAIN))
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "\n::warning" not in text
