"""Some histories of `make sim`: whatever the seed brings about, nothing is lost, doubled, overspent or miscounted."""

from pathlib import Path

import pytest

from tests.simulation.history import play
from tests.simulation.invariants import problems_of

SEEDS = (*range(40), 51123)
"""In the last one somebody asks a second time to stop while a group is written."""


@pytest.mark.parametrize("seed", SEEDS)
def test_whatever_goes_wrong_a_run_keeps_its_promises(seed: int, tmp_path: Path) -> None:
    assert problems_of(play(seed, tmp_path)) == []


@pytest.mark.parametrize("seed", [1, 14])
def test_the_same_seed_is_the_same_history(seed: int, tmp_path: Path) -> None:
    folders = [tmp_path / "first", tmp_path / "second"]
    for folder in folders:
        folder.mkdir()
    first, second = (play(seed, folder) for folder in folders)
    assert first.digest == second.digest
