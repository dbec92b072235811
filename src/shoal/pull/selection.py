"""Which files a part of the model needs: shards by what the index says is in them. Standard library only."""

from collections.abc import Collection, Iterable
from enum import Enum

from shoal.checkpoint.audit_family import Family, family_of
from shoal.checkpoint.index import ShardIndex
from shoal.checkpoint.json_object import quoted
from shoal.errors import CheckpointError
from shoal.pull.remote_file import RemoteFile


class Part(Enum):
    """What may be pulled by itself."""

    TEXT = "text"
    """All that the backbone needs: it cannot run without its Engram tables."""
    ENGRAM = "engram"
    DRAFT = "draft"
    VISION = "vision"


_ENGRAM = frozenset({Family.TABLES, Family.PROJECTIONS})
_FAMILIES = {
    Part.TEXT: _ENGRAM | {Family.BACKBONE, Family.BACKBONE_EXPERTS},
    Part.ENGRAM: _ENGRAM,
    Part.DRAFT: frozenset({Family.DRAFT, Family.DRAFT_EXPERTS}),
    Part.VISION: frozenset({Family.VISION}),
}


def shards_of(index: ShardIndex, parts: Iterable[Part]) -> frozenset[str]:
    """The shards that hold a tensor of one of `parts`."""
    wanted = frozenset[Family]().union(*(_FAMILIES[part] for part in parts))
    return frozenset(shard for name, shard in index.weight_map.items() if family_of(name) in wanted)


def select(files: Collection[RemoteFile], index: ShardIndex | None, parts: Collection[Part]) -> tuple[RemoteFile, ...]:
    """The files to fetch: all, or with `parts` their shards and whatever is no shard.

    Raises CheckpointError when a part is asked for without an index or is nowhere in it, and when the index names
    a shard that is not in `files`.
    """
    _check_listed(files, index)
    if not parts:
        return tuple(files)
    if index is None:
        raise CheckpointError(f"the repository has no index, expected one to find {quoted(_listed(parts))} with")
    for part in parts:
        if not shards_of(index, [part]):
            raise CheckpointError(f"no tensor of {quoted(part.value)} is in {quoted(index.path)}, expected some")
    shards = shards_of(index, parts)
    return tuple(file for file in files if not file.is_shard or file.path in shards)


def _check_listed(files: Iterable[RemoteFile], index: ShardIndex | None) -> None:
    absent = set(index.file_names).difference(file.path for file in files) if index else set()
    if absent:
        names = f"{len(absent)} shards that the repository lacks, the first is {quoted(min(absent))}"
        raise CheckpointError(f"the index names {names}; expected all of them")


def _listed(parts: Iterable[Part]) -> str:
    return ", ".join(part.value for part in parts)
