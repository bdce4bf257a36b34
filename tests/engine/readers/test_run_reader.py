"""A run to look at: its records, found by place and by id, and its questions."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from assay import api
from assay.core.artifact_lines import CaseLine
from assay.core.case import Case, Message, Turn
from assay.core.errors import RunNotFound
from assay.engine.readers.record_search import question_of
from assay.store.published_run import open_run_folder
from tests.crash.job import Job, steady, write_job
from tests.crash.provider import CountingProvider
from tests.engine.readers.test_record_search import PANEL, rubric_row
from tests.engine.run_settings import mcq_row, write_rows
from tests.engine.test_runs import run


@pytest.fixture
def provider() -> Iterator[CountingProvider]:
    with CountingProvider(steady, latency=0.02) as opened:
        yield opened


@pytest.fixture
def job(tmp_path: Path, provider: CountingProvider) -> Job:
    return write_job(tmp_path, provider.base_url, records=40)


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


@pytest.mark.parametrize("repeat", [1, 2])
def test_a_record_at_a_place_of_the_index_needs_the_index_no_more(tmp_path: Path, repeat: int) -> None:
    dataset = write_rows(tmp_path / "law.jsonl", mcq_row("q-0"), mcq_row("q-1"))
    api.run(dataset, model="scripted/mcq-any", run_id="x", runs_dir=str(tmp_path / "runs"), repeat=repeat)
    run = api.open_run("x", runs_dir=tmp_path / "runs")
    rows = [record.row for record in api.find_records(run, api.RecordSearch(), limit=100).records]
    expected = [run.record_at(row.position) for row in rows if row is not None]
    shutil.rmtree(tmp_path / "runs" / ".index")
    assert [run.record_of(row) for row in rows if row is not None] == expected
    assert len(expected) == 2 * repeat


def test_neighbours_are_those_of_the_search(judged: Path) -> None:
    run = api.open_run("panel", runs_dir=judged)
    search = api.RecordSearch(slice="dataset:law-0", sort="-id")
    near = api.neighbours_of(run, search, api.row_at(run, 2))
    assert (near.number, near.total) == (2, 3)
    assert [beside.record_id for beside in (near.previous, near.next) if beside] == ["r-4", "r-0"]
    assert api.neighbours_of(run, search, api.row_at(run, 1)).number is None


def test_record_is_the_same_with_an_index_and_without(judged: Path, tmp_path: Path) -> None:
    copy = tmp_path / "runs" / "panel"
    shutil.copytree(judged / "panel", copy)
    names = ("r-3", "3", "r-5")
    plain = [api.open_run(str(copy)).record(name) for name in names]
    api.index_run(copy)
    assert [api.open_run(str(copy)).record(name) for name in names] == plain
    assert len(plain[0].attempts) == 5
    with pytest.raises(RunNotFound, match="no finished record 'r-9'") as problem:
        api.open_run(str(copy)).record("r-9")
    assert problem.value.hint == f"list its records with: assay show {copy.name} --verbose"


def test_question_of_a_record_is_what_it_asks_last() -> None:
    messages = (Message("user", "First"), Message("assistant", "Yes"), Message("user", "Then"))
    case = Case(id="r", index=0, contract="batch_v1", task="open", dataset="d", prompt="")
    assert question_of(msgspec.structs.replace(case, messages=messages)) == "Then"
    assert question_of(msgspec.structs.replace(case, turns=(Turn(1, "user", "Hi"), Turn(2, "user", "")))) == "Hi"
    assert question_of(case) == ""


def test_cases_are_read_one_at_a_time_as_they_are_in_their_file(job: Job) -> None:
    run(job, "x")
    folder = open_run_folder(job.runs / "x")
    assert list(folder.records()) == list(folder.typed_lines("cases.jsonl", CaseLine))
