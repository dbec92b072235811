"""What a digest cannot say: that the files belong together, and are a model Shoal runs. Standard library only."""

from pathlib import Path

from shoal.checkpoint.header import ShardHeader, read_header_from
from shoal.checkpoint.index import ShardIndex
from shoal.checkpoint.inventory import inventory
from shoal.checkpoint.json_object import quoted
from shoal.config.layouts import load_config
from shoal.errors import CheckpointError, ConfigError, HeaderError, ShardIndexError


def check_model(out: Path, index: ShardIndex | None) -> None:
    """Whether the configuration in `out` can be run and `index` has all its tensors: before the first shard.

    Raises ConfigError and ShardIndexError.
    """
    config = load_config(out)
    if problems := config.verify():
        raise ConfigError(f"the configuration in {quoted(out)} contradicts itself: {problems[0]}")
    absent = {spec.name for spec in inventory(config)}.difference(index.weight_map) if index else set()
    if index and absent:
        found = f"{quoted(index.path)} lacks {len(absent):,} tensors, the first is {quoted(min(absent))}"
        raise ShardIndexError(f"{found}; expected all that the configuration implies")


def check_shard(path: Path, name: str, index: ShardIndex | None) -> ShardHeader:
    """The header of the shard `name` whose bytes lie at `path`: parsed, its extents inside the file and up to its end,
    its tensors those that `index` assigns to it.

    Raises HeaderError and ShardIndexError.
    """
    try:
        with path.open("rb") as file:
            header = read_header_from(file, Path(name))
    except OSError as problem:
        raise CheckpointError(f"{quoted(path)} cannot be read: {problem.strerror}") from None
    end = max((entry.end for entry in header.tensors.values()), default=header.payload_start)
    if end != header.file_nbytes:
        found = f"{quoted(name)} has {header.file_nbytes - end:,} bytes after its last tensor"
        raise HeaderError(f"{found}, expected none")
    if index:
        _check_assigned(header, name, index)
    return header


def _check_assigned(header: ShardHeader, name: str, index: ShardIndex) -> None:
    assigned = {tensor for tensor, shard in index.weight_map.items() if shard == name}
    if assigned and (differing := assigned.symmetric_difference(header.tensors)):
        first = min(differing)
        found = "lacks" if first in assigned else "also holds"
        wanted = f"exactly the {len(assigned):,} tensors that the index assigns to it"
        raise ShardIndexError(f"{quoted(name)} {found} {quoted(first)}, expected {wanted}")
