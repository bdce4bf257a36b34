"""Searches for records of a run, and their order; the same terms on every surface."""

from math import isfinite
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

Sort = Literal[
    "order", "id", "score", "latency", "cost", "disagreement",
    "-order", "-id", "-score", "-latency", "-cost", "-disagreement",
]  # fmt: skip
"""Orders of records; descending with a minus. Records without a value come last either way."""
# Artifacts keep the words of batch_v1; `failed`, `error` and `valid` are only words for searches.
Status = Literal[
    "evaluated", "timeout", "evaluation_error", "cancelled", "skipped", "invalid_record", "failed", "error", "valid",
]  # fmt: skip
"""Status of a record, or a word for several; unknown ones are rejected, lest a typo reads like "there are none"."""
INVALID: Status = "invalid_record"
VALID: Status = "valid"
STATUS_GROUPS: dict[Status, tuple[Status, ...]] = {
    VALID: ("evaluated", "timeout", "evaluation_error", "cancelled", "skipped"),
    "failed": ("timeout", "evaluation_error"),
    "error": ("timeout", "evaluation_error", "invalid_record"),
}
"""Words for several statuses."""
Flips = Literal["judges", "repeats"]
_Word = Annotated[str, Meta(min_length=1, max_length=256)]
_Slice = Annotated[str, Meta(pattern=r"^[^:]+:", max_length=512)]
_RunId = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$")]
# No record holds NUL: contracts reject it, and in answers it is replaced. Such a search would find nothing, regardless of the run.
_Text = Annotated[str, Meta(min_length=1, max_length=1000, extra_json_schema={"pattern": r"^[^\x00]*[^\s\x00][^\x00]*$"})]
"""Shown in the schema; other values are rejected with a message."""


def _says(description: str) -> Meta:
    return Meta(description=description)


class RecordFilter(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Conditions on records; None means no condition."""

    status: Annotated[
        Status | None,
        _says(
            "Only records with this status: `error` stands for `timeout`, `evaluation_error` and `invalid_record`, "
            "`failed` for the first two of these, `valid` for all but `invalid_record`."
        ),
    ] = None
    passed: Annotated[bool | None, _says("Only records that passed, or that did not.")] = None
    min_score: Annotated[float | None, _says("Only records with at least this raw score, on the scale of the run.")] = None
    max_score: Annotated[float | None, _says("Only records with at most this raw score.")] = None
    tag: Annotated[_Word | None, _says("Only records with this tag.")] = None
    slice: Annotated[_Slice | None, _says("Only records of a slice, as `name:value`, such as `dataset:exam`.")] = None
    criterion: Annotated[_Word | None, _says("Only records that were judged by the criterion with this id.")] = None
    met: Annotated[
        bool | None,
        _says("Only records that meet the criterion, or that do not; without one, that meet all of theirs, or not all."),
    ] = None
    code: Annotated[_Word | None, _says("Only records with this code in `failures.jsonl`, such as `timeout` or `not_passed`.")] = (
        None
    )
    text: Annotated[
        _Text | None,
        _says("Only records with these words side by side, in any case, in question, context, answer, reasons, error or id."),
    ] = None
    flips: Annotated[
        Flips | None, _says("Only records whose judges do not agree, or whose repeated answers came to different verdicts.")
    ] = None
    against: Annotated[_RunId | None, _says("Only records that passed here and not in the run with this id, or the reverse.")] = (
        None
    )

    def __post_init__(self) -> None:
        """Raise ValueError for a condition that would match all records, or none, regardless of the records."""
        for name in ("min_score", "max_score"):
            limit = getattr(self, name)
            # JSON has no NaN, but a query string does, and every comparison with it is false.
            if limit is not None and not isfinite(limit):
                raise ValueError(f"'{name}' is {limit}, which is not a score")
        if self.text is not None and ("\0" in self.text or not self.text.strip()):
            raise ValueError("'text' has no words that a record could have")

    @property
    def statuses(self) -> tuple[str, ...]:
        """Return the wanted statuses; empty means all of them."""
        return () if self.status is None else STATUS_GROUPS.get(self.status, (self.status,))

    @property
    def is_plain(self) -> bool:
        """Return whether the lines of the predictions alone can answer the search, without an index."""
        # An index of a large run takes seconds to build, and most lists ask for a status alone.
        return all(getattr(self, name) is None for name in RecordFilter.__struct_fields__ if name not in ("status", "passed"))


class RecordSearch(RecordFilter, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A filter and an order."""

    sort: Annotated[
        Sort, _says("Order, id, score, latency, cost or disagreement; with a minus the other way round, without a value last.")
    ] = "order"
