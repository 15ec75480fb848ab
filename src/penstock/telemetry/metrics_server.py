"""The small server that shows metrics to Prometheus."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from penstock.errors import InputError
from penstock.telemetry.metrics import Metrics


class MetricsServer:
    """Shows metrics at ``/metrics``.

    Parameters
    ----------
    metrics
        What is shown.
    port
        0: any free one; `port` says which.
    address
        The loopback interface unless told otherwise.

    Raises
    ------
    InputError
        If the port is taken, or is none.
    """

    def __init__(self, metrics: Metrics, port: int, address: str = "127.0.0.1") -> None:
        if isinstance(port, bool) or not isinstance(port, int):
            raise InputError(f"expected the number of a port, got {port!r}", at="prometheus")

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                found = self.path.partition("?")[0] in ("/metrics", "/")
                body = metrics.text().encode() if found else b"look at /metrics\n"
                self.send_response(200 if found else 404)
                self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                """Stay silent."""

        try:
            self._server = ThreadingHTTPServer((address, port), Handler)
        except (OSError, OverflowError) as error:
            why = getattr(error, "strerror", None) or error
            raise InputError(
                f"cannot listen on {address}:{port}: {why}", at="prometheus", hint="give another port"
            ) from None
        self._server.daemon_threads = True
        self.port = int(self._server.server_address[1])
        self._thread = threading.Thread(target=self._server.serve_forever, name="penstock metrics", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)
