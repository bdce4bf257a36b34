"""The same thing has the same name, count and colour in the terminal, in the lists and on the pages."""

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import assay
from assay import api
from assay.presentation.record import verdict_mark
from assay.presentation.run_report import sketch_of
from assay.surfaces.cli.program import program
from assay.surfaces.pages.page_renderer import FileLinks, ServerLinks
from assay.surfaces.pages.record import RecordNavigation, record_view
from assay.surfaces.pages.records import RecordsChoice, records_view
from assay.surfaces.pages.run import RunPage, run_page
from assay.surfaces.pages.runs import run_row
from tests.engine.run_settings import mcq_row, write_rows

EXAMPLES = Path(__file__).parents[2] / "examples"
MESSAGE = "invalid_request: judge scripted/fail-invalid_request: the script fails with 'invalid_request'"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`unjudged` has no grade at all, `broken` has ten invalid records, `mixed` has one record of each result."""
    folder = tmp_path_factory.mktemp("one-vocabulary")
    golden, batch = EXAMPLES / "golden_v1/assistant.json", EXAMPLES / "batch_v1/broken.json"
    head = {"schema_version": "legal_eval_v1", "id": "unjudged", "dataset": "law", "task_type": "rubric_qa", "prompt": "Why?"}
    rows = [mcq_row("right", correct_choice_ids=["B"]), mcq_row("wrong"), {**head, "rubric": [{"id": "c1", "title": "States why"}]}]
    mixed = write_rows(folder / "law.jsonl", *rows)
    for run_id, dataset, model, judge in (
        ("unjudged", golden, "scripted/echo", "scripted/fail-invalid_request"),
        ("broken", batch, "scripted/echo", "scripted/judge-4"),
        ("mixed", mixed, "scripted/say-B", "scripted/fail-invalid_request"),
    ):
        assay.run(str(dataset), run_id=run_id, runs_dir=str(folder / "runs"), model=model, judge=judge)
    return folder / "runs"


def printed(runs: Path, *arguments: str) -> str:
    return CliRunner().invoke(program, [*arguments, "--runs-dir", str(runs)], prog_name="assay").stdout


def page_of(runs: Path, run_id: str) -> RunPage:
    run = api.open_run(str(runs / run_id))
    return run_page(sketch_of(run), place=ServerLinks(), moments=run.moments, files={})


def rows_of(table: Any) -> list[tuple[str, str]]:
    return [] if table is None else [(row[0].text, row[1].text) for row in table.rows]


def test_a_run_without_a_result_is_listed_as_no_result(runs: Path) -> None:
    line = next(line for line in printed(runs, "runs").splitlines() if line.startswith("unjudged"))
    listing = next(listing for listing in api.list_runs(str(runs)) if listing.run_id == "unjudged")
    mark = run_row(listing, place=ServerLinks()).words.gate
    assert line.endswith(" no result")
    assert mark is not None
    assert mark.text == "no result"
    assert listing.passed is False
    assert "\nNO RESULT " in printed(runs, "show", "unjudged")


def test_an_invalid_record_is_an_error_with_the_same_count_everywhere(runs: Path) -> None:
    shown, page = printed(runs, "show", "broken"), page_of(runs, "broken")
    assert "10 errors · 10 of them invalid" in shown
    assert [(share.label, share.count.text) for share in page.shares] == [("passed", "2"), ("not passed", "0"), ("error", "10")]
    assert "10 of them invalid" in page.shares[2].count.says
    assert printed(runs, "show", "broken", "q-2").startswith("q-2 · error\n")
    run = api.open_run(str(runs / "broken"))
    assert {verdict_mark(line).text for line in run.failures()} == {"error"}


def test_errors_are_grouped_by_the_same_codes_in_the_terminal_and_on_the_page(runs: Path) -> None:
    grouped = rows_of(page_of(runs, "broken").errors)
    lines = printed(runs, "show", "broken").splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith("errors "))
    assert grouped == [(code, count) for count, code, *_ in (line.split() for line in lines[first + 1 : first + 8])]
    assert ("invalid_field_type", "3") in grouped


def test_the_errors_that_a_page_counts_are_the_records_that_its_link_finds(runs: Path) -> None:
    run = api.open_run(str(runs / "broken"))
    found = api.find_records(run, api.RecordSearch(status="error"), limit=50, offset=0)
    facets = api.facets_of(run)
    view = records_view("broken", found, RecordsChoice(status="error"), facets=facets, others=(), place=ServerLinks())
    assert page_of(runs, "broken").shares[2].address.endswith("?status=error")
    assert found.total == 10
    assert view.filters is not None
    assert [option.text for option in view.filters.statuses] == ["error (10)", "error: invalid record (10)", "graded (2)"]
    assert [option.value for option in view.filters.statuses if option.is_chosen] == ["error"]


def test_each_result_has_one_colour(runs: Path) -> None:
    run = api.open_run(str(runs / "mixed"))
    bar = {share.label: share.kind for share in page_of(runs, "mixed").shares}
    marks = {verdict_mark(line).text: verdict_mark(line).kind for line in run.predictions()}
    assert bar == marks == {"passed": "good", "not passed": "bad", "error": "warn"}


def test_a_gate_without_a_baseline_names_no_regression(runs: Path) -> None:
    missed = printed(runs, "gate", "mixed", "--baseline", "none", "--pass-rate", "0.9")
    met = printed(runs, "gate", "mixed", "--baseline", "none", "--pass-rate", "0.4")
    assert missed.startswith("MISSED      mixed\nmissed      pass rate 50.0 % is below 90.0 %\n")
    assert met.startswith("MET         mixed\nnote        pass rate 50.0 %")


def test_the_reason_of_an_error_is_its_code(runs: Path) -> None:
    page, shown = page_of(runs, "mixed"), printed(runs, "show", "mixed", "unjudged")
    assert rows_of(page.errors) == [("invalid_request", "1")]
    assert rows_of(page.reasons) == [("incorrect answer", "1")]
    assert "\nreason\n" not in shown
    assert "\nreason\n    incorrect_answer\n" in printed(runs, "show", "mixed", "wrong")
    run = api.open_run(str(runs / "mixed"))
    facts = {}
    for name in ("wrong", "unjudged"):
        view = record_view("mixed", run.record(name), RecordNavigation(list_address=""), place=FileLinks())
        facts[name] = {fact.label: fact.text for fact in view.facts if fact.label in ("Error", "Reason", "Failure")}
    assert facts == {"wrong": {"Reason": "incorrect answer"}, "unjudged": {"Error": "invalid_request"}}


def test_errors_alone_have_no_reason_of_answers(runs: Path) -> None:
    page = page_of(runs, "unjudged")
    assert rows_of(page.errors) == [("invalid_request", "6")]
    assert page.reasons is None


def test_the_code_of_an_error_is_said_once(runs: Path) -> None:
    run = api.open_run(str(runs / "unjudged"))
    view = record_view("unjudged", run.record("leap-year"), RecordNavigation(list_address=""), place=FileLinks())
    assert f"error   {MESSAGE}\n" in printed(runs, "show", "unjudged")
    assert f"    {MESSAGE}\n" in printed(runs, "show", "unjudged", "leap-year")
    assert view.problem is not None
    assert view.problem.text == MESSAGE
