"""What metrics need to know of a record, and the columns of numbers that a run's records become."""

from array import array
from collections import Counter
from collections.abc import Iterable, Mapping

import msgspec

STATUSES = ("evaluated", "invalid_record", "timeout", "evaluation_error", "cancelled", "skipped")
"""Record statuses as artifacts name them."""
LATENCIES = ("model", "judge", "end_to_end")
AMOUNTS = ("input_tokens", "output_tokens", "total_tokens", "cached_tokens", "cost")
_STATUS_CODES = {status: code for code, status in enumerate(STATUSES)}
_CALLED = frozenset({"evaluated", "timeout", "evaluation_error"})
_UNKNOWN = float("nan")
"""Marks an unknown number inside a column; it never leaves this package."""

Value = str | None


class RecordFacts(msgspec.Struct, frozen=True, kw_only=True):
    """One record of a finished run, without its texts; None is unknown, never 0."""

    position: int
    status: str
    score: float | None = None
    """0..1 for an evaluated record."""
    raw_score: float | None = None
    """On the scale of the way of grading."""
    scale: str = ""
    passed: bool | None = None
    latency_ms: float | None = None
    """Of the candidate's call that was answered."""
    judge_latency_ms: float | None = None
    total_latency_ms: float | None = None
    """Of all the record's attempts, candidate and judges."""
    input_tokens: int | None = None
    output_tokens: int | None = None
    total_tokens: int | None = None
    cached_tokens: int | None = None
    cost: float | None = None
    """US dollars for all its calls."""
    error_code: str = ""
    label: str = ""
    flags: tuple[str, ...] = ()
    slices: Mapping[str, tuple[str, ...]] = {}
    """Values by the name of the slice; no value makes the record a member of the slice of those without."""
    cluster: str = ""
    """Records of one cluster are not independent of each other."""


class Columns:
    """The records of a run as arrays of numbers, in the order in which they came: a few hundred bytes each."""

    def __init__(self) -> None:
        self.status = array("b")
        self.passed = array("b")
        self.score = array("d")
        self.raw_score = array("d")
        self.scale = array("i")
        self.label = array("i")
        self.error = array("i")
        self.cluster = array("i")
        self.latencies = {name: array("d") for name in LATENCIES}
        self.amounts = {name: array("d") for name in AMOUNTS}
        self.is_called = array("b")
        self.names: dict[str, dict[str, int]] = {"scale": {}, "label": {}, "error": {}, "cluster": {}}
        self.flags: Counter[str] = Counter()
        self.members: dict[str, dict[Value, array[int]]] = {}
        """Row numbers by slice and value; None is the slice of those without a value."""

    def __len__(self) -> int:
        return len(self.status)

    def append(self, facts: RecordFacts) -> None:
        """Add one record."""
        row = len(self.status)
        is_scored = facts.status == "evaluated" and facts.score is not None
        self.status.append(_STATUS_CODES[facts.status])
        self.passed.append(-1 if facts.passed is None or not is_scored else facts.passed)
        self.score.append(_number(facts.score if is_scored else None))
        self.raw_score.append(_number(facts.raw_score if is_scored else None))
        self.scale.append(self._code("scale", facts.scale if is_scored else ""))
        self.label.append(self._code("label", facts.label))
        self.error.append(self._code("error", facts.error_code))
        self.cluster.append(self._code("cluster", facts.cluster))
        self._append_measures(facts)
        self.flags.update(facts.flags)
        for name, values in facts.slices.items():
            self._join(name, values, row=row)

    def _code(self, name: str, word: str) -> int:
        """A number for a word; -1 for none."""
        codes = self.names[name]
        return codes.setdefault(word, len(codes)) if word else -1

    def _append_measures(self, facts: RecordFacts) -> None:
        model, judge, end_to_end = self.latencies.values()
        model.append(_number(facts.latency_ms))
        judge.append(_number(facts.judge_latency_ms))
        end_to_end.append(_number(facts.total_latency_ms))
        is_called = facts.status in _CALLED
        for name, column in self.amounts.items():
            amount = getattr(facts, name)
            column.append(_number(amount))
            is_called = is_called or amount is not None
        self.is_called.append(is_called)

    def _join(self, name: str, values: tuple[str, ...], *, row: int) -> None:
        groups = self.members.setdefault(name, {})
        for value in dict.fromkeys(values) if values else (None,):
            group = groups.get(value)
            if group is None:
                group = groups[value] = array("q")
            group.append(row)


def collect(facts: Iterable[RecordFacts] | Columns) -> Columns:
    """The columns of a stream of records; columns stay as they are."""
    if isinstance(facts, Columns):
        return facts
    columns = Columns()
    for record in facts:
        columns.append(record)
    return columns


def _number(value: float | None) -> float:
    return _UNKNOWN if value is None else value
