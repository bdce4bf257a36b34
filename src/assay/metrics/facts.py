"""What metrics need to know of a record, and the columns of numbers that a run's records become."""

from array import array
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TypeVar

import msgspec

STATUSES = ("evaluated", "invalid_record", "timeout", "evaluation_error", "cancelled", "skipped")
"""Record statuses as artifacts name them."""
LATENCIES = ("model", "judge", "end_to_end")
AMOUNTS = ("input_tokens", "output_tokens", "total_tokens", "cached_tokens", "judge_tokens", "cost")
_STATUS_CODES = {status: code for code, status in enumerate(STATUSES)}
_CALLED = frozenset({"evaluated", "timeout", "evaluation_error"})
UNKNOWN = float("nan")
"""Marks an unknown number inside a column; it never leaves this package."""
NO_WORD = -1
"""Marks that there is no word, inside a column of numbers that stand for words."""

Value = str | None
Number = TypeVar("Number", int, float)
_NO_VALUE: tuple[Value, ...] = (None,)
_NO_AMOUNTS = (None,) * len(AMOUNTS)


class RecordFacts(msgspec.Struct, frozen=True):
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
    """Of the candidate's call that was answered; None for an answer that nobody was asked for."""
    judge_latency_ms: float | None = None
    total_latency_ms: float | None = None
    """Time in which at least one of the record's calls was under way, candidate and judges."""
    input_tokens: int | None = None
    output_tokens: int | None = None
    total_tokens: int | None = None
    cached_tokens: int | None = None
    judge_tokens: int | None = None
    """Of all judge calls; the others are the candidate's."""
    cost: float | None = None
    """US dollars for all its calls."""
    error_code: str = ""
    label: str = ""
    flags: tuple[str, ...] = ()
    slices: Mapping[str, tuple[str, ...]] = {}
    """Values by the name of the slice; no value makes the record a member of the slice of those without."""
    cluster: str = ""
    """Records of one cluster are not independent of each other."""
    profile_score: float | None = None
    """By the rules of the run's profile, not clipped."""
    profile_unscored: str = ""
    """Why the profile gives no score."""
    profile_worst: float | None = None
    """What a record without a score could have had at worst; None where no verdict would give it one."""
    profile_best: float | None = None
    record_id: str = ""
    """The same for all answers to one record; empty for a record of its own."""
    is_repeated: bool = False
    """It is one of several answers to the record."""


class Columns:
    """The records of a run as arrays of numbers, in the order in which they came: 30 to 100 bytes each, and 4 for each slice.

    A column of what most runs do not know ends with the last known value, and is empty where there is none.
    """

    def __init__(self) -> None:
        self.status = array("b")
        self.passed = array("b")
        self.score = array("d")
        self.raw_score = array("d")
        self.scale = array("i")
        self.label = array("i")
        self.error = array("i")
        self.cluster = array("i")
        self.record = array("i")
        """Which record an answer is to, where records were asked several times."""
        self.latencies = {name: array("d") for name in LATENCIES}
        self.amounts = {name: array("d") for name in AMOUNTS}
        self._latencies = tuple(self.latencies.values())
        self._amounts = tuple(self.amounts.values())
        self.is_called = array("b")
        self.profile_score = array("d")
        self.profile_unscored = array("i")
        self.profile_worst = array("d")
        self.profile_best = array("d")
        self.names: dict[str, dict[str, int]] = {
            "scale": {},
            "label": {},
            "error": {},
            "cluster": {},
            "profile_unscored": {},
            "record": {},
        }
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
        self.score.append(UNKNOWN if facts.score is None or not is_scored else facts.score)
        self.raw_score.append(UNKNOWN if facts.raw_score is None or not is_scored else facts.raw_score)
        self.scale.append(self._code("scale", facts.scale) if is_scored else NO_WORD)
        # Most records have none, and a call for each column is what adding a record would cost.
        self.label.append(self._code("label", facts.label) if facts.label else NO_WORD)
        if facts.error_code:
            _put(self.error, row, self._code("error", facts.error_code), unknown=NO_WORD)
        if facts.cluster:
            _put(self.cluster, row, self._code("cluster", facts.cluster), unknown=NO_WORD)
        if facts.profile_score is not None or facts.profile_unscored:
            self._append_profile(row, facts)
        if facts.is_repeated:
            _put(self.record, row, self._code("record", facts.record_id), unknown=NO_WORD)
        self._append_measures(row, facts)
        for flag in facts.flags:
            self.flags[flag] += 1
        for name, values in facts.slices.items():
            self._join(name, values, row=row)

    def _code(self, name: str, word: str) -> int:
        """A number for a word."""
        codes = self.names[name]
        return codes.setdefault(word, len(codes)) if word else NO_WORD

    def _append_profile(self, row: int, facts: RecordFacts) -> None:
        if facts.profile_score is not None:
            _put(self.profile_score, row, facts.profile_score, unknown=UNKNOWN)
        if facts.profile_unscored:
            _put(self.profile_unscored, row, self._code("profile_unscored", facts.profile_unscored), unknown=NO_WORD)
        if facts.profile_worst is not None and facts.profile_best is not None:
            _put(self.profile_worst, row, facts.profile_worst, unknown=UNKNOWN)
            _put(self.profile_best, row, facts.profile_best, unknown=UNKNOWN)

    def _append_measures(self, row: int, facts: RecordFacts) -> None:
        for column, value in zip(self._latencies, (facts.latency_ms, facts.judge_latency_ms, facts.total_latency_ms), strict=True):
            if value is not None:
                _put(column, row, value, unknown=UNKNOWN)
        tokens = (facts.input_tokens, facts.output_tokens, facts.total_tokens, facts.cached_tokens, facts.judge_tokens)
        amounts = (*tokens, facts.cost)
        for column, amount in zip(self._amounts, amounts, strict=True):
            if amount is not None:
                _put(column, row, amount, unknown=UNKNOWN)
        self.is_called.append(facts.status in _CALLED or amounts != _NO_AMOUNTS)

    def _join(self, name: str, values: tuple[str, ...], *, row: int) -> None:
        groups = self.members.get(name)
        if groups is None:
            groups = self.members[name] = {}
        # A value that is there twice counts once.
        for value in values if len(values) == 1 else dict.fromkeys(values) if values else _NO_VALUE:
            group = groups.get(value)
            if group is None:
                group = groups[value] = array("I")
            group.append(row)

    def pad(self) -> None:
        """Make every column that has a known value as long as there are records."""
        for column in (self.error, self.cluster, self.record, self.profile_unscored):
            if column:
                _pad(column, len(self), unknown=NO_WORD)
        for measures in (*self._latencies, *self._amounts, self.profile_score, self.profile_worst, self.profile_best):
            if measures:
                _pad(measures, len(self), unknown=UNKNOWN)


def _put(column: "array[Number]", row: int, value: Number, *, unknown: Number) -> None:
    if len(column) < row:
        _pad(column, row, unknown=unknown)
    column.append(value)


def _pad(column: "array[Number]", length: int, *, unknown: Number) -> None:
    column.extend(array(column.typecode, [unknown]) * (length - len(column)))


def collect(facts: Iterable[RecordFacts] | Columns) -> Columns:
    """The columns of a stream of records, padded; columns hold what they held."""
    columns = facts if isinstance(facts, Columns) else Columns()
    if not isinstance(facts, Columns):
        for record in facts:
            columns.append(record)
    columns.pad()
    return columns
