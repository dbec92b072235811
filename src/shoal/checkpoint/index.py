"""`model.safetensors.index.json`: which shard holds which tensor (spec §2). Standard library only."""

import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from shoal.checkpoint.json_object import check_json_nbytes, parse_json_object, quoted, shown
from shoal.errors import ShardIndexError

INDEX_NAME = "model.safetensors.index.json"
SHARD_SUFFIX = ".safetensors"


@dataclass(frozen=True)
class ShardIndex:
    """`weight_map` gives each tensor's file name, a plain name in the index's own directory."""

    path: Path
    weight_map: Mapping[str, str]
    metadata: Mapping[str, object]

    @property
    def file_names(self) -> tuple[str, ...]:
        """The shards, each once, sorted."""
        return tuple(sorted(set(self.weight_map.values())))


def read_index(path: Path) -> ShardIndex:
    """The index at `path`. Raises ShardIndexError."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise ShardIndexError(f"{quoted(path)} is not a regular file, expected a JSON index")
        check_json_nbytes(path.stat().st_size, path, ShardIndexError)
        blob = path.read_bytes()
    except OSError as problem:
        raise ShardIndexError(f"{quoted(path)} cannot be read: {problem.strerror}") from problem
    return parse_index(blob, path)


def parse_index(blob: bytes, where: Path) -> ShardIndex:
    """The index whose JSON is `blob`, read from the file `where`. Raises ShardIndexError."""
    members = parse_json_object(blob, where, ShardIndexError)
    metadata = members.get("metadata", {})
    if not isinstance(metadata, dict):
        raise ShardIndexError(f"`metadata` of {quoted(where)} is {shown(metadata)}, expected an object")
    weight_map = _weight_map(members.get("weight_map"), where)
    return ShardIndex(where, MappingProxyType(weight_map), MappingProxyType(metadata))


def _weight_map(value: object, where: Path) -> dict[str, str]:
    if not isinstance(value, dict) or not value:
        found = f"`weight_map` of {quoted(where)} is {shown(value)}"
        raise ShardIndexError(f"{found}, expected an object of tensor names to file names")
    plain: set[str] = set()
    for name, file_name in value.items():
        if not isinstance(file_name, str) or (file_name not in plain and not _is_plain_shard_name(file_name)):
            raise ShardIndexError(
                f"{quoted(name)} is assigned to {shown(file_name)} in {quoted(where)}, "
                f"expected the plain name of a `{SHARD_SUFFIX}` file in the same directory"
            )
        plain.add(file_name)
    return value


def _is_plain_shard_name(name: str) -> bool:
    """Whether opening it can only open a file of the index's own directory."""
    leaves = any(part in name for part in ("/", "\\", ".."))
    return name.isprintable() and not leaves and name.endswith(SHARD_SUFFIX) and name != SHARD_SUFFIX
