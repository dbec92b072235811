"""A shard's header as it is written, its sizes and places not judged: what an audit compares (spec §2).

`header.py` refuses a header that lies; here a lie is evidence. Standard library only.
"""

import hashlib
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import BinaryIO

from shoal.checkpoint.header import (
    DTYPE_BITS,
    LENGTH_NBYTES,
    MAX_DIMS,
    MAX_INTEGER,
    METADATA_KEY,
    TensorEntry,
    open_shard,
)
from shoal.checkpoint.json_object import parse_json_object, quoted, shown
from shoal.errors import HeaderError

# Three times a header of the whole release; hostile JSON of the format's own 100 MB takes over 2 GiB to parse.
MAX_HEADER_NBYTES = 32 << 20
_SMALLEST_JSON = len(b"{}")
_ONLY_INT = frozenset({int})


@dataclass(frozen=True)
class RawHeader:
    """`tensors` may overlap, leave gaps, end outside the file, or have another size than their shape's.

    Their places are absolute. `digest` tells equal headers.
    """

    path: Path
    file_nbytes: int
    payload_start: int
    tensors: Mapping[str, TensorEntry]
    digest: bytes

    @property
    def name(self) -> str:
        """The file's own name."""
        return self.path.name


def stated_nbytes(entry: TensorEntry) -> int | None:
    """Bytes that dtype and shape need; None where they are no whole number."""
    num_bits = math.prod(entry.shape) * DTYPE_BITS[entry.dtype]
    return None if num_bits % 8 else num_bits // 8


def has_header(path: Path) -> bool:
    """Whether the file begins like a safetensors file: a length that can be, then an object."""
    with open_shard(path) as file:
        start = _read(file, LENGTH_NBYTES + 1, path)
    length = int.from_bytes(start[:LENGTH_NBYTES], "little")
    return start[LENGTH_NBYTES:] == b"{" and _SMALLEST_JSON <= length <= MAX_HEADER_NBYTES


def read_raw_header(path: Path) -> RawHeader:
    """The header of the file at `path`, of which nothing else is read.

    Raises HeaderError when it is cut off, not JSON, or states something else than dtypes, shapes and places.
    """
    with open_shard(path) as file:
        file_nbytes = os.fstat(file.fileno()).st_size
        blob = _header_json(file, path)
    members = parse_json_object(blob, path, HeaderError)
    members.pop(METADATA_KEY, None)
    payload_start = LENGTH_NBYTES + len(blob)
    tensors = {name: _entry(name, value, payload_start, path) for name, value in members.items()}
    digest = hashlib.sha256(blob).digest()
    return RawHeader(path, file_nbytes, payload_start, MappingProxyType(tensors), digest)


def _header_json(file: BinaryIO, path: Path) -> bytes:
    prefix = _read(file, LENGTH_NBYTES, path)
    length = int.from_bytes(prefix, "little")
    if len(prefix) < LENGTH_NBYTES or length < _SMALLEST_JSON:
        found = f"{quoted(path)} begins with {len(prefix)} bytes that say {length}"
        raise HeaderError(f"{found}, expected {LENGTH_NBYTES} that give the length of a header", hint=_INCOMPLETE)
    if length > MAX_HEADER_NBYTES:
        found = f"{quoted(path)} claims a header of {length:,} bytes"
        raise HeaderError(f"{found}, expected at most {MAX_HEADER_NBYTES:,}", hint=_INCOMPLETE)
    blob = _read(file, length, path)
    if len(blob) < length:
        found = f"found {len(blob):,} of its bytes, expected {length:,}"
        raise HeaderError(f"{quoted(path)} is cut off in its header: {found}", hint=_INCOMPLETE)
    return blob


def _read(file: BinaryIO, nbytes: int, path: Path) -> bytes:
    try:
        return file.read(nbytes)
    except OSError as problem:
        raise HeaderError(f"{quoted(path)} cannot be read: {problem.strerror}") from problem


def _entry(name: str, value: object, payload_start: int, where: Path) -> TensorEntry:
    if not isinstance(value, dict):
        raise _misfit(name, where, shown(value), "an object")
    dtype = value.get("dtype")
    if not isinstance(dtype, str) or dtype not in DTYPE_BITS:
        raise _misfit(name, where, f"of dtype {shown(dtype)}", f"one of {', '.join(sorted(DTYPE_BITS))}")
    shape = _integers(name, where, "shape", value.get("shape"), MAX_DIMS)
    offsets = _integers(name, where, "data_offsets", value.get("data_offsets"), 2)
    if len(offsets) != 2:
        raise _misfit(name, where, f"at data_offsets {shown(offsets)}", "a start and an end")
    return TensorEntry(name, dtype, shape, payload_start + offsets[0], payload_start + offsets[1], where)


def _integers(name: str, where: Path, key: str, value: object, most: int) -> tuple[int, ...]:
    # `type` and not `isinstance`: JSON's true is no size.
    if (
        isinstance(value, list)
        and len(value) <= most
        and _ONLY_INT.issuperset(map(type, value))
        and min(value, default=0) >= 0
        and max(value, default=0) <= MAX_INTEGER
    ):
        return tuple(value)
    raise _misfit(name, where, f"of {key} {shown(value)}", f"up to {most} integers from 0 to 2^63-1")


def _misfit(name: str, where: Path, found: str, wanted: str) -> HeaderError:
    return HeaderError(f"{quoted(name)} is {found} in the header of {quoted(where)}, expected {wanted}")


_INCOMPLETE = "the file is not whole, or no safetensors file at all"
