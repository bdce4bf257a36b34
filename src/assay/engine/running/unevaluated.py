"""What a run could not evaluate, for the run that takes it up again."""

from collections.abc import Iterator

from assay.datasets.key_index import KeyIndex
from assay.store.folder import RunFolder

UNEVALUATED = frozenset({"timeout", "evaluation_error", "cancelled", "skipped"})
"""Statuses of valid records that have no grade."""


class Evaluations:
    """Evaluations by their record's hash and which of several answers they are of; of each some thirty bytes are kept."""

    def __init__(self) -> None:
        self._keys = KeyIndex()

    def add(self, record_sha256: str, sample: int) -> None:
        """One more, unless it is there."""
        self._keys.add(f"{record_sha256}:{sample}")

    def has(self, record_sha256: str, sample: int) -> bool:
        """True when it was added."""
        return self._keys.find(f"{record_sha256}:{sample}") is not None


def has_failed_evaluations(run: RunFolder) -> bool:
    """True when there is something that a retry could take up."""
    return next(_failed(run), None) is not None


def failed_evaluations(run: RunFolder) -> Evaluations:
    """What a run could not evaluate and a retry takes up again."""
    evaluations = Evaluations()
    for record_sha256, sample in _failed(run):
        evaluations.add(record_sha256, sample)
    return evaluations


def _failed(run: RunFolder) -> Iterator[tuple[str, int]]:
    lines = run.lines("predictions.jsonl")
    return ((line["record_sha256"], line.get("sample", 0)) for line in lines if line["status"] in UNEVALUATED)
