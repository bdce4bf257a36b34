"""Traces as MLflow's client sends them, compared with those that MLflow has."""

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from typing import Any

import msgspec

from assay.core.canonical import canonical_json, sha256_hex
from assay.integrations.mlflow.traces import IN_FILE, LABEL_NOTE, Assessment, Trace, TraceSpan
from assay.integrations.mlflow.tracking import TrackedRun, TrackingConnection

DIGEST_TAG = "assay.trace_sha256"
"""Digest of everything in a trace; a trace that has it needs no second push."""
SPANS_TAG = "mlflow.trace.spansLocation"
"""A trace has it once its spans have come."""
SOURCE_RUN = "mlflow.assessment.sourceRunId"
"""Run that an assessment came from: a trace can have those of several."""
LONGEST_CLIENT_ID = 50
_LONGEST_TAG = 8_000


def digest_of(trace: Trace) -> str:
    """Return a digest that changes as soon as anything in a trace does."""
    # Canonical JSON, so that the digest does not depend on the order of members.
    return sha256_hex(canonical_json(msgspec.to_builtins(trace)))[:32]


class EntityMapper:
    """Values of ours as entities of MLflow."""

    def __init__(self) -> None:
        # Internal modules of MLflow: its public functions make ids of their own, which would make every push a
        # new trace.
        self._entities = import_module("mlflow.entities")
        self._span = import_module("mlflow.entities.span").Span
        self._location = import_module("mlflow.entities.trace_location").TraceLocation
        self._failure = import_module("mlflow.entities.assessment_error").AssessmentError
        self._sdk = import_module("opentelemetry.sdk.trace")
        self._resource = import_module("opentelemetry.sdk.resources").Resource
        self._api = import_module("opentelemetry.trace")

    def trace(self, trace: Trace, experiment_id: str) -> object:
        """Return the trace without its spans, but with its marks."""
        state = self._entities.TraceState
        tags = {"mlflow.traceName": trace.name, **trace.tags, DIGEST_TAG: digest_of(trace)}
        return self._entities.TraceInfo(
            trace_id=trace.trace_id,
            trace_location=self._location.from_experiment_id(experiment_id),
            request_time=trace.start_ms,
            state=state.ERROR if trace.is_error else state.OK,
            request_preview=trace.question,
            response_preview=trace.answer,
            # The same for a record in every run, so that its traces can be found together.
            client_request_id=trace.tags["assay.record_sha256"][:LONGEST_CLIENT_ID],
            execution_duration=trace.duration_ms,
            trace_metadata=trace.metadata,
            tags={name: value[:_LONGEST_TAG] for name, value in tags.items()},
            assessments=[self._assessment(mark, trace) for mark in trace.marks],
        )

    def _assessment(self, mark: Assessment, trace: Trace) -> object:
        source = self._entities.AssessmentSource(mark.source, mark.source_id)
        noted = {**mark.metadata, SOURCE_RUN: trace.metadata["mlflow.sourceRun"]}
        said = {"name": mark.name, "value": mark.value, "source": source, "metadata": noted, "trace_id": trace.trace_id}
        when = {"create_time_ms": trace.start_ms, "last_update_time_ms": trace.start_ms}
        if mark.kind == "expectation":
            made = self._entities.Expectation(**said, **when)
        else:
            error = None if mark.error is None else self._failure(error_code=mark.error[0], error_message=mark.error[1])
            made = self._entities.Feedback(**said, **when, rationale=mark.rationale, error=error)
        # Set after construction, since the constructor takes no id; with ours a repeated push overwrites.
        made.assessment_id = mark.mark_id
        return made

    def spans(self, trace: Trace) -> list[object]:
        """Return the spans of a trace."""
        return [self._make_span(span, trace) for span in trace.spans]

    def _make_span(self, span: TraceSpan, trace: Trace) -> object:
        attributes = {
            "mlflow.traceRequestId": trace.trace_id,
            "mlflow.spanType": span.kind,
            "mlflow.spanInputs": span.inputs,
            "mlflow.spanOutputs": span.outputs,
            **span.attributes,
        }
        readable = self._sdk.ReadableSpan(
            name=span.name,
            context=self._context(trace.trace_id, span.span_id),
            parent=None if span.parent_id is None else self._context(trace.trace_id, span.parent_id),
            # By itself it would name this process.
            resource=self._resource({"service.name": "assay"}),
            # MLflow reads attributes of spans as JSON.
            attributes={name: json.dumps(value, ensure_ascii=False) for name, value in attributes.items() if value is not None},
            events=self._events(span),
            start_time=span.start_ns,
            end_time=span.end_ns,
            status=self._status(span),
        )
        return self._span(readable)

    def _context(self, trace_id: str, span_id: str) -> object:
        # MLflow's trace id is the OpenTelemetry id with a prefix.
        number = int(trace_id.removeprefix("tr-"), 16)
        return self._api.SpanContext(number, int(span_id, 16), is_remote=False, trace_flags=self._api.TraceFlags(1))

    def _events(self, span: TraceSpan) -> list[object]:
        if span.error is None:
            return []
        code, message = span.error
        return [self._sdk.Event("exception", {"exception.type": code, "exception.message": message}, timestamp=span.end_ns)]

    def _status(self, span: TraceSpan) -> object:
        if span.error is None:
            return self._api.Status(self._api.StatusCode.OK)
        return self._api.Status(self._api.StatusCode.ERROR, ": ".join(filter(None, span.error)))


BATCH = 100
"""Traces whose spans go in one request."""
BATCH_BYTES = 4_000_000
WORKERS = 4
"""Requests in flight; each brings one trace with its marks, which MLflow takes one at a time."""
PAGE = 500


class StoredTrace(msgspec.Struct, frozen=True):
    """A trace that MLflow has."""

    digest: str
    labels: Mapping[str, str]
    """Marks that came from labels, and whose file each came from; empty for one that was given on the pages."""


class TraceSender:
    """Traces of one run in MLflow."""

    def __init__(self, tracking: TrackingConnection, run: TrackedRun) -> None:
        self._tracking = tracking
        self._run = run
        self._wire = EntityMapper()
        self._known = dict(self._read_known())
        self._raters: Collection[str] = ()

    @property
    def total(self) -> int:
        """Traces that MLflow has of the run."""
        return len(self._known)

    def _read_known(self) -> Iterator[tuple[str, StoredTrace]]:
        token: str | None = None
        while True:
            # Spans are left out: the digest in a tag says whether they are the same.
            page = self._tracking.client.search_traces(
                locations=[self._run.experiment_id],
                run_id=self._run.run_id,
                include_spans=False,
                max_results=PAGE,
                page_token=token,
            )
            yield from ((trace.info.trace_id, _stored_trace(trace.info)) for trace in page)
            token = page.token
            if not token:
                return

    def send(self, traces: Iterable[Trace], *, sent: Callable[[int], None], raters: Collection[str] = ()) -> int:
        """Send new and changed traces, and report the progress; returns how many traces were sent.

        Labels that people have taken back on the pages are removed; those of a file only where these raters have a newer one.
        """
        self._raters = raters
        count = seen = 0
        with ThreadPoolExecutor(WORKERS) as pool:
            for batch in _batches(traces):
                changed = [trace for trace in batch if self._is_changed(trace)]
                if changed:
                    # The batch is whole only once its spans are there; a push that ends before sends it again.
                    list(pool.map(self._send_one, changed))
                    spans = [span for trace in changed for span in self._wire.spans(trace)]
                    self._tracking.store.log_spans(self._run.experiment_id, spans)
                    self._known |= {trace.trace_id: StoredTrace(digest_of(trace), {}) for trace in changed}
                count, seen = count + len(changed), seen + len(batch)
                sent(seen)
        return count

    def _is_changed(self, trace: Trace) -> bool:
        known = self._known.get(trace.trace_id)
        # Withdrawn labels change a trace without changing its digest, as they are not part of it any more.
        return known is None or known.digest != digest_of(trace) or bool(self._withdrawn_labels(trace))

    def _withdrawn_labels(self, trace: Trace) -> list[str]:
        """List the labels that MLflow has of a trace and that were withdrawn here."""
        known, kept = self._known.get(trace.trace_id), {mark.mark_id for mark in trace.marks}
        labels = known.labels if known is not None else {}
        # A label of a file is only withdrawn by a newer file of the same rater; other files are not known here.
        return sorted(mark for mark, rater in labels.items() if mark not in kept and (not rater or rater in self._raters))

    def _send_one(self, trace: Trace) -> None:
        self._tracking.store.start_trace(self._wire.trace(trace, self._run.experiment_id))
        for mark_id in self._withdrawn_labels(trace):
            self._tracking.store.delete_assessment(trace.trace_id, mark_id)


def _stored_trace(found: Any) -> StoredTrace:
    labels = {
        mark.assessment_id: mark.source.source_id if mark.metadata[LABEL_NOTE] == IN_FILE else ""
        for mark in found.assessments
        if LABEL_NOTE in (mark.metadata or {})
    }
    # A trace without its spans is incomplete, and an empty digest makes it be sent again.
    return StoredTrace(found.tags.get(DIGEST_TAG, "") if SPANS_TAG in found.tags else "", labels)


def _batches(traces: Iterable[Trace]) -> Iterator[list[Trace]]:
    """Yield batches of traces for one request, bounded by number and by size."""
    batch: list[Trace] = []
    size = 0
    for trace in traces:
        batch.append(trace)
        size += len(msgspec.json.encode(trace))
        # Both limits: records may have 256 KB, and requests of MLflow's servers are limited.
        if len(batch) >= BATCH or size >= BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
