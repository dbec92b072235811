"""The header of one safetensors shard: which tensors it holds, and where (spec §2). Standard library only.

Hostile until checked: nothing here is used as a size or an offset before it has been compared with the file.
"""

import math
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import BinaryIO, NamedTuple

from shoal.checkpoint.json_object import check_json_nbytes, parse_json_object, quoted, shown
from shoal.errors import HeaderError

LENGTH_NBYTES = 8
METADATA_KEY = "__metadata__"
MAX_DIMS = 8
MAX_INTEGER = 2**63 - 1
_ONLY_INT = frozenset({int})

# Every dtype of the format: a foreign file fails for the tensor one asks for and not for its neighbour.
DTYPE_BITS: Mapping[str, int] = MappingProxyType(
    {
        "F4": 4,
        **dict.fromkeys(("F6_E2M3", "F6_E3M2"), 6),
        **dict.fromkeys(("BOOL", "U8", "I8", "F8_E4M3", "F8_E8M0"), 8),
        **dict.fromkeys(("F8_E5M2", "F8_E4M3FNUZ", "F8_E5M2FNUZ"), 8),
        **dict.fromkeys(("U16", "I16", "F16", "BF16"), 16),
        **dict.fromkeys(("U32", "I32", "F32"), 32),
        **dict.fromkeys(("U64", "I64", "F64", "C64"), 64),
    }
)


class TensorEntry(NamedTuple):
    """Where one tensor lies: bytes `start` to `end` (half-open, absolute) of the file `path`, row-major."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    start: int
    end: int
    path: Path

    @property
    def nbytes(self) -> int:
        return self.end - self.start


@dataclass(frozen=True)
class ShardHeader:
    """A checked header: every tensor lies inside the file, has its shape's size, and overlaps no other."""

    path: Path
    payload_start: int
    file_nbytes: int
    tensors: Mapping[str, TensorEntry]
    metadata: Mapping[str, str]


def read_header(path: Path) -> ShardHeader:
    """The header of the shard at `path`; its payload is not read. Raises HeaderError."""
    with open_shard(path) as file:
        return read_header_from(file, path)


def open_shard(path: Path) -> BinaryIO:
    """The shard at `path`, open for reading. Raises HeaderError."""
    try:
        # Looked at first: opening a named pipe waits for ever.
        if not stat.S_ISREG(path.stat().st_mode):
            raise HeaderError(f"{quoted(path)} is not a regular file, expected a safetensors shard")
        return path.open("rb")
    except OSError as problem:
        raise HeaderError(f"{quoted(path)} cannot be opened: {problem.strerror}") from problem


def read_header_from(file: BinaryIO, path: Path) -> ShardHeader:
    """The header of the open shard `file`, read from its beginning. Raises HeaderError."""
    try:
        file_nbytes = os.fstat(file.fileno()).st_size
        blob = _header_json(file, path)
    except OSError as problem:
        raise HeaderError(f"{quoted(path)} cannot be read: {problem.strerror}") from problem
    return parse_header(blob, file_nbytes, path)


def _header_json(file: BinaryIO, path: Path) -> bytes:
    prefix = file.read(LENGTH_NBYTES)
    if len(prefix) < LENGTH_NBYTES:
        found = f"is {len(prefix)} bytes long, expected a safetensors shard of at least {LENGTH_NBYTES}"
        raise HeaderError(f"{quoted(path)} {found}", hint=_INCOMPLETE)
    wanted = int.from_bytes(prefix, "little")
    if wanted == 0:
        raise HeaderError(f"{quoted(path)} has a header of 0 bytes, expected a JSON object")
    check_json_nbytes(wanted, path, HeaderError)
    blob = file.read(wanted)
    if len(blob) < wanted:
        found = f"found {len(blob):,} of its bytes, expected {wanted:,}"
        raise HeaderError(f"{quoted(path)} is truncated in its header: {found}", hint=_INCOMPLETE)
    return blob


def parse_header(blob: bytes, file_nbytes: int, where: Path) -> ShardHeader:
    """The header whose JSON is `blob`, of the file `where` of `file_nbytes` bytes. Raises HeaderError.

    Gaps between tensors, bytes after the last one, and tensors of size zero are allowed.
    """
    members = parse_json_object(blob, where, HeaderError)
    metadata = _metadata(members.pop(METADATA_KEY, {}), where)
    payload_start = LENGTH_NBYTES + len(blob)
    tensors = {name: _entry(name, value, payload_start, where) for name, value in members.items()}
    _check_extent(tensors, file_nbytes, where)
    _check_overlaps(tensors, where)
    return ShardHeader(
        path=where,
        payload_start=payload_start,
        file_nbytes=file_nbytes,
        tensors=MappingProxyType(tensors),
        metadata=MappingProxyType(metadata),
    )


def _metadata(value: object, where: Path) -> dict[str, str]:
    if not isinstance(value, dict) or not all(isinstance(text, str) for text in value.values()):
        raise _lie(METADATA_KEY, where, f"is {shown(value)}", "an object of strings")
    return value


def _entry(name: str, value: object, payload_start: int, where: Path) -> TensorEntry:
    if not isinstance(value, dict):
        raise _lie(name, where, f"is {shown(value)}", "an object")
    for key in ("dtype", "shape", "data_offsets"):
        if key not in value:
            raise _lie(name, where, f"has no `{key}`", "`dtype`, `shape` and `data_offsets`")
    dtype = value["dtype"]
    if not isinstance(dtype, str) or dtype not in DTYPE_BITS:
        raise _lie(name, where, f"has dtype {shown(dtype)}", f"one of {', '.join(sorted(DTYPE_BITS))}")
    shape = _integers(name, where, "shape", value["shape"])
    offsets = _integers(name, where, "data_offsets", value["data_offsets"])
    if len(offsets) != 2 or offsets[0] > offsets[1]:
        raise _lie(name, where, f"has data_offsets {shown(offsets)}", "a start and an end not before it")
    start, end = offsets
    if end - start != (nbytes := _shape_nbytes(name, where, dtype, shape)):
        found = f"is {dtype} {shown(shape)} in {end - start:,} bytes"
        raise _lie(name, where, found, f"{nbytes:,} bytes")
    return TensorEntry(name, dtype, shape, payload_start + start, payload_start + end, where)


def _integers(name: str, where: Path, key: str, value: object) -> tuple[int, ...]:
    # `type` and not `isinstance`: JSON's true is no size.
    if (
        isinstance(value, list)
        and _ONLY_INT.issuperset(map(type, value))
        and min(value, default=0) >= 0
        and max(value, default=0) <= MAX_INTEGER
    ):
        return tuple(value)
    raise _lie(name, where, f"has {key} {shown(value)}", "a list of integers from 0 to 2^63-1")


def _shape_nbytes(name: str, where: Path, dtype: str, shape: tuple[int, ...]) -> int:
    if len(shape) > MAX_DIMS:
        raise _lie(name, where, f"has {len(shape):,} dimensions", f"at most {MAX_DIMS}")
    # A product beyond 64 bits would wrap in the native code that a small size had let through.
    num_bits = math.prod(filter(None, shape)) * DTYPE_BITS[dtype]
    if num_bits > MAX_INTEGER:
        raise _lie(name, where, f"has shape {shown(shape)}", "fewer than 2^63 bits")
    if 0 in shape:
        return 0
    if num_bits % 8:
        raise _lie(name, where, f"is {dtype} {shown(shape)}", "a whole number of bytes")
    return num_bits // 8


def _check_extent(tensors: Mapping[str, TensorEntry], file_nbytes: int, where: Path) -> None:
    last = max(tensors.values(), key=lambda entry: entry.end, default=None)
    if last is not None and last.end > file_nbytes:
        raise HeaderError(
            f"{quoted(where)} is truncated, {last.end - file_nbytes:,} bytes are missing: "
            f"found {file_nbytes:,} bytes, expected {last.end:,}, where {quoted(last.name)} ends",
            hint=_INCOMPLETE,
        )


def _check_overlaps(tensors: Mapping[str, TensorEntry], where: Path) -> None:
    filled = sorted((entry for entry in tensors.values() if entry.nbytes), key=lambda entry: entry.start)
    for before, after in pairwise(filled):
        if after.start < before.end:
            found = f"starts at byte {after.start:,}, inside {quoted(before.name)}"
            raise _lie(after.name, where, found, f"byte {before.end:,} or later")


def _lie(name: str, where: Path, found: str, wanted: str) -> HeaderError:
    return HeaderError(f"{quoted(name)} {found} in the header of {quoted(where)}, expected {wanted}")


_INCOMPLETE = "the download is probably incomplete; fetch this file again"
