"""An OpenTelemetry collector of the test's own: takes spans and metrics over OTLP/HTTP on a real socket."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, Span


class Collector:
    """What came in. *status* is answered to each request."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.status = 200
        self.bodies: list[bytes] = []
        self.metric_bodies: list[bytes] = []
        self.headers: list[dict[str, str]] = []

    @property
    def resources(self) -> list[ResourceSpans]:
        """Spans by who sent them."""
        return [
            resource
            for body in list(self.bodies)
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans
        ]

    @property
    def spans(self) -> list[Span]:
        """All spans."""
        return [span for resource in self.resources for scope in resource.scope_spans for span in scope.spans]

    @property
    def metrics(self) -> list[Metric]:
        """The metrics of all requests."""
        return [
            metric
            for body in self.metric_bodies
            for resource in ExportMetricsServiceRequest.FromString(body).resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
        ]

    def named(self, name: str) -> Span:
        """The only span of that name."""
        (span,) = [one for one in self.spans if one.name == name]
        return span


@contextmanager
def collector() -> Iterator[Collector]:
    """A collector on a free port of the loopback interface."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as server:
        kept = Collector(f"http://127.0.0.1:{server.server_port}")
        server.kept = kept  # type: ignore[attr-defined]
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield kept
        server.shutdown()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        kept: Collector = self.server.kept  # type: ignore[attr-defined]
        body = self.rfile.read(int(self.headers["content-length"]))
        if self.path == "/v1/traces":
            kept.headers.append({name.lower(): value for name, value in self.headers.items()})
            kept.bodies.append(body)
        elif self.path == "/v1/metrics":
            kept.metric_bodies.append(body)
        self.send_response(kept.status)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Nothing on stderr."""
