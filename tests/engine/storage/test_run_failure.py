"""A run that ends before its end is `failed`, with its reason, whatever ended it."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from assay import api
from assay.core.errors import LedgerLost
from assay.core.run_result import RunResult
from assay.engine.execution import states
from tests.surfaces.server.serving import dataset


def remove_ledger(active: Path) -> None:
    for path in active.glob("ledger.sqlite*"):
        path.unlink()


def remove_file_alone(active: Path) -> None:
    (active / "ledger.sqlite").unlink()


def move_away(active: Path) -> None:
    active.rename(active.parent.parent.with_name("elsewhere"))


def replace_by_a_copy(active: Path) -> None:
    """A copy without its log, as a restored backup is."""
    ledger, copy = active / "ledger.sqlite", active / "copy"
    shutil.copy(ledger, copy)
    copy.replace(ledger)


def overwrite_ledger(active: Path) -> None:
    (active / "ledger.sqlite").write_bytes(b"junk" * 20_000)


def empty_ledger(active: Path) -> None:
    os.truncate(active / "ledger.sqlite", 0)


def request(folder: Path, records: int) -> api.RunRequest:
    (folder / "dataset.json").write_bytes(msgspec.json.encode(dataset(records)))
    (folder / "run.yaml").write_text(
        "candidates: [scripted/slow-20]\njudges: [scripted/judge-5]\nrun: {concurrency: 2}\n", encoding="utf-8"
    )
    return api.RunRequest(
        run_file=str(folder / "run.yaml"), datasets=(str(folder / "dataset.json"),), runs_dir=str(folder / "runs"), run_id="x"
    )


def losing(folder: Path, lose: Callable[[Path], None]) -> int:
    """Run until a few records are done and the ledger is lost; returns how many were done by then."""
    done = list[int]()

    def watch(snapshot: api.Snapshot) -> None:
        if snapshot.done >= 3 and not done:
            lose(folder / "runs" / ".active" / "x")
            done.append(snapshot.done)

    with pytest.raises(LedgerLost):
        api.run(request(folder, 100), watch=watch)
    return done[0]


def failed(runs: Path) -> RunResult:
    """The run as everybody who looks at it sees it."""
    result = api.open_run("x", runs_dir=runs).result
    assert (result.state, result.is_resumable, result.is_interrupted, result.is_finished) == ("failed", True, False, False)
    assert str(runs) not in result.problem
    (listed,) = api.list_runs(runs)
    assert (listed.state, listed.note) == ("failed", result.problem)
    return result


@pytest.mark.parametrize("lose", [remove_ledger, remove_file_alone, shutil.rmtree, move_away, replace_by_a_copy])
def test_a_ledger_that_is_removed_fails_the_run_and_a_resumed_one_loses_nothing(
    tmp_path: Path, lose: Callable[[Path], None]
) -> None:
    before = losing(tmp_path, lose)
    result = failed(tmp_path / "runs")
    assert "was removed or replaced" in result.problem
    assert result.counts.evaluated_records >= before
    resumed = api.resume("x", runs_dir=tmp_path / "runs")
    assert (resumed.state, resumed.counts.evaluated_records) == ("completed", 100)
    attempts = (Path(resumed.run_dir) / "attempt_logs.jsonl").read_text(encoding="utf-8").splitlines()
    assert len(attempts) == 200


@pytest.mark.parametrize("lose", [overwrite_ledger, empty_ledger])
def test_a_ledger_that_is_overwritten_fails_the_run_and_a_resumed_one_begins_again(
    tmp_path: Path, lose: Callable[[Path], None]
) -> None:
    losing(tmp_path, lose)
    assert "the outcomes in it are lost" in failed(tmp_path / "runs").problem
    resumed = api.resume("x", runs_dir=tmp_path / "runs")
    assert (resumed.state, resumed.counts.evaluated_records) == ("completed", 100)
    manifest = msgspec.json.decode((Path(resumed.run_dir) / "run_manifest.json").read_bytes())
    assert "the outcomes in it are lost" in manifest["failures"][0]["message"]


def test_an_empty_file_is_no_ledger_of_another_version_and_stays_as_it_is(tmp_path: Path) -> None:
    active = tmp_path / ".active" / "x"
    active.mkdir(parents=True)
    (active / "ledger.sqlite").touch()
    with pytest.raises(LedgerLost, match="the ledger was lost"):
        api.resume("x", runs_dir=tmp_path)
    assert (active / "ledger.sqlite").stat().st_size == 0


def test_a_defect_while_sealing_makes_the_run_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def break_down(*_: object, **__: object) -> None:
        raise ZeroDivisionError("a defect")

    runs = tmp_path / "runs"
    with monkeypatch.context() as broken:
        broken.setattr(states, "finalize", break_down)
        for act in (lambda: api.run(request(tmp_path, 3)), lambda: api.cancel("x", runs_dir=runs)):
            with pytest.raises(ZeroDivisionError):
                act()
            assert failed(runs).problem == "ZeroDivisionError: a defect"
    assert api.resume("x", runs_dir=runs).state == "completed"


def test_a_watch_that_raises_leaves_the_run_interrupted(tmp_path: Path) -> None:
    def watch(_: api.Snapshot) -> None:
        raise ValueError("enough")

    with pytest.raises(ValueError, match="enough"):
        api.run(request(tmp_path, 20), watch=watch)
    result = api.open_run("x", runs_dir=tmp_path / "runs").result
    assert (result.is_interrupted, result.is_resumable) == (True, False)
    assert api.resume("x", runs_dir=tmp_path / "runs").state == "completed"
