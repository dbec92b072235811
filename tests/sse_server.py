"""A server of one's own that answers Chat Completions with what a test wrote."""

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class SseServer:
    """`lines` are sent to every chat request with `status`, `requests` are what came."""

    def __init__(self) -> None:
        self.status, self.lines = 200, list[str]()
        self.requests = list[tuple[dict[str, str], dict[str, Any]]]()
        self.models: object = {"data": [{"id": "shoal"}]}
        self.left = threading.Event()
        self.waits = False

    def answer(self, *deltas: dict[str, str], finish: str = "stop", before: Sequence[str] = ()) -> None:
        """A whole reply, with usage."""
        chunks: list[object] = [{"choices": [{"delta": delta, "finish_reason": None}]} for delta in deltas]
        chunks.append({"choices": [{"delta": {}, "finish_reason": finish}]})
        details = {"prompt_tokens_details": {"cached_tokens": 5}}
        chunks.append({"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": len(deltas), **details}})
        self.lines = [*before, *(f"data: {json.dumps(chunk)}" for chunk in chunks), "data: [DONE]"]


@contextmanager
def serving(server: SseServer) -> Iterator[str]:
    """The URL where `server` answers."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._send(server.status, json.dumps(server.models))

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            server.requests.append((dict(self.headers), body))
            self._send(server.status, "".join(f"{line}\n\n" for line in server.lines))
            if server.waits:
                self._wait_for_the_client_to_leave()

        def _wait_for_the_client_to_leave(self) -> None:
            try:
                for _ in range(1000):
                    self.wfile.write(b": keep-alive\n\n")
                    self.wfile.flush()
                    server.left.wait(0.01)
            except OSError:
                server.left.set()

        def _send(self, status: int, text: str) -> None:
            self.send_response(status)
            self.end_headers()
            self.wfile.write(text.encode())
            self.wfile.flush()

        def log_message(self, format: str, *args: object) -> None:
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=http.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{http.server_address[1]}/v1"
    finally:
        http.shutdown()
        http.server_close()
        thread.join()
