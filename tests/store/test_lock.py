"""The lock on a run."""

import os
from pathlib import Path

import pytest

from assay.core.errors import StoreUnavailable
from assay.store.lock import RunLock
from tests.store.samples import full_disk


def test_one_holder_at_a_time(tmp_path: Path) -> None:
    first, second = RunLock(tmp_path), RunLock(tmp_path)
    assert first.holder() is None
    assert (first.try_acquire(), second.try_acquire(), second.holder()) == (True, False, os.getpid())
    first.release()
    assert second.wait(0)
    second.release()
    second.release()


def test_a_held_lock_names_its_holder(tmp_path: Path) -> None:
    with RunLock(tmp_path), pytest.raises(StoreUnavailable, match=f"process {os.getpid()} works on the run"), RunLock(tmp_path):
        pass
    assert RunLock(tmp_path).try_acquire()


def test_a_lock_in_a_folder_that_cannot_be_used_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match="No such file"):
        RunLock(tmp_path / "none").try_acquire()


def test_a_lock_that_cannot_be_written_is_not_held(tmp_path: Path) -> None:
    with full_disk(), pytest.raises(StoreUnavailable, match="File too large"):
        RunLock(tmp_path).try_acquire()
    assert RunLock(tmp_path).try_acquire()
