"""Spans, logs and metrics for a collector: a bounded number, sent by a separate thread, so that no run waits for it."""

import hashlib
import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar
from urllib.parse import urlsplit

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.trace.id_generator import IdGenerator, RandomIdGenerator
from opentelemetry.trace import Link, Span, SpanContext, SpanKind, Status, StatusCode, TraceFlags, set_span_in_context

from assay import api
from assay.core.errors import UsageProblem
from assay.core.run_result import RunResult
from assay.core.version import __version__
from assay.integrations.telemetry import conventions

T = TypeVar("T")

LIMIT = 20_000
"""Spans that wait at most; what comes beyond is lost, and counted."""
BATCH = 512
"""Spans in one request at most."""
LINGER = 1.0
"""Seconds that a batch waits for more."""


class Outbox(Generic[T]):
    """Queue of items to send; `send` returns whether a batch was accepted, `tick` is called between batches."""

    def __init__(self, send: Callable[[Sequence[T]], bool], *, tick: Callable[[], None], limit: int = LIMIT) -> None:
        self._send = send
        self._tick = tick
        self._limit = limit
        self._waiting: deque[T] = deque()
        self._changed = threading.Condition()
        self._is_closing = False
        self._added = 0
        self.sent = 0
        # A daemon: a collector that never answers keeps no command from ending.
        self._thread = threading.Thread(target=self._work, name="assay-telemetry", daemon=True)
        self._thread.start()

    def add(self, item: T) -> None:
        """Queue an entry; drop it when the queue is full."""
        with self._changed:
            # Counted first: what is dropped is part of the number that is reported as lost.
            self._added += 1
            if len(self._waiting) >= self._limit or self._is_closing:
                return
            self._waiting.append(item)
            # Woken for full batches only; partial ones are sent when the thread's own time is up.
            if len(self._waiting) >= BATCH:
                self._changed.notify()

    def close(self, seconds: float) -> int:
        """Send what waits, for so many seconds at most, and say how many were lost: what is still being sent is, too."""
        with self._changed:
            self._is_closing = True
            self._changed.notify()
        # A collector that hangs costs the end of a command at most so long.
        self._thread.join(seconds)
        with self._changed:
            self._waiting.clear()
            # What is being sent at this moment may arrive, but nothing says so.
            return self._added - self.sent

    def _work(self) -> None:
        while True:
            batch, is_last = self._next()
            if batch and self._send(batch):
                with self._changed:
                    self.sent += len(batch)
            self._tick()
            if is_last:
                return

    def _next(self) -> tuple[list[T], bool]:
        """Return the next batch, and whether it is the last one."""
        end = time.monotonic() + LINGER
        with self._changed:
            # Waits for a full batch, or as long as LINGER.
            while len(self._waiting) < BATCH and not self._is_closing and (left := end - time.monotonic()) > 0:
                self._changed.wait(left)
            batch = [self._waiting.popleft() for _ in range(min(BATCH, len(self._waiting)))]
            return batch, self._is_closing and not self._waiting


CLOSE_SECONDS = 5.0
"""Seconds that the end of a command waits for the collector."""
METRICS_EVERY = 15.0
"""Seconds between two reports of the metrics."""
DEFAULT_ENDPOINT = "http://localhost:4318"
_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_UNHEARD = logging.NullHandler()
"""Stays: an exporter that is cut off in the middle of a request complains after the end, and logging would print it."""


class Otel:
    """An observer that sends what it sees; the standard OTEL_* variables say where to, and as what."""

    def __init__(self, *, wants_texts: bool = False) -> None:
        _check_protocol()
        self.wants_texts = wants_texts
        self._ids = _SpanIds()
        self._lock = threading.Lock()
        self._started: dict[str, float] = {}
        self._last_word = _LastWord()
        for handler in (self._last_word, _UNHEARD):
            logging.getLogger("opentelemetry").addHandler(handler)
        self._spans, self._metrics = OTLPSpanExporter(), OTLPMetricExporter()
        resource = _resource()
        self._reader = InMemoryMetricReader()
        # Metrics are exported between batches of spans, in the same thread: a slow collector never holds up a
        # run.
        self._meters = MeterProvider([self._reader], resource=resource, shutdown_on_exit=False)
        self._outbox: Outbox[ReadableSpan] = Outbox(self._send, tick=self._report)
        self._reported_at = time.monotonic()
        self._is_ending = False
        # Not at exit of the interpreter, where a collector that does not answer would hold up the process.
        provider = TracerProvider(resource=resource, id_generator=self._ids, shutdown_on_exit=False)
        provider.add_span_processor(_Collector(self._outbox))
        self._tracer = provider.get_tracer("assay", __version__)
        self._make_instruments()

    def _make_instruments(self) -> None:
        meter = self._meters.get_meter("assay", __version__)
        advice, buckets = "explicit_bucket_boundaries_advisory", conventions
        self._seconds = meter.create_histogram(
            conventions.DURATION, "s", "GenAI operation duration.", **{advice: buckets.DURATION_BUCKETS}
        )
        self._tokens = meter.create_histogram(
            conventions.TOKEN_USAGE, "{token}", "Number of input and output tokens used.", **{advice: buckets.TOKEN_BUCKETS}
        )
        self._records = meter.create_counter("assay.records", "{record}", "Records that came to their end, by status.")
        self._cost = meter.create_counter("assay.cost", "{USD}", "US dollars of calls with a known price.")

    def __call__(self, seen: api.RecordEvent, /) -> None:
        """Send the trace and the metrics of a finished record."""
        self._count(seen)
        # The ids of the next spans are set on the generator, so traces are made one after the other.
        with self._lock:
            self._trace(seen)

    def run_started(self, run_id: str) -> None:
        """Note the start of a run in this process."""
        self._started[run_id] = time.time()

    def run_ended(self, result: RunResult) -> None:
        """Send the span of a run that has ended or was interrupted; the spans of its records link to it."""
        now = time.time()
        attributes: dict[str, str | int | bool] = {
            "assay.run.id": result.run_id,
            "assay.run.state": result.state,
            "assay.candidate": result.candidate,
            "assay.records.total": result.counts.total_records,
            "assay.records.evaluated": result.counts.evaluated_records,
            "assay.gate.passed": result.gate.passed,
        }
        with self._lock:
            # Ids follow from the name of the run, so that the links of its records lead here.
            self._ids.next_trace, self._ids.next_span = _trace_id(result.run_id), _span_id(result.run_id)
            start = self._started.pop(result.run_id, now)
            span = self._tracer.start_span("assay.run", attributes=attributes, start_time=_nanoseconds(start))
            if result.state == "failed":
                span.set_status(Status(StatusCode.ERROR, result.state))
            span.end(_nanoseconds(now))

    def close(self, seconds: float = CLOSE_SECONDS) -> list[str]:
        """Send what waits, for so long at most; one sentence on what the collector did not take, or none."""
        self._is_ending = True
        lost, sent = self._outbox.close(seconds), self._outbox.sent
        # Before the exporter's shutdown, which logs its own message about what it cuts off.
        logging.getLogger("opentelemetry").removeHandler(self._last_word)
        self._spans.shutdown()  # type: ignore[no-untyped-call]  # the library's own omission
        self._metrics.shutdown()
        if not lost:
            return []
        why = f": {self._last_word.said}" if self._last_word.said else ""
        return [f"{lost:,} of {lost + sent:,} spans were not taken by the collector at {_endpoint()}{why}"]

    def _count(self, seen: api.RecordEvent) -> None:
        self._records.add(1, {"assay.record.status": seen.status, "assay.contract": seen.contract})
        for call in seen.calls:
            attributes = conventions.measured(call)
            if call.is_timed:
                self._seconds.record(call.seconds, attributes)
            for kind, count in (("input", call.usage.input_tokens), ("output", call.usage.output_tokens)):
                if count is not None:
                    self._tokens.record(count, {**attributes, conventions.TOKEN_TYPE: kind})
            if call.cost is not None:
                self._cost.add(call.cost, attributes)

    def _trace(self, seen: api.RecordEvent) -> None:
        """Send a trace for each record: no tool shows a run of 50,000 records in one trace."""
        self._ids.next_trace = _trace_id(f"{seen.run_id}/{seen.record_id}/{seen.sample}")
        # A link and not a parent: one trace with all records would have 150,000 spans.
        run = SpanContext(_trace_id(seen.run_id), _span_id(seen.run_id), is_remote=True, trace_flags=TraceFlags(TraceFlags.SAMPLED))
        root = self._tracer.start_span(
            "assay.record", attributes=_record(seen), links=[Link(run)], start_time=_nanoseconds(seen.started_at)
        )
        spans = [self._start_call(call, root) for call in seen.calls]
        answered = [span for span, call in zip(spans, seen.calls, strict=True) if call.stage == "candidate" and not call.error_code]
        # The conventions put the event on the call that was evaluated; of several answers the last one was
        # graded.
        judged = answered[-1] if answered else root
        for attributes in conventions.evaluations(seen):
            judged.add_event(conventions.EVALUATION_EVENT, attributes, timestamp=_nanoseconds(seen.ended_at))
        for span, call in zip(spans, seen.calls, strict=True):
            span.end(_nanoseconds(call.started_at + call.seconds))
        if seen.score is None:
            root.set_status(Status(StatusCode.ERROR, seen.code))
        root.end(_nanoseconds(seen.ended_at))

    def _start_call(self, call: api.CallEvent, root: Span) -> Span:
        span = self._tracer.start_span(
            f"{conventions.CHAT} {call.request_model}",
            context=set_span_in_context(root),
            kind=SpanKind.CLIENT,
            attributes=conventions.described(call),
            start_time=_nanoseconds(call.started_at),
        )
        if call.error_code:
            span.set_status(Status(StatusCode.ERROR, call.error_message))
        return span

    def _send(self, spans: Sequence[ReadableSpan]) -> bool:
        return self._spans.export(spans) is SpanExportResult.SUCCESS

    def _report(self) -> None:
        """Export the metrics periodically and at the end."""
        if not self._is_ending and time.monotonic() - self._reported_at < METRICS_EVERY:
            return
        self._reported_at = time.monotonic()
        # None before the first measurement.
        found = self._reader.get_metrics_data()
        if found is not None:
            self._metrics.export(found)


class _SpanIds(IdGenerator):
    """Ids that follow from names, so that the trace of a record can be found, and random ones."""

    def __init__(self) -> None:
        self._random = RandomIdGenerator()
        self.next_trace = 0
        self.next_span = 0

    def generate_trace_id(self) -> int:
        """Return the chosen trace id."""
        return self.next_trace

    def generate_span_id(self) -> int:
        """Return the chosen span id once, then random ones."""
        chosen, self.next_span = self.next_span, 0
        return chosen or self._random.generate_span_id()


class _Collector(SpanProcessor):
    """Finished spans into the outbox."""

    def __init__(self, outbox: Outbox[ReadableSpan]) -> None:
        self._outbox = outbox

    def on_end(self, span: ReadableSpan) -> None:
        """Queue a complete span."""
        self._outbox.add(span)


class _LastWord(logging.Handler):
    """Handler that keeps the exporter's last message, to print it once at the end instead of once per request."""

    said = ""

    def emit(self, record: logging.LogRecord) -> None:
        """Keep it."""
        self.said = record.getMessage()[:120]


def _record(seen: api.RecordEvent) -> dict[str, str | int | float | bool]:
    found: dict[str, str | int | float | bool | None] = {
        "assay.run.id": seen.run_id,
        "assay.record.id": seen.record_id,
        "assay.record.status": seen.status,
        "assay.sample": seen.sample,
        "assay.dataset": seen.dataset,
        "assay.contract": seen.contract,
        "assay.passed": seen.passed,
        "assay.score": seen.score,
        conventions.ERROR_TYPE: seen.code,
    }
    return {name: value for name, value in found.items() if value is not None and value != ""}


def _resource() -> Resource:
    """Describe this process: the service is `assay` unless the environment names another."""
    is_named = os.environ.get("OTEL_SERVICE_NAME") or "service.name=" in os.environ.get("OTEL_RESOURCE_ATTRIBUTES", "")
    return Resource.create({"service.version": __version__, **({} if is_named else {"service.name": "assay"})})


def _check_protocol() -> None:
    protocol = next((os.environ[name] for name in _PROTOCOLS if os.environ.get(name)), "http/protobuf")
    if protocol != "http/protobuf":
        raise UsageProblem(
            f"OTEL_EXPORTER_OTLP_PROTOCOL is '{protocol}', and only http/protobuf is spoken",
            hint="set it to http/protobuf; collectors take that on port 4318",
        )


def _endpoint() -> str:
    """Return the address of the collector, without a password."""
    parts = urlsplit(next((os.environ[name] for name in _ENDPOINTS if os.environ.get(name)), DEFAULT_ENDPOINT))
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


def _trace_id(name: str) -> int:
    # 0 is an invalid id in OpenTelemetry.
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:16]) or 1


def _span_id(name: str) -> int:
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[16:24]) or 1


def _nanoseconds(seconds: float) -> int:
    return int(seconds * 1e9)
