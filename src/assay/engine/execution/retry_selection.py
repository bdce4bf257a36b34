"""Selection of the records that a run could not evaluate, for the run that retries them."""

from collections.abc import Iterator

import msgspec

from assay.datasets.parsing.hashing import KeyIndex
from assay.store.published_run import PublishedRun

UNEVALUATED_STATUSES = frozenset({"timeout", "evaluation_error", "cancelled", "skipped"})
"""Statuses of valid records that have no grade."""


class _EvaluationLine(msgspec.Struct):
    """The members of a prediction that say which evaluation it is, and how it ended."""

    record_sha256: str
    status: str
    sample: int = 0


class EvaluationKeys:
    """Set of evaluations, keyed by record hash and sample; uses about 30 bytes each."""

    def __init__(self) -> None:
        self._keys = KeyIndex()

    def add(self, record_sha256: str, sample: int) -> None:
        """Add an evaluation."""
        self._keys.add(f"{record_sha256}:{sample}")

    def has(self, record_sha256: str, sample: int) -> bool:
        """Return True when the evaluation is in the set."""
        return self._keys.find(f"{record_sha256}:{sample}") is not None


def has_failed_evaluations(run: PublishedRun) -> bool:
    """Return True when the run has records that a retry would evaluate."""
    return next(_failed(run), None) is not None


def failed_evaluations(run: PublishedRun) -> EvaluationKeys:
    """Return the evaluations that a retry of the run would repeat."""
    evaluations = EvaluationKeys()
    for record_sha256, sample in _failed(run):
        evaluations.add(record_sha256, sample)
    return evaluations


def _failed(run: PublishedRun) -> Iterator[tuple[str, int]]:
    lines = run.typed_lines("predictions.jsonl", _EvaluationLine)
    return ((line.record_sha256, line.sample) for line in lines if line.status in UNEVALUATED_STATUSES)
