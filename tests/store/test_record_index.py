"""The index over the records of a run: derived from its artifacts, and lost or damaged without harm."""

import json
import os
import shutil
from pathlib import Path

import pytest

from assay import api
from assay.core.errors import RunNotFound, StoreUnavailable
from assay.store.record_index import index_of, searchable
from tests.engine.graded_runs import graded, passing, question
from tests.engine.readers.test_record_search import found


def test_index_of_a_record_is_not_taken_for_the_id_of_another(tmp_path: Path) -> None:
    rows = [question("1"), question("0")]
    graded(tmp_path, "one", rows, passing(rows))
    run = api.open_run("one", runs_dir=tmp_path / "runs")
    plain = [run.record_at(0), run.record("0")]
    api.index_run(run.folders.sealed)
    assert [run.record_at(0), run.record("0")] == plain
    assert [record.prediction.record_id for record in plain] == ["1", "0"]


def test_index_of_other_artifacts_is_not_used(tmp_path: Path) -> None:
    rows = [question("q-0")]
    graded(tmp_path, "one", rows, passing(rows))
    made = api.index_run(tmp_path / "runs" / "one")
    shutil.rmtree(tmp_path / "runs" / "one")
    graded(tmp_path, "one", rows, passing(rows, 0))
    assert index_of(tmp_path / "runs" / "one") is None
    assert found(tmp_path / "runs", "one", passed=False) == ["q-0"]
    assert not made.folder.exists()


def test_purged_run_leaves_no_text_in_an_index(tmp_path: Path) -> None:
    rows = [question("q-0", prompt="The hidden treasure?")]
    graded(tmp_path, "one", rows, passing(rows))
    api.index_run(tmp_path / "runs" / "one")
    api.purge(tmp_path / "runs", run_name="one", reason="the customer asked for it")
    left = [path for path in (tmp_path / "runs").rglob("*") if path.is_file() and b"treasure" in path.read_bytes()]
    assert left == []
    with pytest.raises(RunNotFound, match="removed by retention"):
        found(tmp_path / "runs", "one")


def test_what_a_killed_process_left_of_an_index_goes_with_the_next_one_and_with_a_purge(tmp_path: Path) -> None:
    rows = [question("q-0")]
    graded(tmp_path, "one", rows, passing(rows))
    made = api.index_run(tmp_path / "runs" / "one").folder
    left = [made.with_name(f"{made.name}.new-{letter * 16}") for letter in "ab"]
    for folder in left:
        folder.mkdir()
    os.utime(left[0], (0, 0))
    shutil.rmtree(made)
    api.index_run(tmp_path / "runs" / "one")
    assert [folder.exists() for folder in left] == [False, True]
    api.purge(tmp_path / "runs", run_name="one", reason="the customer asked for it")
    assert list(made.parent.iterdir()) == []


def test_index_goes_to_the_cache_where_the_runs_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [question("q-0")]
    graded(tmp_path, "one", rows, passing(rows))
    # A file has the place of the folder: that keeps even root from writing there.
    (tmp_path / "runs" / ".index").write_text("taken", encoding="utf-8")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert found(tmp_path / "runs", "one") == ["q-0"]
    assert api.index_run(tmp_path / "runs" / "one").folder.is_relative_to(tmp_path / "cache")


def test_artifact_that_was_changed_behind_the_index_is_not_shown_as_another_record(tmp_path: Path) -> None:
    rows = [question(f"q-{number}") for number in range(2)]
    graded(tmp_path, "one", rows, passing(rows))
    api.index_run(tmp_path / "runs" / "one")
    path = tmp_path / "runs" / "one" / "predictions.jsonl"
    path.chmod(0o644)
    path.write_bytes(b"".join(reversed(path.read_bytes().splitlines(keepends=True))))
    with pytest.raises(StoreUnavailable):
        found(tmp_path / "runs", "one")


def test_index_that_was_cut_off_is_made_anew(tmp_path: Path) -> None:
    rows = [question("q-0")]
    graded(tmp_path, "one", rows, passing(rows))
    failures = tmp_path / "runs" / "one" / "failures.jsonl"
    failures.chmod(0o644)
    failures.write_bytes(b"{")
    with pytest.raises(StoreUnavailable, match="damaged"):
        api.index_run(tmp_path / "runs" / "one")
    assert list((tmp_path / "runs" / ".index").iterdir()) == []
    failures.write_bytes(b"")
    assert found(tmp_path / "runs", "one") == ["q-0"]


def test_unpaired_surrogates_do_not_keep_a_text_from_being_searched() -> None:
    assert searchable(json.loads('"A \\ud800 B"')) == b"a ? b"
