from pathlib import Path

import msgspec
import pytest

from assay import api
from assay.core.graders import CategoryScale
from assay.presentation.graders import (
    check_table,
    grader_score_table,
    grader_sections,
    grader_table,
    record_check_table,
    record_grader_table,
    scale_text,
    trial_sections,
)
from assay.presentation.run_report import RunReport, view_of
from assay.presentation.sections import Table
from tests.engine.graded_files import GRADERS, graded
from tests.surfaces.run_views import prediction

SIMILAR = {"name": "kin", "type": "similarity", "measure": "token_f1", "at_least": 0.5}
QUICK = {"name": "quick", "type": "latency", "max_ms": 9}


def view(folder: Path, **settings: object) -> RunReport:
    run = graded(folder, **settings)
    return view_of(api.open_run(run.run_id, runs_dir=folder / "runs"))


def texts(table: Table | None) -> list[list[str]]:
    assert table is not None
    return [[cell.text for cell in row] for row in table.rows]


def titles(table: Table) -> list[str]:
    return [column.title for column in table.columns]


def test_checks_have_a_row_each_with_their_rate(tmp_path: Path) -> None:
    found = view(tmp_path, graders=[], checks=[{"type": "equals"}])
    table = check_table([found])
    assert titles(table) == ["check", "candidate", "type", "n", "pass rate"]
    assert texts(table) == [["equals", "m", "equals", "2", "50.0 %"]]
    assert table.rows[0][4].interval == "[9.5 %, 90.5 %]"


def test_similarities_and_unknown_results_have_columns_where_there_are_some(tmp_path: Path) -> None:
    table = check_table([view(tmp_path, graders=[], checks=[SIMILAR, QUICK])])
    assert titles(table)[-2:] == ["mean", "unknown"]
    assert [(row[0], *row[-2:]) for row in texts(table)] == [("kin", "0.50", "0"), ("quick", "", "2")]


def test_graders_have_a_row_each_and_so_have_their_scores(tmp_path: Path) -> None:
    found = view(tmp_path)
    assert [[row[0], row[2], row[3], *row[-2:]] for row in texts(grader_table([found]))] == [
        ["form", "checks, primary", "2", "0", "0"],
        ["polite", "plugin", "1", "0", "1"],
        ["house", "judge", "2", "0", "0"],
    ]
    assert [row[2:] for row in texts(grader_score_table([found]))] == [["tone", "1", "0.90"], ["length", "1", "0.10"]]


def test_one_run_needs_no_column_of_candidates(tmp_path: Path) -> None:
    found = view(tmp_path)
    alone, both = grader_sections([found]), grader_sections([found, found])
    assert [section.title for section in alone] == ["Checks", "Graders", "Scores of graders"]
    assert all("candidate" not in titles(section.tables[0]) for section in alone)
    assert all("candidate" in titles(section.tables[0]) for section in both)


def test_a_run_without_checks_and_graders_has_no_section(tmp_path: Path) -> None:
    found = view(tmp_path, graders=[], judges=["scripted/judge-5"])
    assert grader_sections([found]) == []


def test_a_record_has_each_check_and_grader_with_its_reason(tmp_path: Path) -> None:
    run = graded(tmp_path)
    line = api.open_run(run.run_id, runs_dir=tmp_path / "runs").record("b").prediction
    assert texts(record_check_table(line)) == [["exact", "equals", "not passed", "the answer 'Lyon!' is not 'Paris'"]]
    assert [row[:3] for row in texts(record_grader_table(line))] == [
        ["form", "checks, primary", "not passed"],
        ["polite", "plugin", "error"],
        ["house", "judge", "passed"],
    ]


def test_an_answer_that_cannot_be_assessed_is_said_to_be_so(tmp_path: Path) -> None:
    judge = {"provider": "scripted", "model": 'say-{"verdict": "cannot_assess", "reason": "?"}', "name": "J"}
    run = graded(tmp_path, graders=[GRADERS[0], {**GRADERS[2], "judge": judge}])
    line = api.open_run(run.run_id, runs_dir=tmp_path / "runs").record("a").prediction
    assert texts(record_grader_table(line))[1][2] == "cannot be assessed"


def test_a_record_without_checks_and_graders_has_no_tables() -> None:
    line = prediction("r", 2, "")
    assert (record_check_table(line), record_grader_table(line)) == (None, None)


@pytest.mark.parametrize(
    ("scale", "text"), [("1-5", "1-5"), (CategoryScale(categories={"good": 1.0, "poor": 0.3}), "good 1, poor 0.3")]
)
def test_a_scale_is_written_as_it_is_given(scale: object, text: str) -> None:
    assert scale_text(scale) == text  # type: ignore[arg-type]  # both forms of a scale


def test_a_trial_shows_what_was_sent_and_what_came_back(tmp_path: Path) -> None:
    prompt = tmp_path / "own.txt"
    prompt.write_text("Polite? {{answer}}", encoding="utf-8")
    record = tmp_path / "record.json"
    record.write_text('{"question": "Where?", "answer": "There."}', encoding="utf-8")
    request = api.PromptTrialRequest(
        prompt=str(prompt), record=str(record), judge='scripted/say-{"verdict": "fail", "reason": "rude"}'
    )
    _, shown, result = trial_sections(api.try_prompt(request))
    assert [text.title for text in shown.texts] == ["sent · system", "sent · user", "reply"]
    facts = {fact.label: fact.text for fact in result.facts}
    assert (facts["result"], facts["reason"], facts["scale"]) == ("not passed · score 0.00 on 0/1", "rude", "pass_fail")
    dry = api.try_prompt(msgspec.structs.replace(request, is_dry=True))
    assert {fact.label: fact.text for fact in trial_sections(dry)[2].facts}["result"] == "nothing was sent"
