"""Facts of a record that metrics need, and the columns of numbers that hold those of a run."""

from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from typing import TypeVar

import msgspec

from assay.core.artifact_lines import CheckResultLine, GraderResultLine
from assay.core.outcome import ANSWER_TRUNCATED, TRUNCATED
from assay.core.tools import ToolCallResults
from assay.metrics.tool_calls import ToolCallCounter

STATUSES = ("evaluated", "invalid_record", "timeout", "evaluation_error", "cancelled", "skipped")
"""Record statuses as artifacts name them."""
LATENCIES = ("model", "judge", "end_to_end")
AMOUNTS = ("input_tokens", "output_tokens", "total_tokens", "cached_tokens", "judge_tokens", "cost")
_MEASURES = ("latency_ms", "judge_latency_ms", "total_latency_ms", *AMOUNTS)
"""Members of a record's facts, in the order of the latencies and amounts."""
_STATUS_CODES = {status: code for code, status in enumerate(STATUSES)}
_CALLED = frozenset({"evaluated", "timeout", "evaluation_error"})
UNKNOWN = float("nan")
"""Marks an unknown number inside a column; it never leaves this package."""
NO_WORD = -1
"""Marks a missing word in a column of numbers that stand for words."""

Value = str | None
Number = TypeVar("Number", int, float)
_NO_VALUE: tuple[Value, ...] = (None,)
_GROUP = 256
"""Records that are collected before they are put into the columns: filling one column at a time costs half as much."""


# Texts stay outside: the metrics of a million records have to fit into the memory of a small machine.
class RecordFacts(msgspec.Struct, frozen=True):
    """One record of a finished run, without its texts; None is unknown, never 0."""

    position: int
    status: str
    score: float | None = None
    """0..1 for an evaluated record."""
    raw_score: float | None = None
    """On the scale of the grading method."""
    scale: str = ""
    passed: bool | None = None
    latency_ms: float | None = None
    """Of the candidate's call that was answered; None for an imported answer."""
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
    """Reason why the profile gives no score."""
    profile_worst: float | None = None
    """Lowest score that a record without one could have had; None where no verdict would give it one."""
    profile_best: float | None = None
    record_id: str = ""
    """The same for all answers to one record; empty for a record of its own."""
    is_repeated: bool = False
    """It is one of several answers to the record."""
    tool_calls: ToolCallResults | None = None
    """Where tool calls were compared."""
    checks: tuple[CheckResultLine, ...] = ()
    """Results of its checks."""
    graders: tuple[GraderResultLine, ...] = ()
    """Results of several graders."""


class ResultColumns:
    """Results of the checks, or of the graders, of a run: 21 bytes for each, in the order of the records."""

    def __init__(self) -> None:
        self.kinds: dict[str, str] = {}
        """Type of each check, or kind of each grader, by name; the first one where records differ."""
        self.name = array("i")
        self.row = array("I")
        self.passed = array("b")
        self.score = array("d")
        self.word = array("i")
        self.words: dict[str, int] = {}
        """Scales of scores, and reasons why there is none."""
        self._codes: dict[str, int] = {}

    def append(self, name: str, kind: str, *, row: int, passed: bool | None, score: float | None, word: str = "") -> None:
        """Add one result of the record in a row."""
        self.word.append(self.words.setdefault(word, len(self.words)))
        self.kinds.setdefault(name, kind)
        self.name.append(self._codes.setdefault(name, len(self._codes)))
        self.row.append(row)
        self.passed.append(-1 if passed is None else passed)
        self.score.append(UNKNOWN if score is None else score)


class RecordColumns:
    """Records of a run as arrays of numbers, in the order in which they came: 30 to 100 bytes each, and 4 for each slice.

    A column of what most runs do not know ends with the last records of which it is known, and is empty where there are none.
    Records wait for their turn: what the columns tell is only complete after `pad`.
    """

    def __init__(self) -> None:
        # Arrays of machine numbers, which take a small part of what Python objects with the same facts would.
        self.status = array("b")
        self.passed = array("b")
        self.score = array("d")
        self.raw_score = array("d")
        self.scale = array("i")
        self.label = array("i")
        self.error = array("i")
        self.cluster = array("i")
        self.record = array("i")
        """Number of the record that an answer belongs to, where records were asked several times."""
        self.latencies = {name: array("d") for name in LATENCIES}
        self.amounts = {name: array("d") for name in AMOUNTS}
        measures = (*self.latencies.values(), *self.amounts.values())
        self._measures = tuple(zip(measures, map(attrgetter, _MEASURES), strict=True))
        self.is_called = array("b")
        self.is_truncated = array("b")
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
        self.tool_calls = ToolCallCounter()
        self.sliced_calls: dict[tuple[str, Value], ToolCallCounter] = {}
        """Calls by slice and value."""
        self.checks = ResultColumns()
        self.graders = ResultColumns()
        self.grader_scores = ResultColumns()
        """Single scores of plugins, by the names of the grader and of the score."""
        self.primary_grader = ""
        self._waiting: list[RecordFacts] = []

    def __len__(self) -> int:
        return len(self.status) + len(self._waiting)

    def append(self, facts: RecordFacts) -> None:
        """Add one record."""
        self._waiting.append(facts)
        if len(self._waiting) == _GROUP:
            self._fill()

    def _fill(self) -> None:
        """Put the waiting records into the columns."""
        facts, self._waiting = self._waiting, []
        row = len(self.status)
        # An error has no score, regardless of what its other members say.
        scored = [each if each.status == "evaluated" and each.score is not None else _UNSCORED for each in facts]
        self.status.extend([_STATUS_CODES[each.status] for each in facts])
        self.passed.extend([-1 if each.passed is None else each.passed for each in scored])
        self.score.extend([UNKNOWN if each.score is None else each.score for each in scored])
        self.raw_score.extend([UNKNOWN if each.raw_score is None else each.raw_score for each in scored])
        self.scale.extend(self._codes("scale", [each.scale for each in scored]))
        self.label.extend(self._codes("label", [each.label for each in facts]))
        self.is_called.extend([each.status in _CALLED or _has_amounts(each) for each in facts])
        self.is_truncated.extend([TRUNCATED in each.flags or each.error_code == ANSWER_TRUNCATED for each in facts])
        self._put_words(self.error, row, "error", [each.error_code for each in facts])
        self._put_words(self.cluster, row, "cluster", [each.cluster for each in facts])
        self._put_words(self.profile_unscored, row, "profile_unscored", [each.profile_unscored for each in facts])
        self._put_words(self.record, row, "record", [each.record_id if each.is_repeated else "" for each in facts])
        _put(self.profile_score, row, [each.profile_score for each in facts])
        _put(self.profile_worst, row, [each.profile_worst for each in facts])
        _put(self.profile_best, row, [each.profile_best for each in facts])
        for column, measure in self._measures:
            _put(column, row, list(map(measure, facts)))
        for number, each in enumerate(facts, row):
            if each.flags:
                self.flags.update(each.flags)
            if each.tool_calls is not None:
                self._add_calls(each, each.tool_calls)
            # Slices hold row numbers, so that a record with ten tags costs 40 bytes and not ten copies.
            for name, values in each.slices.items():
                self._join(name, values, row=number)
            for check in each.checks:
                self.checks.append(check.name, check.type, row=number, passed=check.passed, score=check.score)
            for grader in each.graders:
                self._put_grader(grader, row=number)

    def _put_grader(self, grader: GraderResultLine, *, row: int) -> None:
        self.primary_grader = grader.name if grader.is_primary else self.primary_grader
        # The reason of a missing score is a word: a code, or nothing for an answer that cannot be assessed.
        word = (grader.scale or "") if grader.status == "graded" else f"{grader.status}:{grader.error_code or ''}"
        self.graders.append(grader.name, grader.kind, row=row, passed=grader.passed, score=grader.score, word=word)
        if grader.kind == "plugin" and grader.status == "graded":
            for score in grader.scores:
                # The NUL keeps the two names apart.
                name = f"{grader.name}\0{score.criterion}"
                self.grader_scores.append(name, grader.kind, row=row, passed=False, score=score.normalized)

    def _codes(self, name: str, words: Iterable[str]) -> list[int]:
        """Return a number for each word."""
        codes = self.names[name]
        return [codes.setdefault(word, len(codes)) if word else NO_WORD for word in words]

    def _put_words(self, column: "array[int]", row: int, name: str, words: Sequence[str]) -> None:
        # Most runs have no clusters and no profile, and then their columns stay empty.
        if any(words):
            _pad(column, row, unknown=NO_WORD)
            column.extend(self._codes(name, words))

    def _add_calls(self, each: RecordFacts, results: ToolCallResults) -> None:
        self.tool_calls.add(results)
        for name, values in each.slices.items():
            for value in dict.fromkeys(values) if values else _NO_VALUE:
                counter = self.sliced_calls.get((name, value))
                if counter is None:
                    counter = self.sliced_calls[name, value] = ToolCallCounter()
                counter.add(results)

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
        """Put every record into the columns, and make every column that has a known value as long as there are records."""
        if self._waiting:
            self._fill()
        for column in (self.error, self.cluster, self.record, self.profile_unscored):
            if column:
                _pad(column, len(self), unknown=NO_WORD)
        measures = (column for column, _ in self._measures)
        for numbers in (*measures, self.profile_score, self.profile_worst, self.profile_best):
            if numbers:
                _pad(numbers, len(self), unknown=UNKNOWN)


_UNSCORED = RecordFacts(position=NO_WORD, status="")
"""Stands for a record without a score in the columns of scores."""


def _has_amounts(facts: RecordFacts) -> bool:
    return any(getattr(facts, name) is not None for name in AMOUNTS)


def _put(column: "array[float]", row: int, values: Sequence[float | None]) -> None:
    if values.count(None) < len(values):
        _pad(column, row, unknown=UNKNOWN)
        column.extend([UNKNOWN if value is None else value for value in values])


def _pad(column: "array[Number]", length: int, *, unknown: Number) -> None:
    column.extend(array(column.typecode, [unknown]) * (length - len(column)))


def collect(facts: Iterable[RecordFacts] | RecordColumns) -> RecordColumns:
    """Return the columns of a stream of records, padded; columns hold what they held."""
    columns = facts if isinstance(facts, RecordColumns) else RecordColumns()
    if not isinstance(facts, RecordColumns):
        for record in facts:
            columns.append(record)
    columns.pad()
    return columns
