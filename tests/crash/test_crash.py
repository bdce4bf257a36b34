"""The short form of `python -m tests.crash`: a few kills, at moments that are known to be delicate and at random ones."""

import shutil
from pathlib import Path

import pytest

from tests.crash.loops import LEDGER_LOG, kill_at_random, kill_at_system_calls


def silent(_: str) -> None:
    """Say nothing."""


def test_a_run_that_is_killed_at_random_moments_ends_like_one_that_is_not(tmp_path: Path) -> None:
    found = kill_at_random(tmp_path, kills=8, records=60, seed=1, say=silent)
    assert found.problems == []
    assert found.kills == 8


@pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace")
@pytest.mark.parametrize(("on_file", "records", "step"), [("", 12, 25), (LEDGER_LOG, 40, 60)], ids=["any", "ledger"])
def test_a_run_that_is_killed_at_a_system_call_ends_like_one_that_is_not(
    tmp_path: Path, on_file: str, records: int, step: int
) -> None:
    found = kill_at_system_calls(tmp_path, step=step, records=records, say=silent, on_file=on_file)
    assert found.problems == []
    assert found.kills > 1
