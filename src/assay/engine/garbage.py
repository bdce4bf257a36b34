"""The garbage collector while a run works: nearly everything goes by reference counts, and looking for cycles costs a tenth."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

RARELY = (50_000, 20, 50)
"""Objects between two looks at the young ones, and how many of those come before a look at the older ones."""

_lock = Lock()
_usual: list[tuple[int, int, int]] = []
"""The thresholds to go back to, once for each run that works in this process."""


@contextmanager
def rare_collection() -> Iterator[None]:
    """Inside, cycles are looked for rarely; somebody who has set the collector to do even less keeps that."""
    with _lock:
        _usual.append(_usual[0] if _usual else gc.get_threshold())
        if 0 < _usual[0][0] < RARELY[0]:
            gc.set_threshold(*RARELY)
    try:
        yield
    finally:
        with _lock:
            usual = _usual.pop()
            if not _usual:
                gc.set_threshold(*usual)
