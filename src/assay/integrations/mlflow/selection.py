"""Which records of a run become traces."""

from heapq import nsmallest
from typing import Any, Literal

import msgspec

from assay import api
from assay.core.errors import UsageProblem

Choice = int | Literal["all", "failed", "none"]
MOST_TRACES = 5_000
"""Traces of a run unless told otherwise: some minutes of MLflow's time."""


class SelectedRecords(msgspec.Struct, frozen=True):
    """Records of a run by their places."""

    count: int
    places: frozenset[int] | None
    """None for all."""
    note: str = ""
    """What is left out."""

    def has(self, prediction: dict[str, Any]) -> bool:
        """True for a record that becomes a trace."""
        return self.places is None or prediction["index"] in self.places


def read_choice(text: str) -> Choice:
    """What `--traces` says; raises UsageProblem."""
    if text in ("all", "failed", "none"):
        return text  # type: ignore[return-value]  # one of the words
    if not text.isascii() or not text.isdigit():
        raise UsageProblem(f"--traces takes a number, 'all', 'failed' or 'none', not '{text}'")
    return int(text)


def chosen_records(run: api.RunReader, choice: Choice) -> SelectedRecords:
    """The records of a run that become traces.

    A number of them is drawn by the hashes of the records: what MLflow computes of traces is then not of the worst or of the
    first ones, and of two runs over a dataset the same records are there to be compared.
    """
    if choice == "failed":
        return _failed(run)
    lines = [(line["record_sha256"], line["index"]) for line in run.predictions()]
    limit = len(lines) if choice == "all" else 0 if choice == "none" else choice
    if limit >= len(lines):
        return SelectedRecords(len(lines), None)
    left = f"{len(lines) - limit:,} of {len(lines):,} records have no trace"
    how = (
        f"{left}; {limit:,} were drawn by their hashes, --traces all sends every one"
        if limit
        else f"{left}; --traces all sends them"
    )
    return SelectedRecords(limit, frozenset(index for _, index in nsmallest(limit, lines)), how)


def _failed(run: api.RunReader) -> SelectedRecords:
    lines = [(line["index"], line["passed"]) for line in run.predictions()]
    places = frozenset(index for index, passed in lines if not passed)
    left = len(lines) - len(places)
    note = (
        f"the {left:,} records that passed have no trace, so MLflow's own averages over traces are not those of the run"
        if left
        else ""
    )
    return SelectedRecords(len(places), places, note)
