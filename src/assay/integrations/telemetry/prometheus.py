"""Figures of runs in Prometheus' text format: counters and histograms with few labels, of few values each."""

import threading
from bisect import bisect_left
from collections.abc import Iterator

import msgspec

from assay import api
from assay.core.run_result import RunResult

MAX_VALUES = 50
"""Different values of one label; all further ones are counted as `other`."""
OTHER = "other"
BUCKETS = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 40.0, 80.0, 160.0)
"""Seconds: a model takes from tenths of a second to minutes."""
PREFIX = "assay_"

Labels = tuple[tuple[str, str], ...]


class MetricFamily(msgspec.Struct, frozen=True):
    """One name with what it counts."""

    name: str
    kind: str
    says: str


RECORDS = MetricFamily("records_total", "counter", "Records that came to their end, by status and contract.")
FAILURES = MetricFamily("record_failures_total", "counter", "Records without a score, by code.")
CALLS = MetricFamily("calls_total", "counter", "Calls to models, by stage and model.")
ERRORS = MetricFamily("call_errors_total", "counter", "Calls that failed, by stage, model and code.")
TOKENS = MetricFamily("tokens_total", "counter", "Tokens as the providers counted them, by stage, model and type.")
COST = MetricFamily("cost_dollars_total", "counter", "US dollars of the calls with a known price, by stage and model.")
SECONDS = MetricFamily("call_seconds", "histogram", "Seconds that calls took, by stage and model.")
RUNS = MetricFamily("runs_ended_total", "counter", "Times that a run came to its end here, or was interrupted, by state.")
PASS_RATE = MetricFamily("run_pass_rate", "gauge", "Pass rate of the run that ended last, by candidate.")
SCORE = MetricFamily("run_mean_score", "gauge", "Mean score, 0 to 1, of the run that ended last, by candidate.")
GATE = MetricFamily("run_gate_passed", "gauge", "1 when the run that ended last met its gates, by candidate.")
FAMILIES = (RECORDS, FAILURES, CALLS, ERRORS, TOKENS, COST, SECONDS, RUNS, PASS_RATE, SCORE, GATE)


class PrometheusMetrics:
    """An observer that counts; any thread may call and read it."""

    wants_texts = False

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values: dict[tuple[MetricFamily, Labels], float] = {}
        self._buckets: dict[Labels, list[int]] = {}
        self._known: dict[str, set[str]] = {}

    def __call__(self, seen: api.RecordEvent, /) -> None:
        """Handle a finished record."""
        with self._lock:
            self._add(RECORDS, status=seen.status, contract=seen.contract)
            if seen.code:
                self._add(FAILURES, code=seen.code)
            for call in seen.calls:
                self._add_call(call)

    def run_started(self, run_id: str) -> None:
        """Do nothing: a run is counted at its end."""

    def run_ended(self, result: RunResult) -> None:
        """Handle the end or the interruption of a run."""
        with self._lock:
            self._add(RUNS, state=result.state)
            # An interrupted run has no result that would be worth a gauge.
            if result.is_finished:
                summary = result.summary
                rates = () if summary is None else ((PASS_RATE, summary.pass_rate), (SCORE, summary.score_mean))
                for family, value in rates:
                    if value is not None:
                        self._set(family, value, candidate=result.candidate)
                self._set(GATE, float(result.gate.passed), candidate=result.candidate)

    def _add_call(self, call: api.CallEvent) -> None:
        self._add(CALLS, stage=call.stage, model=call.model)
        if call.error_code:
            self._add(ERRORS, stage=call.stage, model=call.model, code=call.error_code)
        for kind, count in (("input", call.usage.input_tokens), ("output", call.usage.output_tokens)):
            if count is not None:
                self._add(TOKENS, count, stage=call.stage, model=call.model, type=kind)
        if call.cost is not None:
            self._add(COST, call.cost, stage=call.stage, model=call.model)
        if call.is_timed:
            self._time(call)

    def _time(self, call: api.CallEvent) -> None:
        labels = self._labels(stage=call.stage, model=call.model)
        # Histograms of Prometheus are cumulative; the sums are made when they are read.
        self._buckets.setdefault(labels, [0] * (len(BUCKETS) + 1))[bisect_left(BUCKETS, call.seconds)] += 1
        self._values[(SECONDS, labels)] = self._values.get((SECONDS, labels), 0.0) + call.seconds

    def _add(self, family: MetricFamily, amount: float = 1, **labels: str) -> None:
        key = (family, self._labels(**labels))
        self._values[key] = self._values.get(key, 0) + amount

    def _set(self, family: MetricFamily, value: float, **labels: str) -> None:
        self._values[(family, self._labels(**labels))] = value

    def _labels(self, **labels: str) -> Labels:
        return tuple((name, self._bounded(name, value)) for name, value in labels.items())

    def _bounded(self, name: str, value: str) -> str:
        """Limit the number of distinct label values: clients can name any model, and each value costs memory in Prometheus."""
        known = self._known.setdefault(name, set())
        if value in known or len(known) < MAX_VALUES:
            known.add(value)
            return value
        # Known values stay, regardless of later values: a counter must not move to `other`.
        return OTHER

    def text(self) -> str:
        """Render all metrics in Prometheus' text format 0.0.4."""
        with self._lock:
            return "".join(line for family in FAMILIES for line in self._lines(family))

    def _lines(self, family: MetricFamily) -> Iterator[str]:
        # Sorted, so that two reads of the same values are the same text.
        found = sorted((labels, value) for (kept, labels), value in self._values.items() if kept is family)
        if found:
            yield f"# HELP {PREFIX}{family.name} {family.says}\n# TYPE {PREFIX}{family.name} {family.kind}\n"
        for labels, value in found:
            if family is SECONDS:
                yield from self._histogram(labels, value)
            else:
                yield f"{PREFIX}{family.name}{_shown(labels)} {_number(value)}\n"

    def _histogram(self, labels: Labels, total: float) -> Iterator[str]:
        count = 0
        for bound, inside in zip((*map(_number, BUCKETS), "+Inf"), self._buckets[labels], strict=True):
            count += inside
            yield f"{PREFIX}{SECONDS.name}_bucket{_shown((*labels, ('le', bound)))} {count}\n"
        yield f"{PREFIX}{SECONDS.name}_sum{_shown(labels)} {_number(total)}\n"
        yield f"{PREFIX}{SECONDS.name}_count{_shown(labels)} {count}\n"


def _shown(labels: Labels) -> str:
    return f"{{{','.join(f'{name}={_quoted(value)}' for name, value in labels)}}}" if labels else ""


def _quoted(value: str) -> str:
    # Backslash first, or it would escape the escapes.
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def _number(value: float) -> str:
    # Whole numbers without `.0`, as Prometheus' own libraries write them.
    return str(int(value)) if value == int(value) else repr(float(value))
