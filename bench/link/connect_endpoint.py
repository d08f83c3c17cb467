"""A scripted ``POST /v1/act/connect``: hands out one worker's URL and secret, as `sequence-ai` 0.51.5 asks for it.

Over plain HTTP/1.1 on loopback, from a thread of the standard library: nothing of it is measured.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@contextmanager
def connect_endpoint(worker_url: str) -> Iterator[int]:
    """Serve it; gives its port."""
    answer = {
        "worker_url": worker_url,
        "direct_secret": "bench",
        "cert_fingerprint": "00" * 32,  # not looked at over plain http
        "lease": {"ttl_s": 3600, "expires_at": "2099-01-01T00:00:00Z", "epoch": 1},
        "params": {},
        "keepalive": {"every_s": 3600},
    }

    class Answer(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("content-length") or 0))
            body = json.dumps(answer if self.path.endswith("/connect") else {}).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_DELETE = do_POST

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
