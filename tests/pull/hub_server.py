"""A hub on 127.0.0.1: listings with sizes and digests, redirects to a store, ranges, and faults on demand."""

import hashlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

REPO, COMMIT, OLD_COMMIT = "shoal-tests/mini", "c" * 40, "0" * 40
GATED, PRIVATE = "shoal-tests/gated", "shoal-tests/private"
_API = re.compile(r"/api/models/([^/]+/[^/]+)(?:/revision/(.+))?")
_RESOLVE = re.compile(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)")
_STORE = re.compile(r"/store/([^/]+)/(.+)")
_RANGE = re.compile(r"bytes=(\d+)-(\d*)")


@dataclass
class Hub:
    """`versions` hold the files of each commit. Every fault goes by path, and each use of a list takes one entry."""

    versions: dict[str, dict[str, bytes]]
    endpoint: str = ""
    requests: list[tuple[str, str]] = field(default_factory=list)
    """Path and range of every request for bytes."""
    listed_nbytes: dict[str, int] = field(default_factory=dict)
    listed_sha256: dict[str, str] = field(default_factory=dict)
    listed_extra: list[dict[str, object]] = field(default_factory=list)
    cut_after: dict[str, list[int]] = field(default_factory=dict)
    statuses: dict[str, list[int]] = field(default_factory=dict)
    corrupt: set[str] = field(default_factory=set)
    absent: set[str] = field(default_factory=set)
    ignores_range: bool = False
    stalled: threading.Event | None = None
    """Set once a file is half sent; the other half never comes while `release` is not set."""
    release: threading.Event = field(default_factory=threading.Event)

    @property
    def files(self) -> dict[str, bytes]:
        return self.versions[COMMIT]

    def listing(self, commit: str) -> dict[str, object]:
        siblings = [self._sibling(path, content) for path, content in sorted(self.versions[commit].items())]
        return {"id": REPO, "sha": commit, "siblings": [*siblings, *self.listed_extra]}

    def _sibling(self, path: str, content: bytes) -> dict[str, object]:
        nbytes = self.listed_nbytes.get(path, len(content))
        blob = hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
        sibling: dict[str, object] = {"rfilename": path, "size": nbytes, "blobId": blob}
        if path.endswith(".safetensors"):
            sha256 = self.listed_sha256.get(path, hashlib.sha256(content).hexdigest())
            sibling["lfs"] = {"sha256": sha256, "size": nbytes, "pointerSize": 134}
        return sibling


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: "_Server"

    def log_message(self, format: str, *arguments: object) -> None:
        pass

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        path = unquote(urlsplit(self.path).path)
        if match := _API.fullmatch(path):
            self._list(match[1], match[2] or "main")
        elif match := _RESOLVE.fullmatch(path):
            self._resolve(match[1], match[2], match[3])
        elif match := _STORE.fullmatch(path):
            self._send_file(match[1], match[2])
        else:
            self._refuse(404, "EntryNotFound")

    def _list(self, repo: str, revision: str) -> None:
        hub = self.server.hub
        commit = {"main": COMMIT, "v0": OLD_COMMIT}.get(revision, revision)
        if repo == GATED:
            self._refuse(403, "GatedRepo")
        elif repo == PRIVATE:
            self._refuse(401, "RepoNotFound")
        elif repo != REPO:
            self._refuse(404, "RepoNotFound")
        elif commit not in hub.versions:
            self._refuse(404, "RevisionNotFound")
        else:
            self._send(200, json.dumps(hub.listing(commit)).encode(), {"Content-Type": "application/json"})

    def _resolve(self, repo: str, commit: str, path: str) -> None:
        hub = self.server.hub
        if path in hub.absent or path not in hub.versions.get(commit, {}):
            self._refuse(404, "EntryNotFound")
        elif hub.statuses.get(path):
            self._send(hub.statuses[path].pop(0), b"", {"Retry-After": "0"})
        elif path.endswith(".safetensors"):
            self._send(302, b"", {"Location": f"/store/{commit}/{path}", "X-Repo-Commit": commit})
        else:
            self._send_file(commit, path)

    def _send_file(self, commit: str, path: str) -> None:
        hub = self.server.hub
        content = hub.versions[commit][path]
        if path in hub.corrupt:
            content = content[:-1] + bytes([content[-1] ^ 1])
        wanted = self.headers.get("Range", "")
        hub.requests.append((path, wanted))
        match = None if hub.ignores_range else _RANGE.fullmatch(wanted)
        headers = {"ETag": f'"{commit}"', "X-Repo-Commit": commit}
        if not match:
            self._send(200, content, headers, path)
            return
        start, end = int(match[1]), min(int(match[2] or len(content)) + 1, len(content))
        if start >= len(content):
            self._send(416, b"", {"Content-Range": f"bytes */{len(content)}"})
            return
        headers["Content-Range"] = f"bytes {start}-{end - 1}/{len(content)}"
        self._send(206, content[start:end], headers, path)

    def _refuse(self, status: int, code: str) -> None:
        self._send(status, b"{}", {"X-Error-Code": code})

    def _send(self, status: int, content: bytes, headers: dict[str, str], path: str = "") -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(content)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            self._write(content, path)

    def _write(self, content: bytes, path: str) -> None:
        hub = self.server.hub
        if cuts := hub.cut_after.get(path):
            self.wfile.write(content[: cuts.pop(0)])
            self.close_connection = True
        elif path.endswith(".safetensors") and hub.stalled:
            self.wfile.write(content[: len(content) // 2])
            hub.stalled.set()
            hub.release.wait(20)
            self.close_connection = True
        else:
            self.wfile.write(content)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    hub: Hub

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that hangs up is what some tests are about."""


@contextmanager
def serving(root: Path) -> Iterator[Hub]:
    """A hub whose repository `REPO` has the files under `root`, and an older version with another README."""
    files = {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}
    versions = {COMMIT: files | {"README.md": b"new\n"}, OLD_COMMIT: files | {"README.md": b"old\n"}}
    with _Server(("127.0.0.1", 0), _Handler) as server:
        server.hub = Hub(versions, f"http://127.0.0.1:{server.server_address[1]}")
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        yield server.hub
        server.hub.release.set()
        server.shutdown()
        thread.join()
