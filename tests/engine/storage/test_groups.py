"""Groups of runs: the name that runs share which were started together, and how they are found by it."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from assay import api
from assay.core.errors import RunNotFound
from assay.engine.storage.run_paths import find_group, find_run, find_runs
from assay.store.published_run import open_run_folder
from tests.engine.comparison.test_suite_file import write_suite
from tests.engine.graded_runs import graded, passing, question
from tests.engine.run_settings import mcq_row, planned, problems_of, write_rows

MODELS = ("scripted/mcq-first", "scripted/mcq-last")
ROWS = [question("q-1"), question("q-2")]


def started(folder: Path, run_id: str = "night", **options: Any) -> tuple[str, ...]:
    """Two candidates in one call."""
    dataset = write_rows(folder / "law.jsonl", *ROWS)
    results = api.run(dataset, models=MODELS, runs_dir=str(folder / "runs"), **({"run_id": run_id} if run_id else {}), **options)
    return tuple(result.run_id for result in results)


def found(folder: Path, name: str) -> list[str]:
    return [paths.run_id for paths in find_runs(folder / "runs", name)]


def test_runs_that_are_started_together_are_found_by_their_common_name(tmp_path: Path) -> None:
    ids = started(tmp_path)
    assert ids == ("night-scripted-mcq-first", "night-scripted-mcq-last")
    assert found(tmp_path, "night") == list(ids)
    assert found(tmp_path, ids[1]) == [ids[1]]
    assert found(tmp_path, "latest") == [ids[1]]


def test_runs_without_an_id_share_a_new_one(tmp_path: Path) -> None:
    first, second = started(tmp_path, run_id="")
    group = open_run_folder(tmp_path / "runs" / first).manifest.settings.group
    assert isinstance(group, str)
    assert group.startswith("run_")
    assert (first, second) == (f"{group}-scripted-mcq-first", f"{group}-scripted-mcq-last")
    assert found(tmp_path, group) == [first, second]


def test_one_candidate_has_no_group_and_the_plan_of_earlier_versions(tmp_path: Path) -> None:
    dataset = write_rows(tmp_path / "law.jsonl", mcq_row("a"))
    (plan,) = planned(api.RunRequest(datasets=(str(dataset),), models=MODELS[:1], run_id="night")).plans
    assert plan.group is msgspec.UNSET
    assert b'"group"' not in msgspec.json.encode(plan)


def test_runs_that_are_started_apart_may_join_a_group(tmp_path: Path) -> None:
    for run_id in ("b", "a"):
        graded(tmp_path, run_id, ROWS, passing(ROWS), group="night")
    # In the order in which they were created.
    assert found(tmp_path, "night") == ["b", "a"]


def test_the_group_changes_no_result_so_that_a_run_is_resumed_into_another_one(tmp_path: Path) -> None:
    first = graded(tmp_path, "a", ROWS, passing(ROWS), group="night")
    again = graded(tmp_path, "a", ROWS, passing(ROWS), group="day")
    assert again.metrics == first.metrics
    assert found(tmp_path, "night") == ["a"]


def test_a_run_with_exactly_the_name_comes_before_the_group(tmp_path: Path) -> None:
    graded(tmp_path, "night", ROWS, passing(ROWS))
    started(tmp_path)
    assert found(tmp_path, "night") == ["night"]
    request = api.RunRequest(
        datasets=(str(tmp_path / "law.jsonl"),), models=MODELS, run_id="night", runs_dir=str(tmp_path / "runs")
    )
    assert any(note.startswith("a run is called 'night' too") for note in planned(request).notes)


def test_a_group_comes_before_a_run_that_only_begins_with_its_name(tmp_path: Path) -> None:
    graded(tmp_path, "nightly", ROWS, passing(ROWS))
    graded(tmp_path, "a", ROWS, passing(ROWS), group="night")
    graded(tmp_path, "b", ROWS, passing(ROWS), group="night")
    assert found(tmp_path, "night") == ["a", "b"]
    assert found(tmp_path, "nightl") == ["nightly"]


def test_a_run_cannot_be_in_a_group_of_its_own_name(tmp_path: Path) -> None:
    dataset = write_rows(tmp_path / "law.jsonl", mcq_row("a"))
    (problem,) = problems_of(api.RunRequest(datasets=(str(dataset),), models=MODELS[:1], run_id="night", group="night"))
    assert problem == "--group: a run is called 'night' too; choose another name for the group"


def test_a_group_of_one_run_is_that_run(tmp_path: Path) -> None:
    graded(tmp_path, "a", ROWS, passing(ROWS), group="night")
    assert (find_run(tmp_path / "runs", "night").run_id, found(tmp_path, "night")) == ("a", ["a"])


def test_a_command_for_one_run_names_the_commands_for_a_group(tmp_path: Path) -> None:
    ids = started(tmp_path)
    with pytest.raises(RunNotFound) as raised:
        find_run(tmp_path / "runs", "night")
    assert raised.value.message == f"'night' is a group of 2 runs: {ids[0]}, {ids[1]}"
    assert raised.value.hint == "name one of them; assay show, gate, report, export and compare take a whole group"


def test_a_beginning_of_several_runs_names_their_groups(tmp_path: Path) -> None:
    started(tmp_path)
    with pytest.raises(RunNotFound) as raised:
        find_run(tmp_path / "runs", "nig")
    assert raised.value.message.startswith("'nig' matches 2 runs: night-scripted-mcq-first, ")
    assert raised.value.hint.endswith(
        "; groups among them: night (assay show, gate, report, export and compare take a whole group)"
    )
    graded(tmp_path, "x-1", ROWS, passing(ROWS))
    graded(tmp_path, "x-2", ROWS, passing(ROWS))
    with pytest.raises(RunNotFound) as plain:
        find_run(tmp_path / "runs", "x")
    assert "group" not in plain.value.hint


def test_a_group_whose_runs_have_other_ids_is_named_too(tmp_path: Path) -> None:
    for run_id in ("a", "b"):
        graded(tmp_path, run_id, ROWS, passing(ROWS), group="night")
    with pytest.raises(RunNotFound, match="'night' is a group of 2 runs: a, b"):
        find_run(tmp_path / "runs", "night")


def test_runs_of_earlier_versions_are_a_group_by_their_ids(tmp_path: Path) -> None:
    for run_id in started(tmp_path):
        manifest = tmp_path / "runs" / run_id / "run_manifest.json"
        members = json.loads(manifest.read_bytes())
        del members["plan"]["group"]
        manifest.chmod(0o600)
        manifest.write_text(json.dumps(members), encoding="utf-8")
    assert found(tmp_path, "night") == ["night-scripted-mcq-first", "night-scripted-mcq-last"]


def test_the_runs_of_a_suite_are_a_group_and_so_are_the_candidates_of_a_part(tmp_path: Path) -> None:
    write_rows(tmp_path / "law.jsonl", *ROWS)
    (tmp_path / "two.yaml").write_text(f"datasets: [law.jsonl]\ncandidates: [{', '.join(MODELS)}]\n", encoding="utf-8")
    (tmp_path / "one.yaml").write_text("datasets: [law.jsonl]\ncandidates: [scripted/mcq-any]\n", encoding="utf-8")
    suite = write_suite(tmp_path, {"run": "two.yaml"}, {"run": "one.yaml"})
    api.run_suite(suite, runs_dir=tmp_path / "runs", run_id="night")
    of_a_part = ["night-two-scripted-mcq-first", "night-two-scripted-mcq-last"]
    assert found(tmp_path, "night") == [*of_a_part, "night-one"]
    assert found(tmp_path, "night-two") == of_a_part


def test_an_unfinished_run_is_in_its_group(tmp_path: Path) -> None:
    dataset = write_rows(tmp_path / "law.jsonl", *ROWS)
    stopped = api.run(dataset, models=MODELS, run_id="night", runs_dir=str(tmp_path / "runs"), is_stopping=lambda: True)
    assert [result.is_finished for result in stopped] == [False]
    assert [paths.run_id for paths in find_group(tmp_path / "runs", "night")] == ["night-scripted-mcq-first"]


def test_a_retried_run_stays_out_of_the_group_of_its_parent(tmp_path: Path) -> None:
    dataset = write_rows(tmp_path / "law.jsonl", *ROWS)
    models = ("scripted/mcq-first", "scripted/fail-invalid_request")
    api.run(dataset, models=models, run_id="night", runs_dir=str(tmp_path / "runs"))
    api.retry("night-scripted-fail-invalid_request", runs_dir=tmp_path / "runs", run_id="again")
    assert found(tmp_path, "night") == ["night-scripted-mcq-first", "night-scripted-fail-invalid_request"]


def test_a_name_that_could_be_no_id_is_no_group(tmp_path: Path) -> None:
    assert find_group(tmp_path, "../etc") == ()


def test_long_names_of_candidates_are_cut_where_the_id_is_new(tmp_path: Path) -> None:
    dataset = write_rows(tmp_path / "law.jsonl", mcq_row("a"))
    run_file = tmp_path / "run.yaml"
    names = [f"{'n' * 200}{end}" for end in "xy"]
    candidates = ", ".join(f"{{model: scripted/echo, name: {name}}}" for name in (*names, "ü"))
    run_file.write_text(f"datasets: [{dataset.name}]\ncandidates: [{candidates}]\n", encoding="utf-8")
    ids = [plan.run_id for plan in planned(api.RunRequest(run_file=str(run_file))).plans]
    assert [run_id[:8] for run_id in ids] == ["run_1-1-", "run_1-2-", "run_1-3"]
    assert max(map(len, ids)) <= 128
