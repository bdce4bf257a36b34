"""A real OTLP/HTTP receiver: takes what an exporter sends, and decodes it."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


class Collector:
    """What was received."""

    def __init__(self) -> None:
        self.url = ""
        self.traces: list[Any] = []
        self.metrics: list[Any] = []
        self.bodies: list[bytes] = []

    @property
    def spans(self) -> list[Any]:
        """All spans, in the order of their arrival."""
        return [
            span for request in self.traces for found in request.resource_spans for part in found.scope_spans for span in part.spans
        ]

    @property
    def resource(self) -> dict[str, Any]:
        return attributes(self.traces[0].resource_spans[0].resource)

    def metric(self, name: str) -> list[Any]:
        """Points of a metric in the last report that has it."""
        found = [
            metric
            for request in self.metrics
            for resource in request.resource_metrics
            for part in resource.scope_metrics
            for metric in part.metrics
            if metric.name == name
        ]
        kind = found[-1].WhichOneof("data")
        return list(getattr(found[-1], kind).data_points)


def attributes(found: Any) -> dict[str, Any]:
    """Attributes as plain values."""
    return {entry.key: _plain(entry.value) for entry in found.attributes}


def _plain(value: Any) -> Any:
    kind = value.WhichOneof("value")
    return [_plain(part) for part in value.array_value.values] if kind == "array_value" else getattr(value, kind)


@contextmanager
def collector(*, status: int = 200, delay: float = 0.0) -> Iterator[Collector]:
    """A collector on this machine that answers with a status, after a while."""
    found = Collector()

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:  # the library's name
            body = self.rfile.read(int(self.headers["Content-Length"]))
            time.sleep(delay)
            kind = ExportMetricsServiceRequest if self.path == "/v1/metrics" else ExportTraceServiceRequest
            (found.metrics if self.path == "/v1/metrics" else found.traces).append(kind.FromString(body))
            found.bodies.append(body)
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        block_on_close = False

    with Server(("127.0.0.1", 0), Receiver) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        found.url = f"http://127.0.0.1:{server.server_address[1]}"
        try:
            yield found
        finally:
            server.shutdown()
