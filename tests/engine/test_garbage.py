import gc
from collections.abc import Iterator

import pytest

from assay.engine.garbage import RARELY, rare_collection


@pytest.fixture
def usual() -> Iterator[tuple[int, int, int]]:
    before = gc.get_threshold()
    yield before
    gc.set_threshold(*before)


def test_cycles_are_looked_for_rarely_inside_and_as_before_outside(usual: tuple[int, int, int]) -> None:
    with rare_collection():
        assert gc.get_threshold() == RARELY
    assert gc.get_threshold() == usual


def test_runs_side_by_side_leave_the_collector_as_the_first_found_it(usual: tuple[int, int, int]) -> None:
    first, second = rare_collection(), rare_collection()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert gc.get_threshold() == RARELY
    second.__exit__(None, None, None)
    assert gc.get_threshold() == usual


@pytest.mark.usefixtures("usual")
def test_a_collector_that_was_switched_off_stays_off() -> None:
    gc.set_threshold(0)
    with rare_collection():
        assert gc.get_threshold()[0] == 0
    assert gc.get_threshold()[0] == 0
