"""Prometheus counters: requests, uploads and the queue of this service, and runs with their calls."""

from typing import Protocol

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from assay.core.errors import MissingExtra
from assay.core.integrations import load_integration
from assay.surfaces.observers import RunObserver

METHODS = frozenset({"GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"})
"""Methods that are counted by name; others are counted together, since clients can invent any."""
CONTENT_TYPE = "text/plain; version=0.0.4"
"""The response adds the charset."""


class RunMetrics(RunObserver, Protocol):
    """An observer that counts what happens in runs."""

    def text(self) -> str:
        """Render the counters in Prometheus' text format."""


class Meters:
    """The counters of one service, in its own registry."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.run_metrics = _open_run_metrics()
        self._requests = Counter(
            "assay_http_requests", "Requests by route, method and status.", ["route", "method", "status"], registry=self.registry
        )
        self._seconds = Histogram(
            "assay_http_request_seconds", "Seconds from the first byte of a request to its end.", ["route"], registry=self.registry
        )
        self.uploaded = Counter("assay_uploaded_bytes", "Bytes of uploads that were taken in.", registry=self.registry)
        self.submitted = Counter("assay_runs_submitted", "Runs that were accepted.", registry=self.registry)
        self.waiting = Gauge("assay_runs_waiting", "Runs that wait for their turn.", registry=self.registry)
        self.working = Gauge("assay_runs_working", "Runs that are worked on.", registry=self.registry)

    def count(self, route: str, method: str, *, status: int, seconds: float) -> None:
        """Count one answered request; a status of 0 means that the client disconnected."""
        self._requests.labels(route, method if method in METHODS else "other", str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def text(self) -> bytes:
        """Render all metrics in Prometheus' text format."""
        of_runs = self.run_metrics.text().encode() if self.run_metrics is not None else b""
        return generate_latest(self.registry) + of_runs


def _open_run_metrics() -> RunMetrics | None:
    """Open the counters of runs; None without the telemetry integration, and then the service counts its requests alone."""
    try:
        module = load_integration("telemetry", "prometheus", user="/metrics")
    except MissingExtra:
        return None
    metrics: RunMetrics = module.PrometheusMetrics()
    return metrics
