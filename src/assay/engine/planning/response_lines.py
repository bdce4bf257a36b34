"""Where each response of a candidate stands in a file of lines: found by its record, with neither ids nor texts in memory."""

from array import array

from assay.datasets.key_index import KeyIndex
from assay.datasets.source import Source


class ResponseLines:
    """The responses of one candidate: some fifty bytes for each, and its line is read from the file when it is asked for."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._ids = KeyIndex()
        self._starts = array("Q")
        self._sizes = array("I")
        self._numbers = array("I")

    def __len__(self) -> int:
        return len(self._ids)

    def __contains__(self, case_id: str) -> bool:
        return self._ids.find(case_id) is not None

    def add(self, case_id: str, *, start: int, size: int, number: int) -> int:
        """Note a response and its line; returns 0, or the number of the earlier line that has a response to the same record."""
        if not self._ids.add(case_id):
            return self._numbers[self._ids.find(case_id) or 0]
        self._starts.append(start)
        self._sizes.append(size)
        self._numbers.append(number)
        return 0

    def line(self, case_id: str) -> bytes | None:
        """The line of a response; None when there is none."""
        found = self._ids.find(case_id)
        return None if found is None else self._source.part(self._starts[found], self._starts[found] + self._sizes[found])
