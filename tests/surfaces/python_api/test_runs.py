"""Runs as scripts hold them: figures to assert on, tables with types, decisions, reports, and what a notebook shows of them."""

from pathlib import Path
from typing import Any

import pytest

import assay
from assay import api
from assay.core.errors import UsageProblem
from tests.engine.graded_runs import graded, passing, question
from tests.engine.run_settings import write_golden

HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)>\u202e"


def law(folder: Path, run_id: str = "law", *failing: int, **options: Any) -> assay.Run:
    rows = [question(f"q{number}", topic="sale" if number % 2 else "lease") for number in range(8)]
    graded(folder, run_id, rows, passing(rows, *failing), **options)
    return assay.open_run(run_id, runs_dir=folder / "runs")


def with_an_error(folder: Path) -> assay.Run:
    dataset = write_golden(folder / "golden.json")
    runs = assay.run(dataset, model="scripted/echo", judge="scripted/echo", runs_dir=str(folder / "runs"))
    return runs[0]


def test_a_run_is_its_records(tmp_path: Path) -> None:
    run = law(tmp_path, "law", 2)
    assert [line["record_id"] for line in run if not line["passed"]] == ["q2"]
    assert run.record("q2")["prediction"]["model_response"] == "B"


def test_a_run_compares_itself_with_one_before(tmp_path: Path) -> None:
    before, after = law(tmp_path, "before", 0, 1, 2), law(tmp_path, "after", 1)
    found = after.compare(before)
    assert (found.before.run_id, found.after.run_id, found.passes.value) == ("before", "after", 0.25)
    assert repr(found).startswith("<assay.Comparison before -> after: UNDECIDED: no significant difference in pass rate")


def test_a_run_is_decided_about_and_the_decision_is_kept(tmp_path: Path) -> None:
    run = law(tmp_path, "law", 0, 1, 2)
    assert run.decide(pass_rate=0.9).passed is False
    assert [entry["action"] for entry in api.audit(tmp_path / "runs")] == ["gate"]
    with pytest.raises(UsageProblem, match="unknown threshold 'passrate'"):
        run.decide(passrate=0.9)


def test_a_report_is_written_where_it_is_wanted(tmp_path: Path) -> None:
    path = law(tmp_path).report(tmp_path / "law.html")
    assert path.read_text(encoding="utf-8").startswith("<!doctype html>")


def test_no_report_becomes_a_part_of_the_run_it_is_of(tmp_path: Path) -> None:
    run = law(tmp_path)
    with pytest.raises(UsageProblem, match="would become a part of a finished run"):
        run.report(Path(run.run_dir, "report.html"))
    assert run.verify() == []


def test_a_card_shows_the_decision_figures_and_the_first_failures(tmp_path: Path) -> None:
    html = law(tmp_path, "law", 0, 3, pass_rate=0.9)._repr_html_()
    for shown in ("MISSED</span> pass rate 75.0 % is below 90.0 %", "95 % interval 40.9 % to 92.9 %", "<svg", "<code>q3</code>"):
        assert shown in html


def test_a_card_runs_and_loads_nothing_whatever_the_texts_say(tmp_path: Path) -> None:
    rows = [question("q<b>", prompt=HOSTILE, topic=HOSTILE), question("q2")]
    graded(tmp_path, "law", rows, {"q<b>": HOSTILE, "q2": "A"})
    html = assay.open_run("law", runs_dir=tmp_path / "runs")._repr_html_()
    assert "&lt;script&gt;alert(1)" in html
    assert not [bad for bad in ("<script", "<img", "onerror=alert(2)>", "\u202e", "<b>q", "@import", "url(") if bad in html]


def test_a_card_of_a_run_without_any_result_says_so(tmp_path: Path) -> None:
    assert "NO RESULT</span> nothing could be evaluated" in with_an_error(tmp_path)._repr_html_()


def test_several_runs_stand_beside_each_other(tmp_path: Path) -> None:
    dataset = write_golden(tmp_path / "golden.json")
    runs = assay.run(dataset, models=("scripted/echo", "scripted/empty"), judge="scripted/judge-5", runs_dir=str(tmp_path / "runs"))
    html = runs._repr_html_()
    assert "Pass rate by candidate" in html
    assert html.count("<details><summary><b>") == 2
