"""A group of runs as one page in one file."""

import re
from pathlib import Path

import pytest

from assay import api
from assay.surfaces.pages.group import group_page
from assay.surfaces.pages.page_renderer import FileLinks
from tests.commands import assay, document
from tests.engine.graded_runs import group, passing, question

EVIL = "<script>alert(1)</script><img src=x onerror=alert(2)>"
ROWS = [question(f"q-{number}", prompt=f"Which {number}?") for number in range(5)]


@pytest.fixture(autouse=True)
def runs(workplace: Path) -> Path:
    answers = {"big": passing(ROWS, 4), "small": {**passing(ROWS, 2, 3, 4), "q-3": EVIL}}
    group(workplace, "night", ROWS, answers, pass_rate=0.7)
    return workplace / "runs"


def test_the_page_has_candidates_decisions_comparisons_and_records() -> None:
    found = group_page(api.open_group("night"), place=FileLinks(), limit=None)
    assert found.summary == "2 runs · 5 records · 2 on which they differ"
    assert [(one.name, one.verdicts[0].mark.text) for one in found.decisions] == [("big", "MET"), ("small", "MISSED")]
    assert found.pairs is not None
    assert [cell.text for cell in found.pairs.rows[0]][:3] == ["big", "small", "5"]
    assert (found.columns, len(found.rows), found.left_out) == (("big", "small"), 5, "")
    row = found.rows[2]
    assert (row.name, row.question.text, row.references) == ("q-2", "Which 2?", ("A",))
    assert [cell and cell.result for cell in row.cells] == ["1.00 passed", "0.00 not passed"]


def test_of_many_records_those_that_tell_most_are_shown() -> None:
    found = group_page(api.open_group("night"), place=FileLinks(), limit=2)
    assert [row.name for row in found.rows] == ["q-2", "q-3"]
    assert found.left_out == "3 records on which the candidates differ less"


def test_the_file_holds_all_and_runs_nothing() -> None:
    result = assay("report", "night")
    assert (result.exit_code, "night.html" in result.stdout, "5 records by 2 candidates" in result.stdout) == (0, True, True)
    html = Path("night.html").read_text(encoding="utf-8")
    assert "Which 3?" in html
    assert "&lt;script&gt;alert(1)" in html
    assert "<script>alert(1)" not in html
    assert not re.search(r'(?:src|href)="https?:', html)


def test_the_command_says_as_json_what_it_wrote() -> None:
    found = document(assay("report", "night", "--json", "-o", "all.html"))
    assert (found["group"], found["runs"], found["records"]) == ("night", ["night-big", "night-small"], 5)
    assert Path("all.html").stat().st_size == found["bytes"]
    assert assay("report", "night", "-o", "-").stdout.startswith("<!doctype html>")


def test_a_report_of_a_group_with_an_unfinished_run_is_refused() -> None:
    api.run("law.jsonl", model="scripted/mcq-first", run_id="open", group="night", is_stopping=lambda: True)
    refused = assay("report", "night")
    assert (refused.exit_code, "run 'open' is unfinished" in refused.stderr) == (2, True)
