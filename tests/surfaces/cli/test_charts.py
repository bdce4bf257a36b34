"""Charts of runs: which files there are, what they show, and how reports refer to them."""

import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import msgspec
import pytest
from click.testing import Result

from assay.presentation.run_details import run_charts
from assay.presentation.run_report import RunReport
from assay.surfaces.charts import draw
from tests.commands import assay
from tests.surfaces.conftest import HOSTILE
from tests.surfaces.run_views import METRICS, golden_view, slice_value


@pytest.fixture(autouse=True)
def folder(workplace: Path) -> Path:
    """A working folder with a finished run."""
    run("first")
    return workplace


def run(run_id: str, *more: str) -> Result:
    options = ("--model", "scripted/echo", "--judge", "scripted/judge-4", "--run-id", run_id, "--quiet")
    return assay("run", "golden.json", *options, *more)


def texts(svg: str) -> list[str]:
    return [element.text or "" for element in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]


def with_metrics(view: RunReport, **changes: object) -> RunReport:
    return msgspec.structs.replace(view, result=msgspec.structs.replace(view.result, metrics={**METRICS, **changes}))


def test_charts_of_a_run_are_saved_and_named() -> None:
    result = assay("charts", "first", "-o", "a/b")
    assert result.exit_code == 0
    assert result.stdout.splitlines()[0] == "a/b/distribution.svg"
    assert sorted(map(str, Path("a/b").iterdir())) == sorted(result.stdout.split())


def test_several_runs_of_one_candidate_are_told_apart_by_their_ids() -> None:
    run("second")
    assay("charts", "first", "second", "first")
    shown = texts(Path("charts/candidates.svg").read_text(encoding="utf-8"))
    assert {"scripted/echo · first", "scripted/echo · second"} <= set(shown)
    assert shown.count("scripted/echo · first") == 1


def test_charts_are_listed_for_programs() -> None:
    listed = json.loads(assay("charts", "first", "--json").stdout)["charts"]
    assert all(Path(chart["path"]).is_file() and chart["title"] for chart in listed)


def test_charts_are_saved_again_with_the_same_bytes() -> None:
    assay("charts", "first", "-o", "one")
    assay("charts", "first", "-o", "two")
    assert Path("one/distribution.svg").read_bytes() == Path("two/distribution.svg").read_bytes()


def test_slices_of_a_run_with_a_profile_are_drawn_with_its_score() -> None:
    row = {"schema_version": "legal_eval_v1", "prompt": "Is it so?"}
    choices = [{"id": "A", "text": "Yes"}, {"id": "B", "text": "No"}]
    rubric = {
        **row,
        "id": "r",
        "dataset": "law",
        "task_type": "rubric_qa",
        "rubric": [{"id": "c", "title": "Says so", "weight": 1}],
    }
    mcq = {**row, "id": "m", "dataset": "tax", "task_type": "mcq", "choices": choices, "correct_choice_ids": ["A"]}
    Path("law.jsonl").write_text("\n".join(map(json.dumps, (rubric, mcq))), encoding="utf-8")
    options = ("--model", "scripted/say-A", "--judge", "scripted/judge-4", "--profile", "weighted_mean", "--quiet")
    result = assay("run", "law.jsonl", *options, "--charts", "drawn")
    assert result.exit_code == 0
    shown = texts(Path("drawn/slices-score.svg").read_text(encoding="utf-8"))
    assert shown[0] == "Weighted_mean by slice"
    assert {"law", "tax"} <= set(shown)
    assert "no score" not in shown


@pytest.mark.parametrize(
    ("arguments", "message"), [("first -o golden.json", "is a file"), ("nobody", "no run"), ("first --output=", "no name")]
)
def test_what_cannot_be_drawn_is_one_clear_line_and_exit_2(arguments: str, message: str) -> None:
    result = assay("charts", *arguments.split())
    assert result.exit_code == 2
    assert message in result.stderr.splitlines()[0]


def test_a_run_whose_metrics_are_gone_is_not_drawn() -> None:
    assay("purge", "first", "--force", "--reason", "test")
    result = assay("charts", "first")
    assert result.exit_code == 2
    assert "removed by retention" in result.stderr


def test_a_run_without_a_score_has_nothing_to_draw_and_says_so() -> None:
    judged = ("--model", "scripted/echo", "--judge", "scripted/echo")
    made = assay("run", "golden.json", *judged, "--run-id", "failed", "--charts", "drawn", "--quiet")
    assert "nothing to draw: no record has a score" in made.stderr
    result = assay("charts", "failed")
    assert (result.exit_code, result.stdout) == (0, "nothing to draw: no record has a score\n")
    assert json.loads(assay("charts", "failed", "--json").stdout) == {"charts": []}


def test_the_end_of_a_run_names_the_command_for_its_charts() -> None:
    assert "assay charts second\n" in run("second").stdout


def test_charts_that_a_run_saved_are_in_its_markdown_report_as_seen_from_there() -> None:
    Path("reports").mkdir()
    result = run("second", "--charts", "pictures", "--markdown", "reports/second.md")
    assert "](<../pictures/distribution.svg>)" in Path("reports/second.md").read_text(encoding="utf-8")
    assert "chart in pictures/distribution.svg" in result.stderr


def test_charts_beside_a_document_for_programs_leave_it_alone() -> None:
    result = run("second", "--charts", "pictures", "--json")
    assert json.loads(result.stdout)["run_id"] == "second"
    assert Path("pictures/distribution.svg").is_file()


def test_a_folder_for_charts_that_is_a_file_is_refused_before_any_call() -> None:
    result = run("second", "--charts", "golden.json")
    assert result.exit_code == 2
    assert not Path("runs/second").exists()


def test_hostile_names_do_no_harm_in_charts() -> None:
    value = slice_value(HOSTILE, HOSTILE, 4)
    view = msgspec.structs.replace(golden_view(), slices=(value,))
    view = msgspec.structs.replace(view, result=msgspec.structs.replace(view.result, candidate=HOSTILE))
    for chart in run_charts([view, view]):
        svg = draw(chart)
        assert "<script" not in svg
        assert ElementTree.fromstring(svg.encode()) is not None


def test_scores_on_two_scales_are_two_distributions() -> None:
    two = {"0/1": [{"score": 1.0, "count": 3}], "0-1": [{"from": 0.0, "to": 0.1, "count": 40}]}
    names = [chart.name for chart in run_charts([with_metrics(golden_view(), scale="0-1", score_distribution=two)])]
    assert [name for name in names if name.startswith("distribution")] == ["distribution-0_1.svg", "distribution-0-1.svg"]


def test_the_gate_that_runs_share_is_drawn() -> None:
    charts = {chart.name: chart for chart in run_charts([golden_view(), golden_view()])}
    assert "gate 80.0 %" in texts(draw(charts["candidates.svg"]))
