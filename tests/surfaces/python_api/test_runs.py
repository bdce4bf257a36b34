"""Runs as scripts hold them: figures to assert on, tables with types, decisions, reports, and what a notebook shows of them."""

import asyncio
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars
import pyarrow
import pytest

import assay
from assay import api
from assay.core.errors import UsageProblem
from assay.surfaces.python_api.runs import Runs
from tests.engine.graded_runs import graded, passing, question
from tests.engine.run_settings import write_golden

EXAMPLES = Path(__file__).parents[3] / "examples"
HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)>\u202e"


def law(folder: Path, run_id: str = "law", *failing: int, **options: Any) -> assay.Run:
    rows = [question(f"q{number}", topic="sale" if number % 2 else "lease") for number in range(8)]
    graded(folder, run_id, rows, passing(rows, *failing), **options)
    return assay.open_run(run_id, runs_dir=folder / "runs")


def with_an_error(folder: Path) -> assay.Run:
    dataset = write_golden(folder / "golden.json")
    runs = assay.run(dataset, model="scripted/echo", judge="scripted/echo", runs_dir=str(folder / "runs"))
    return runs[0]


def test_figures_of_a_run_can_be_asserted_on(tmp_path: Path) -> None:
    run = law(tmp_path, "law", 0, 3)
    assert (run.pass_rate.value, run.pass_rate.n, run.error_rate) == (0.75, 8, 0.0)
    assert run.pass_rate.low == run.metrics["pass_rate_interval"]["low"] < 0.75 < (run.pass_rate.high or 0)
    assert (run.score.value, run.score.scale) == (0.75, "0/1")
    assert str(run.pass_rate) == "75.0 % [40.9 %, 92.9 %]"
    assert repr(run) == "<assay.Run law · completed · big · pass rate 75.0 % [40.9 %, 92.9 %]>"


def test_a_run_is_its_records(tmp_path: Path) -> None:
    run = law(tmp_path, "law", 2)
    assert [line["record_id"] for line in run if not line["passed"]] == ["q2"]
    assert run.record("q2")["prediction"]["model_response"] == "B"


def test_a_table_of_arrow_has_typed_columns_and_nested_scores(tmp_path: Path) -> None:
    table = law(tmp_path, "law", 1).to_arrow()
    assert table.column_names == ["run_id", *api.TABLE_COLUMNS]
    assert table.schema.field("score").type == pyarrow.float64()
    assert table.schema.field("first_attempt_at").type == pyarrow.timestamp("us", tz="UTC")
    assert table.column("question").to_pylist()[0] == "Is it?"
    assert table.column("passed").to_pylist() == [True, False, *[True] * 6]
    assert table.column("evaluator_scores")[1].as_py()[0]["score"] == 0.0


def test_a_frame_of_pandas_keeps_what_is_unknown_apart_from_0(tmp_path: Path) -> None:
    frame = with_an_error(tmp_path).to_pandas()
    assert [str(frame[name].dtype) for name in ("score", "passed", "input_tokens", "record_id")] == [
        *("Float64", "boolean", "Int64", "string"),
    ]
    assert frame["score"].isna().all()
    assert set(frame["error_code"]) == {"judge_parse_error"}


def test_a_frame_of_polars_has_the_same_rows_as_one_of_arrow(tmp_path: Path) -> None:
    run = law(tmp_path, "law", 1)
    frame = run.to_polars()
    assert frame.schema["selected_choice_ids"] == polars.List(polars.String)
    assert frame.to_dicts() == run.to_arrow().to_pylist()


def test_runs_of_several_candidates_make_one_table(tmp_path: Path) -> None:
    dataset = write_golden(tmp_path / "golden.json")
    runs = assay.run(dataset, models=("scripted/echo", "scripted/empty"), judge="scripted/judge-5", runs_dir=str(tmp_path / "runs"))
    frame = runs.to_polars()
    assert frame["run_id"].unique(maintain_order=True).to_list() == [run.run_id for run in runs]
    assert len(frame) == sum(run.counts.valid_records for run in runs)


def test_no_runs_make_a_table_with_all_columns_and_no_rows(tmp_path: Path) -> None:
    none, one = Runs().to_arrow(), law(tmp_path).to_arrow()
    assert (none.num_rows, none.schema) == (0, one.schema)


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


def test_a_run_works_where_an_event_loop_is_running(tmp_path: Path) -> None:
    dataset = write_golden(tmp_path / "golden.json")
    seen: list[int] = []

    async def cell() -> assay.Run:
        options = {"model": "scripted/echo", "judge": "scripted/judge-5", "runs_dir": str(tmp_path / "runs")}
        return assay.run(dataset, watch=lambda now: seen.append(now.done), **options)[0]

    assert asyncio.run(cell()).state == "completed"
    assert seen[-1] == 5


@pytest.mark.parametrize("call", [asyncio.run, lambda cell: cell.send(None)], ids=["in a loop", "without one"])
def test_a_watch_that_raises_ends_the_run_which_can_go_on(tmp_path: Path, call: Callable[[Any], None]) -> None:
    dataset, runs_dir = write_golden(tmp_path / "golden.json"), tmp_path / "runs"

    def watch(now: api.Snapshot) -> None:
        raise LookupError(f"{now.done} done")

    async def cell() -> None:
        options = {"model": "scripted/slow-200", "judge": "scripted/judge-5", "concurrency": 1, "run_id": "unseen"}
        assay.run(dataset, watch=watch, runs_dir=str(runs_dir), **options)

    with pytest.raises(LookupError, match="0 done"):
        call(cell())
    # Longer than all five of them take.
    time.sleep(1.5)
    left = assay.open_run("unseen", runs_dir=runs_dir)
    assert (left.state, left.counts.evaluated_records < 5) == ("running", True)
    assert left.resume().counts.evaluated_records == 5


def test_a_script_sees_progress_only_where_it_asks_for_it(tmp_path: Path) -> None:
    dataset = write_golden(tmp_path / "golden.json")
    code = (
        "import assay, sys; assay.run(sys.argv[1], model='scripted/echo', judge='scripted/judge-5', runs_dir=sys.argv[2], "
        "progress={'no': None, 'yes': True}[sys.argv[3]])"
    )
    command = [sys.executable, "-c", code, str(dataset), str(tmp_path / "runs")]
    said = [subprocess.run([*command, wanted], capture_output=True, text=True, check=True) for wanted in ("no", "yes")]
    assert (said[0].stdout, said[0].stderr, said[1].stdout) == ("", "", "")
    assert "5/5 records" in said[1].stderr


def test_a_report_shows_every_issue_with_its_place_and_what_is_meant() -> None:
    report = assay.validate(EXAMPLES / "golden_v1" / "broken.json")
    html = report._repr_html_()  # type: ignore[attr-defined]
    assert html.count("<tr><td>") == len(report.issues)
    assert "<td>6:13</td>" in html
    assert '<code class="pointed">&#34;Unit_Conversion&#34;</code>' in html
    assert repr(report).endswith("golden_v1 rejected: 0 of 6 records accepted, 8 errors>")


def test_a_report_of_a_hostile_file_is_text() -> None:
    row = {**question("q"), HOSTILE: HOSTILE, "task_type": HOSTILE}
    html = assay.validate([row])._repr_html_()  # type: ignore[attr-defined]
    assert "&lt;script&gt;alert(1)" in html
    assert not [bad for bad in ("<script", "<img", "\u202e") if bad in html]


def test_a_report_that_shows_itself_has_all_that_a_report_has() -> None:
    source = EXAMPLES / "legal_eval_v1" / "contract-law.jsonl"
    shown, plain = assay.validate(source), api.validate(source)
    assert shown.to_dict() == plain.to_dict()
    assert [case.id for case in shown.cases] == [case.id for case in plain.cases]
    assert list(shown.hashes) == list(plain.hashes)
    assert shown.head == plain.head
