"""Which files of a directory were checked against the hub's digests, so that 475 GiB are not read again."""

import json
import os
import threading
from pathlib import Path
from typing import NamedTuple

from shoal.pull.remote_file import WORK_DIRECTORY, RemoteFile

RECEIPTS_NAME = "verified.json"


class Receipt(NamedTuple):
    """A file as it was when its bytes had the digest."""

    digest: str
    nbytes: int
    mtime_ns: int


class Receipts:
    """By path in the repository. A file that was touched since has none; a damaged record is no record."""

    def __init__(self, out: Path) -> None:
        self._out, self._lock = out, threading.Lock()
        self._file = out / WORK_DIRECTORY / RECEIPTS_NAME
        self._receipts = _read(self._file)

    def covers(self, file: RemoteFile) -> bool:
        """Whether the file that is there is still the one that was checked."""
        known = self._receipts.get(file.path)
        return known is not None and known == _receipt(file, self._out)

    def add(self, file: RemoteFile) -> None:
        """Remember that the file was checked just now. `save` writes it."""
        with self._lock:
            self._receipts[file.path] = _receipt(file, self._out)

    def save(self) -> None:
        """Writes them, whole or not at all. Raises OSError."""
        partial = self._file.with_name(f"{RECEIPTS_NAME}.{os.getpid()}")
        with self._lock:
            try:
                partial.write_text(json.dumps(self._receipts, indent=0), encoding="utf-8")
                partial.replace(self._file)
            finally:
                partial.unlink(missing_ok=True)


def _receipt(file: RemoteFile, out: Path) -> Receipt:
    status = file.final_path(out).stat()
    return Receipt(file.digest.hex if file.digest else "", status.st_size, status.st_mtime_ns)


def _read(path: Path) -> dict[str, Receipt]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        return {name: Receipt(*values) for name, values in content.items()}
    except (OSError, ValueError, AttributeError, TypeError):
        return {}
