"""Runs the real entry point in this process, and spoils copies of the miniature."""

import io
import json
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from miniature import MINI
from shoal.checkpoint.shards import Checkpoint
from shoal.cli.app import main


class Outcome(NamedTuple):
    code: int
    out: str
    err: str


RunShoal = Callable[..., Outcome]


@pytest.fixture
def run_shoal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path_factory: pytest.TempPathFactory
) -> RunShoal:
    """`shoal ARGUMENTS` with `stdin` as its standard input, through `main`."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "cache"))

    def run(*arguments: object, stdin: bytes = b"") -> Outcome:
        monkeypatch.setattr(sys, "argv", ["shoal", *map(str, arguments)])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        capsys.readouterr()
        with pytest.raises(SystemExit) as end:
            main()
        captured = capsys.readouterr()
        code = end.value.code
        assert isinstance(code, int)
        return Outcome(code, captured.out, captured.err)

    return run


class SpoiltMiniature:
    """The miniature at `path`, its files links until one is changed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir(parents=True)
        for file in MINI.glob("*.*"):
            (path / file.name).symlink_to(file)

    def write(self, name: str, content: bytes) -> None:
        """Put a file of this content in the place of the one called `name`."""
        (self.path / name).unlink(missing_ok=True)
        (self.path / name).write_bytes(content)

    def replace(self, name: str, old: str, new: str) -> None:
        """Replace a text that the file holds."""
        content = (self.path / name).read_bytes()
        assert old.encode() in content, (name, old)
        self.write(name, content.replace(old.encode(), new.encode()))

    def fill(self, tensor: str, byte: int) -> None:
        """Set every byte of a tensor."""
        with Checkpoint.open(self.path) as checkpoint:
            entry = checkpoint.entry(tensor)
        content = bytearray((self.path / entry.path.name).read_bytes())
        content[entry.start : entry.end] = bytes([byte]) * entry.nbytes
        self.write(entry.path.name, bytes(content))

    def edit_header(self, tensor: str, change: Callable[[dict[str, Any]], None]) -> None:
        """Change the header of the shard that holds `tensor`; the payload stays."""
        with Checkpoint.open(self.path) as checkpoint:
            name = checkpoint.entry(tensor).path.name
        content = (self.path / name).read_bytes()
        (length,) = struct.unpack_from("<Q", content)
        header = json.loads(content[8 : 8 + length])
        change(header)
        blob = json.dumps(header).encode()
        self.write(name, struct.pack("<Q", len(blob)) + blob + content[8 + length :])


@pytest.fixture
def spoilt(tmp_path: Path) -> SpoiltMiniature:
    return SpoiltMiniature(tmp_path / "spoilt")
