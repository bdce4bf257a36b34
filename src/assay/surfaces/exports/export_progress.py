"""What an export tells while it is written."""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

Row = TypeVar("Row")


def _nobody(done: int) -> None:
    pass


class ExportProgress:
    """Counts the records that are done, and keeps what had to be changed or left out, in words."""

    def __init__(self, watch: Callable[[int], None] = _nobody) -> None:
        self.notes: list[str] = []
        self.left_out = 0
        """Records that were not written, because they have nothing to write."""
        self.watch = watch

    def counted(self, rows: Iterable[Row]) -> Iterator[Row]:
        """The same rows; each is counted when it is done."""
        for number, row in enumerate(rows, 1):
            yield row
            self.watch(number)
