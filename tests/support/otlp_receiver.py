"""What receives OpenTelemetry's traces: an HTTP server that keeps the spans of each request, and may refuse them."""

from __future__ import annotations

import queue
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

if TYPE_CHECKING:
    from opentelemetry.proto.trace.v1.trace_pb2 import Span

SECONDS = 30


class Receiver:
    """A server on loopback; use it with `with`."""

    def __init__(self, code: int = 200, answer: bytes = b"", port: int = 0, **headers: str) -> None:
        """Answer each request with a code, content and headers; without a port a free one is taken."""
        self.requests: queue.Queue[tuple[str, ExportTraceServiceRequest]] = queue.Queue()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                content = self.rfile.read(int(self.headers["content-length"]))
                receiver.requests.put((self.path, ExportTraceServiceRequest.FromString(content)))
                self.send_response(code)
                for name, value in {"content-length": str(len(answer)), **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *arguments: Any) -> None:
                """Print nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.address = f"http://127.0.0.1:{self.server.server_port}"

    def __enter__(self) -> Receiver:
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *failure: object) -> None:
        self.server.shutdown()
        self.server.server_close()

    def next(self) -> list[Span]:
        """Wait for a request, and return its spans."""
        return spans_of(self.requests.get(timeout=SECONDS)[1])

    def all(self) -> list[Span]:
        """Return the spans of the requests that came since the last call."""
        return [span for _ in range(self.requests.qsize()) for span in self.next()]


def spans_of(request: ExportTraceServiceRequest) -> list[Span]:
    """Return the spans of a request."""
    return [span for one in request.resource_spans for scope in one.scope_spans for span in scope.spans]


def values_of(attributes: Any) -> dict[str, Any]:
    """Return attributes as texts and numbers."""
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in attributes}
