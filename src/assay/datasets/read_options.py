"""How readers work: with how many processes, and whom they tell how far they are."""

from collections.abc import Callable
from typing import Literal, NamedTuple

Progress = Callable[[int, int], None]
"""Called with the bytes read so far and the bytes in all."""


Interface = Literal["python", "cli", "http", "page"]
"""Where a caller gives its settings; hints name them as they are written there."""


def no_progress(done: int, total: int) -> None:
    """Ignore the progress: no caller observes it."""


class ReadOptions(NamedTuple):
    """What a reader may use, and whom it tells how far it is."""

    progress: Progress = no_progress
    workers: int = 1
    """Processes for large batch_v1 documents; more than one forks, which a server must not do."""
    hashes: bool = False
    """Someone will ask for the hashes of all records, so a reader that has each record at hand should hash it."""
    lint: bool = False
    """Warn of rubrics that are doubtful, too."""
    interface: Interface = "python"


DEFAULT_READ_OPTIONS = ReadOptions()
