"""What is counted for Prometheus: requests, uploads and the queue here, runs and their calls as for the command."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from assay.surfaces.telemetry.figures import Figures

METHODS = frozenset({"GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"})
"""Counted by name; whatever else a client makes up is counted together."""
CONTENT_TYPE = "text/plain; version=0.0.4"
"""The answer adds the charset."""


class Meters:
    """The counters of one service, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.figures = Figures()
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
        """One request has been answered; a status of 0 means that the client went away."""
        self._requests.labels(route, method if method in METHODS else "other", str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def text(self) -> bytes:
        """Everything in Prometheus' text format."""
        return generate_latest(self.registry) + self.figures.text().encode()
