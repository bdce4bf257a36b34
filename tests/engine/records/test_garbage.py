import gc
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from assay.api.runs import run
from assay.engine.planning.request import RunRequest
from assay.engine.records.run_counters import RARELY, rare_collection
from tests.engine.run_settings import batch_record, write_batch


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


@pytest.mark.usefixtures("usual")
def test_runs_leave_nothing_of_ours_behind_for_the_collector(tmp_path: Path) -> None:
    """What a cycle holds, a server keeps through many runs: the automaton of one redactor is a third of a megabyte."""
    run_a_few(tmp_path / "before")
    gc.collect()
    before = ours()
    gc.set_threshold(0)
    run_a_few(tmp_path / "counted")
    assert ours() - before == Counter()


def run_a_few(folder: Path) -> None:
    folder.mkdir()
    run_file = folder / "run.yaml"
    settings = {"candidates": ["scripted/echo"], "judges": ["scripted/judge-5"], "redact": [{"name": "hi", "pattern": "hello"}]}
    run_file.write_text(json.dumps(settings), encoding="utf-8")
    dataset = write_batch(folder / "dataset.json", *(batch_record(f"r{number}") for number in range(5)))
    for number in range(4):
        request = RunRequest(run_file=str(run_file), datasets=(str(dataset),), runs_dir=str(folder / "runs"))
        (result,) = run(request)
        assert result.is_finished, number


def ours() -> Counter[str]:
    """The objects of our own classes, and of the library that redacts, by the names of their classes."""
    kinds = Counter(type(one) for one in gc.get_objects())
    return Counter(
        {kind.__qualname__: count for kind, count in kinds.items() if str(kind.__module__).startswith(("assay.", "re2"))}
    )
