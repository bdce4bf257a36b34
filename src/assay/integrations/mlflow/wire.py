"""Traces as MLflow's client sends them, and what it says of those that it has."""

import json
from importlib import import_module
from typing import Any

import msgspec

from assay.core.canonical import canonical_json, sha256_hex
from assay.integrations.mlflow.traces import Assessment, Trace, TraceSpan

DIGEST_TAG = "assay.trace_sha256"
"""Of everything that a trace says; the one that has it needs no second push."""
SPANS_TAG = "mlflow.trace.spansLocation"
"""A trace has it once its spans have come."""
SOURCE_RUN = "mlflow.assessment.sourceRunId"
"""Which run an assessment came from: a trace can have those of several."""
LONGEST_CLIENT_ID = 50
_LONGEST_TAG = 8_000


def digest_of(trace: Trace) -> str:
    """What changes as soon as anything in a trace does."""
    return sha256_hex(canonical_json(msgspec.to_builtins(trace)))[:32]


class EntityMapper:
    """Values of ours as entities of MLflow."""

    def __init__(self) -> None:
        self._entities = import_module("mlflow.entities")
        self._span = import_module("mlflow.entities.span").Span
        self._location = import_module("mlflow.entities.trace_location").TraceLocation
        self._failure = import_module("mlflow.entities.assessment_error").AssessmentError
        self._sdk = import_module("opentelemetry.sdk.trace")
        self._resource = import_module("opentelemetry.sdk.resources").Resource
        self._api = import_module("opentelemetry.trace")

    def trace(self, trace: Trace, experiment_id: str) -> Any:
        """The trace without its spans, but with its marks."""
        state = self._entities.TraceState
        tags = {"mlflow.traceName": trace.name, **trace.tags, DIGEST_TAG: digest_of(trace)}
        return self._entities.TraceInfo(
            trace_id=trace.trace_id,
            trace_location=self._location.from_experiment_id(experiment_id),
            request_time=trace.start_ms,
            state=state.ERROR if trace.is_error else state.OK,
            request_preview=trace.question,
            response_preview=trace.answer,
            client_request_id=trace.tags["assay.record_sha256"][:LONGEST_CLIENT_ID],
            execution_duration=trace.duration_ms,
            trace_metadata=trace.metadata,
            tags={name: value[:_LONGEST_TAG] for name, value in tags.items()},
            assessments=[self._assessment(mark, trace) for mark in trace.marks],
        )

    def _assessment(self, mark: Assessment, trace: Trace) -> Any:
        source = self._entities.AssessmentSource(mark.source, mark.source_id)
        noted = {**mark.metadata, SOURCE_RUN: trace.metadata["mlflow.sourceRun"]}
        said = {"name": mark.name, "value": mark.value, "source": source, "metadata": noted, "trace_id": trace.trace_id}
        when = {"create_time_ms": trace.start_ms, "last_update_time_ms": trace.start_ms}
        if mark.kind == "expectation":
            made = self._entities.Expectation(**said, **when)
        else:
            error = None if mark.error is None else self._failure(error_code=mark.error[0], error_message=mark.error[1])
            made = self._entities.Feedback(**said, **when, rationale=mark.rationale, error=error)
        made.assessment_id = mark.mark_id
        return made

    def spans(self, trace: Trace) -> list[Any]:
        """The spans of a trace."""
        return [self._made(span, trace) for span in trace.spans]

    def _made(self, span: TraceSpan, trace: Trace) -> Any:
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
            attributes={name: json.dumps(value, ensure_ascii=False) for name, value in attributes.items() if value is not None},
            events=self._events(span),
            start_time=span.start_ns,
            end_time=span.end_ns,
            status=self._status(span),
        )
        return self._span(readable)

    def _context(self, trace_id: str, span_id: str) -> Any:
        number = int(trace_id.removeprefix("tr-"), 16)
        return self._api.SpanContext(number, int(span_id, 16), is_remote=False, trace_flags=self._api.TraceFlags(1))

    def _events(self, span: TraceSpan) -> list[Any]:
        if span.error is None:
            return []
        code, message = span.error
        return [self._sdk.Event("exception", {"exception.type": code, "exception.message": message}, timestamp=span.end_ns)]

    def _status(self, span: TraceSpan) -> Any:
        if span.error is None:
            return self._api.Status(self._api.StatusCode.OK)
        return self._api.Status(self._api.StatusCode.ERROR, ": ".join(filter(None, span.error)))
