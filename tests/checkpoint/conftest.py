"""A safetensors writer that lies on request, for tests of what reads them."""

import json
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from miniature import MINI

WriteShard = Callable[..., Path]


def shard_bytes(header: Any, payload: bytes = b"", *, header_nbytes: int | None = None) -> bytes:
    """A shard of this header: bytes as they are, anything else as JSON, its length true unless given."""
    blob = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(blob) if header_nbytes is None else header_nbytes) + blob + payload


@pytest.fixture
def write_shard(tmp_path: Path) -> WriteShard:
    def write(
        header: Any, payload: bytes = b"", *, name: str = "a.safetensors", header_nbytes: int | None = None
    ) -> Path:
        path = tmp_path / name
        path.write_bytes(shard_bytes(header, payload, header_nbytes=header_nbytes))
        return path

    return write


@pytest.fixture
def write_tensors(write_shard: WriteShard) -> WriteShard:
    """Writes {name: (dtype, shape, bytes)} end to end, the first `offset` bytes past a multiple of 8."""

    def write(
        tensors: dict[str, tuple[str, list[int], bytes]], *, name: str = "a.safetensors", offset: int = 0
    ) -> Path:
        header, payload = {}, b"\0" * offset
        for tensor, (dtype, shape, data) in tensors.items():
            header[tensor] = {
                "dtype": dtype,
                "shape": shape,
                "data_offsets": [len(payload), len(payload) + len(data)],
            }
            payload += data
        blob = json.dumps(header).encode()
        return write_shard(blob + b" " * (-len(blob) % 8), payload, name=name)

    return write


@pytest.fixture
def write_index(tmp_path: Path) -> Callable[[Any], Path]:
    def write(index: Any) -> Path:
        path = tmp_path / "model.safetensors.index.json"
        path.write_bytes(index if isinstance(index, bytes) else json.dumps(index).encode())
        return path

    return write


@pytest.fixture(scope="session")
def miniature() -> Path:
    return MINI


@pytest.fixture
def halves(miniature: Path, tmp_path: Path) -> tuple[Path, Path]:
    """The miniature with every other shard in a second directory."""
    first, other = tmp_path / "first", tmp_path / "other"
    shutil.copytree(miniature, first)
    other.mkdir()
    for path in sorted(first.glob("*.safetensors"))[::2]:
        path.rename(other / path.name)
    return first, other
