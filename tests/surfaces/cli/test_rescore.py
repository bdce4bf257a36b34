"""`assay rescore` and `--profile`: what people see of an official score."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.commands import assay
from tests.engine.run_settings import mcq_row, write_rows

MET = 'scripted/say-{"criteria_met": true, "explanation": "It is so."}'
RUBRIC = [{"id": "one", "title": "Names the law", "weight": 3}, {"id": "two", "title": "Is rude", "weight": -1}]
RUN = ("run", "law.jsonl", "--model", "scripted/echo", "--judge", MET, "--quiet")


def rubric_row(row_id: str, **members: Any) -> dict[str, Any]:
    row = {"schema_version": "legal_eval_v1", "id": row_id, "dataset": "law", "task_type": "rubric_qa", "prompt": "Is it?"}
    return {**row, "rubric": RUBRIC, **members}


@pytest.fixture(autouse=True)
def folder(workplace: Path) -> Path:
    """A working folder with two rubrics."""
    write_rows(Path("law.jsonl"), rubric_row("a", metadata={"field": "x"}), rubric_row("b", metadata={"field": "y"}))
    return workplace


@pytest.fixture
def first() -> str:
    """A finished run with a gate on its own mean score."""
    assay(*RUN, "--run-id", "first", "--min-score", "0.1")
    return "first"


def test_the_report_names_the_profile_its_interval_and_what_it_rests_on(first: str) -> None:
    result = assay("rescore", first, "--profile", "prbench", "--run-id", "official")
    assert result.exit_code == 0
    assert "official · completed\n" in result.stdout
    assert "rescored    from first, without any call\n" in result.stdout
    assert "profile     prbench 0.67 [0.23, 0.89] · scale 0-1 · 2 records\n" in result.stdout


def test_a_gate_that_is_about_another_figure_is_said_to_be_gone(first: str) -> None:
    lost = assay("rescore", first, "--profile", "prbench")
    assert lost.stderr == "assay: the gate of first on its mean score (0.1) is not about prbench; set one: --min-score\n"
    missed = assay("rescore", first, "--profile", "prbench", "--min-score", "0.7")
    assert (missed.stderr, missed.exit_code) == ("", 1)
    assert "MISSED      prbench 0.67 is below 0.70\n" in missed.stdout


def test_programs_read_the_same_figures(first: str) -> None:
    found = json.loads(assay("rescore", first, "--profile", "healthbench", "--compat", "--json").stdout)["metrics"]["profile"]
    assert (found["id"], found["compat"], found["headline"], found["n"]) == ("healthbench", True, pytest.approx(2 / 3), 2)


def test_markdown_has_the_headline_and_what_it_rests_on(first: str) -> None:
    text = assay("rescore", first, "--profile", "apex_v1", "--compat", "--markdown").stdout
    assert "| pass rate | apex_v1 (compat) |" in text
    assert (
        "\n- Profile · scripted/echo: apex_v1 (compat) 100.00 \\[34.24, 100.00\\] · scale 0-100 · 2 records · version 1\n" in text
    )


def test_a_record_shows_its_score_or_why_it_has_none(first: str) -> None:
    assay("rescore", first, "--profile", "prbench", "--run-id", "official")
    assert "\nprofile score\n    0.67\n" in assay("show", "official", "a").stdout
    assay("run", "law.jsonl", "--model", "scripted/fail-invalid_request", "--judge", MET, "--run-id", "bad", "--profile", "prbench")
    assert "\nprofile score\n    none: invalid_request\n" in assay("show", "bad", "a").stdout
    assert (
        "profile     prbench - · scale 0-1 · 0 records · 2 unscored (invalid_request 2): 0.00 at worst, 1.00 at best\n"
        in assay("show", "bad").stdout
    )


def test_the_list_of_runs_names_what_the_score_of_each_is(first: str) -> None:
    assay("rescore", first, "--profile", "apex_v1", "--run-id", "official")
    listed = {run["run_id"]: run for run in json.loads(assay("runs", "--json").stdout)["runs"]}
    official = json.loads(assay("show", "official", "--json").stdout)["metrics"]["profile"]["headline"]
    assert (listed["official"]["score"], listed["official"]["scored_by"], listed["official"]["scale"]) == (
        official,
        "apex_v1",
        "0-100",
    )
    assert (listed[first]["scored_by"], listed[first]["scale"]) == ("mean", "0-1")
    assert "apex_v1, 0-100" in assay("runs").stdout


def test_candidates_and_slices_stand_side_by_side_by_their_headline() -> None:
    Path("run.json").write_text(
        json.dumps(
            {
                "datasets": ["law.jsonl"],
                "candidates": [{"name": name, "model": "scripted/echo"} for name in ("one", "two")],
                "judges": [{"name": "judge", "provider": "scripted", "model": MET.removeprefix("scripted/")}],
                "slices": ["field"],
                "profile": "prbench_normalized",
            }
        )
    )
    lines = assay("run", "run.json", "--quiet").stdout.splitlines()
    heads = [line.split() for line in lines if "prbench_normalized" in line]
    assert [head[0] for head in heads] == ["candidate", "slice"]
    # The two records, the candidates, and two values of the slice for each.
    assert sum("0.75" in line for line in lines) == 8


def test_a_dry_run_names_the_profile() -> None:
    shown = assay(*RUN, "--profile", "prbench", "--compat", "--dry-run").stdout
    assert "profile     prbench · errors as the benchmark counts them\n" in shown


def test_a_profile_must_be_named(first: str) -> None:
    result = assay("rescore", first)
    assert result.exit_code == 2
    assert "--profile is missing\nhint: assay rescore RUN --profile prbench" in result.stderr


def test_a_profile_for_other_records_is_refused_and_leaves_nothing(first: str) -> None:
    result = assay("rescore", first, "--profile", "lexam_mcq", "--run-id", "wrong")
    assert result.exit_code == 2
    assert "is for records that are multiple choice, but 2 records are graded by a rubric: 'a', 'b'\n" in result.stderr
    assert not Path("runs/wrong").exists()
    assert list(Path("runs/.active").iterdir()) == []


def test_a_run_starts_only_with_records_that_its_profile_is_for() -> None:
    write_rows(Path("law.jsonl"), rubric_row("a"), mcq_row("m"))
    result = assay(*RUN, "--profile", "prbench")
    assert result.exit_code == 2
    assert "is for records that are graded by a rubric, but 1 record is multiple choice: 'm'\n" in result.stderr
    assert not Path("runs").exists()
