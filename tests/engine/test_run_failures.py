"""A run that ends before its end is `failed`, with its reason, whatever ended it."""

import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from assay import api
from assay.core.errors import AssayError, LedgerLost, RunSealed
from assay.engine.running import states
from tests.server.serving import dataset


def remove_ledger(active: Path) -> None:
    for path in active.glob("ledger.sqlite*"):
        path.unlink()


def remove_file_alone(active: Path) -> None:
    (active / "ledger.sqlite").unlink()


def overwrite_ledger(active: Path) -> None:
    (active / "ledger.sqlite").write_bytes(b"junk" * 20_000)


def request(folder: Path, records: int) -> api.RunRequest:
    (folder / "dataset.json").write_bytes(msgspec.json.encode(dataset(records)))
    (folder / "run.yaml").write_text(
        "candidates: [scripted/slow-20]\njudges: [scripted/judge-5]\nrun: {concurrency: 2}\n", encoding="utf-8"
    )
    return api.RunRequest(
        run_file=str(folder / "run.yaml"), datasets=(str(folder / "dataset.json"),), runs_dir=str(folder / "runs"), run_id="x"
    )


@pytest.mark.parametrize("lose", [remove_ledger, remove_file_alone, shutil.rmtree, overwrite_ledger])
def test_a_ledger_that_is_lost_makes_the_run_failed_for_good(tmp_path: Path, lose: Callable[[Path], None]) -> None:
    runs, is_lost = tmp_path / "runs", list[bool]()

    def watch(snapshot: api.Snapshot) -> None:
        if snapshot.done >= 3 and not is_lost:
            lose(runs / ".active" / "x")
            is_lost.append(True)

    with pytest.raises(LedgerLost, match="the ledger was lost"):
        api.run(request(tmp_path, 200), watch=watch)
    result = api.open_run("x", runs_dir=runs).result
    assert (result.state, result.is_resumable, result.is_interrupted, result.is_finished) == ("failed", False, False, False)
    assert "the ledger was lost" in result.problem
    (listed,) = api.list_runs(runs)
    assert (listed.state, listed.note) == ("failed", result.problem)
    for act in (api.resume, api.cancel):
        with pytest.raises(RunSealed, match="the ledger was lost"):
            act("x", runs_dir=runs)


def test_a_ledger_that_was_overwritten_is_not_called_one_of_another_version(tmp_path: Path) -> None:
    active = tmp_path / ".active" / "x"
    active.mkdir(parents=True)
    (active / "ledger.sqlite").touch()
    with pytest.raises(AssayError, match="the ledger was lost"):
        api.resume("x", runs_dir=tmp_path)
    assert (active / "ledger.sqlite").stat().st_size == 0


def test_a_defect_while_sealing_makes_the_run_failed_and_a_cancel_leaves_it_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def break_down(*_: object, **__: object) -> None:
        raise ZeroDivisionError("a defect")

    runs = tmp_path / "runs"
    with monkeypatch.context() as broken:
        broken.setattr(states, "finalize", break_down)
        with pytest.raises(ZeroDivisionError):
            api.run(request(tmp_path, 3))
        result = api.open_run("x", runs_dir=runs).result
        assert (result.state, result.is_resumable, result.is_interrupted) == ("failed", True, False)
        assert result.problem == "ZeroDivisionError: a defect"
        with pytest.raises(RunSealed, match="an internal error"):
            api.cancel("x", runs_dir=runs)
        assert api.open_run("x", runs_dir=runs).result.state == "failed"
    assert api.resume("x", runs_dir=runs).state == "completed"
