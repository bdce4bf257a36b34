"""Records are found by what they are like, through an index that can be lost at any time."""

from pathlib import Path
from typing import Any

import pytest

from assay import api
from assay.core.errors import RunNotFound, UsageProblem
from assay.engine.execution.run_context import RunEnvironment
from assay.engine.runs import start
from tests.engine.graded_runs import graded, passing, question
from tests.engine.run_settings import batch_record, mcq_row, write_batch, write_rows

PANEL = ("scripted/judge-1", "scripted/judge-5")


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs of six rubric records that two judges see differently, the last of which breaks its contract."""
    folder = tmp_path_factory.mktemp("judged")
    rows = [rubric_row(number) for number in range(5)]
    dataset = write_rows(folder / "law.jsonl", *rows, {**rubric_row(5), "prompt": 7})
    options: dict[str, Any] = {"model": "scripted/echo", "runs_dir": str(folder / "runs"), "on_invalid": "skip"}
    api.run(dataset, judges=PANEL, run_id="panel", **options)
    api.run(dataset, judges=PANEL[1:], run_id="lenient", **options)
    return folder / "runs"


def rubric_row(number: int) -> dict[str, Any]:
    criteria = [{"id": name, "title": f"Says {name}", "weight": 1} for name in ("first", "second")]
    words = f"Écrivez  number {number}:\nSTRASSE or Straße?"
    row = {"schema_version": "legal_eval_v1", "id": f"r-{number}", "dataset": f"law-{number % 2}", "task_type": "rubric_qa"}
    return {**row, "prompt": words, "rubric": criteria}


def found(runs_dir: Path, run_id: str, **search: Any) -> list[str | None]:
    run = api.open_run(run_id, runs_dir=runs_dir)
    return [record.line.record_id for record in api.find_records(run, api.RecordSearch(**search), limit=100).records]


@pytest.mark.parametrize(
    ("search", "expected"),
    [
        ({}, [0, 1, 2, 3, 4, 5]),
        ({"status": "valid"}, [0, 1, 2, 3, 4]),
        ({"status": "invalid_record"}, [5]),
        ({"status": "timeout"}, []),
        ({"status": "failed"}, []),
        ({"passed": False}, [0, 1, 2, 3, 4]),
        ({"passed": True}, []),
        ({"slice": "dataset:law-1"}, [1, 3, 5]),
        ({"slice": "dataset:law-7"}, []),
        ({"criterion": "first", "met": False}, [0, 1, 2, 3, 4]),
        ({"criterion": "first", "met": True}, []),
        ({"criterion": "third"}, []),
        ({"met": False}, [0, 1, 2, 3, 4]),
        ({"met": True}, []),
        ({"code": "not_passed"}, [0, 1, 2, 3, 4]),
        ({"max_score": 0.0}, [0, 1, 2, 3, 4]),
        ({"min_score": 0.1}, []),
        ({"flips": "judges"}, [0, 1, 2, 3, 4]),
        ({"flips": "repeats"}, []),
        ({"against": "lenient"}, [0, 1, 2, 3, 4]),
        ({"text": "NUMBER 3"}, [3]),
        ({"text": "e\u0301crivez number"}, [0, 1, 2, 3, 4]),
        ({"text": "strasse or strasse"}, [0, 1, 2, 3, 4]),
        ({"text": "5 of 5 points"}, []),
        ({"text": "%"}, []),
        ({"sort": "-id", "slice": "dataset:law-0"}, [4, 2, 0]),
    ],
)
def test_records_are_found_by(judged: Path, search: dict[str, Any], expected: list[int]) -> None:
    assert found(judged, "panel", **search) == [f"r-{number}" for number in expected]


def test_parts_of_what_is_found_make_the_whole(judged: Path) -> None:
    run, search = api.open_run("panel", runs_dir=judged), api.RecordSearch(sort="-order")
    parts = [api.find_records(run, search, limit=4, offset=offset) for offset in (0, 4)]
    assert [record.line.index for part in parts for record in part.records] == [5, 4, 3, 2, 1, 0]
    assert [(part.total, part.next_offset) for part in parts] == [(6, 4), (6, None)]


def test_what_there_is_to_choose_from_is_counted(judged: Path) -> None:
    facets = api.facets_of(api.open_run("panel", runs_dir=judged))
    assert facets is not None
    assert (facets.records, facets.statuses, facets.not_passed) == (6, {"evaluated": 5, "invalid_record": 1}, 5)
    assert (facets.criteria, facets.slices) == ({"first": 5, "second": 5}, {"dataset": {"law-0": 3, "law-1": 3}})
    assert (facets.disagreements, facets.splits) == (5, 0)


def test_records_are_found_by_their_tags(tmp_path: Path) -> None:
    tagged = [{**batch_record(f"q-{number}"), "tags": ["all", f"t{number % 2}"]} for number in range(4)]
    dataset = write_batch(tmp_path / "support.json", *tagged)
    api.run(dataset, model="scripted/echo", judge="scripted/judge-5", run_id="tagged", runs_dir=str(tmp_path / "runs"))
    assert found(tmp_path / "runs", "tagged", tag="t1") == ["q-1", "q-3"]
    assert found(tmp_path / "runs", "tagged", tag="t1", slice="tags:all", sort="-score") == ["q-1", "q-3"]
    assert found(tmp_path / "runs", "tagged", tag="t") == []


def test_errors_of_both_kinds_are_found_as_failed(tmp_path: Path) -> None:
    dataset = write_batch(tmp_path / "support.json", batch_record("q-0"), batch_record("q-1"))
    options: dict[str, Any] = {"judge": "scripted/judge-5", "runs_dir": str(tmp_path / "runs")}
    api.run(dataset, model="scripted/fail-invalid_request", run_id="down", **options)
    assert found(tmp_path / "runs", "down", status="failed") == ["q-0", "q-1"]
    assert found(tmp_path / "runs", "down", status="failed", code="invalid_request", sort="-score") == ["q-0", "q-1"]


def test_samples_of_a_record_are_told_apart_and_their_split_is_found(tmp_path: Path) -> None:
    rows = [mcq_row(f"q-{number}", prompt=f"Is it {number}?") for number in range(8)]
    dataset = write_rows(tmp_path / "law.jsonl", *rows)
    api.run(dataset, model="scripted/mcq-any", repeat=2, run_id="twice", runs_dir=str(tmp_path / "runs"))
    run = api.open_run("twice", runs_dir=tmp_path / "runs")
    verdicts = {(line.record_id, line.sample): line.passed for line in run.predictions()}
    split = [row["id"] for row in rows if verdicts[row["id"], 0] != verdicts[row["id"], 1]]
    assert found(tmp_path / "runs", "twice", flips="repeats") == [name for name in split for _ in range(2)]
    assert 0 < len(split) < len(rows)
    assert run.record("q-1", sample=1).prediction.sample == 1
    assert [sample.sample for sample in run.record("q-1").samples] == [0, 1]


def test_flips_against_another_run_are_those_of_the_comparison(tmp_path: Path) -> None:
    rows = [question(f"q-{number}") for number in range(6)]
    graded(tmp_path, "before", rows, passing(rows, 1, 2))
    graded(tmp_path, "after", rows, passing(rows, 2, 4))
    flips = api.compare("before", "after", runs_dir=tmp_path / "runs").flips
    assert found(tmp_path / "runs", "after", against="before") == ["q-1", "q-4"]
    assert sorted(flip.record_id for flip in flips) == ["q-1", "q-4"]
    with pytest.raises(RunNotFound, match="no finished run 'nowhere'"):
        found(tmp_path / "runs", "after", against="nowhere")


def test_run_under_way_is_searched_by_status_and_verdict(tmp_path: Path) -> None:
    run = half_done(tmp_path)
    known = [line.record_id for line in run.predictions()]
    passed = api.find_records(run, api.RecordSearch(status="valid", passed=True), limit=2, offset=1)
    everything = api.find_records(run, api.RecordSearch(), limit=1000)
    assert 3 < len(known) < 200
    assert (passed.total, [record.line.record_id for record in passed.records]) == (len(known), known[1:3])
    assert [record.line.record_id for record in everything.records] == ["broken", *known]
    assert everything.records[1].question == "Say hello"
    assert run.record_at(2) == run.record(known[1])
    assert run.record_at(0).failure.record_id == "broken"
    with pytest.raises(RunNotFound, match="no finished record '200'"):
        run.record_at(200)
    with pytest.raises(UsageProblem, match="can be searched by status and result only"):
        api.find_records(run, api.RecordSearch(text="hello"), limit=10)


def half_done(folder: Path) -> api.RunReader:
    """A run that is stopped after some of its records, the first of which broke its contract."""
    broken = {**batch_record("broken"), "input": {"prompt": 7}}
    dataset = write_batch(folder / "support.json", broken, *(batch_record(f"q-{number:03}") for number in range(200)))
    options: dict[str, Any] = {"models": ("scripted/slow-10",), "judges": ("scripted/judge-5",), "on_invalid": "skip"}
    request = api.RunRequest(datasets=(str(dataset),), runs_dir=str(folder / "runs"), run_id="half", concurrency=1, **options)
    (plan,) = api.plan_runs(request).plans
    done = [0]
    around = RunEnvironment(environ={}, watch=lambda snapshot: done.append(snapshot.done), is_stopping=lambda: done[-1] > 5)
    start(plan, folder / "runs", around)
    return api.open_run("half", runs_dir=folder / "runs")
