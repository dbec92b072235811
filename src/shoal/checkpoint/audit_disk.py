"""What a directory holds of a checkpoint: the headers that have arrived, and which shard has which tensor.

Presence is what the index says, or what the headers say where there is none (spec §2.2).
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from shoal.checkpoint.audit_family import Family, family_of
from shoal.checkpoint.directory import check_directory, find_index, locate_shard
from shoal.checkpoint.garbage_collection import without_garbage_collection
from shoal.checkpoint.header import TensorEntry
from shoal.checkpoint.index import SHARD_SUFFIX, ShardIndex, read_index
from shoal.checkpoint.json_object import quoted
from shoal.checkpoint.raw_header import RawHeader, has_header, read_raw_header
from shoal.errors import CheckpointError, TensorError

_NUMBERED = re.compile(rf"(.+)-(\d{{5}})-of-(\d{{5}}){re.escape(SHARD_SUFFIX)}", re.ASCII)


@dataclass(frozen=True)
class Disk:
    """`headers` by the shard's name in the index, else by file name; `absent` shards have not arrived.

    `strays` are shard files the index does not name. `notes` say what was not counted. `are_prefixes` means
    that the files are only the beginnings of the shards.
    """

    index: ShardIndex | None
    headers: Mapping[str, RawHeader]
    absent: tuple[str, ...]
    strays: tuple[str, ...]
    notes: tuple[str, ...]
    are_prefixes: bool

    @cached_property
    def shard_of(self) -> Mapping[str, str]:
        """Every tensor that is there, to the shard it is in, arrived or not."""
        if self.index:
            return self.index.weight_map
        return {name: shard for shard, header in self.headers.items() for name in header.tensors}

    @cached_property
    def families(self) -> Mapping[Family, frozenset[str]]:
        """The names that are there, by family."""
        families: dict[Family, set[str]] = {family: set() for family in Family}
        for name in self.shard_of:
            families[family_of(name)].add(name)
        return {family: frozenset(names) for family, names in families.items()}

    def entry(self, name: str) -> TensorEntry | None:
        """What the header of the tensor's shard says of it; None when there is no such header or entry."""
        header = self.headers.get(self.shard_of.get(name, ""))
        return header.tensors.get(name) if header else None

    def awaited(self, name: str) -> tuple[str, ...]:
        """The shards in which the tensor may still arrive; none when it is here or nowhere."""
        if not self.index:
            return () if name in self.shard_of else self.absent
        shard = self.shard_of.get(name)
        return (shard,) if shard is not None and shard not in self.headers else ()

    def readable(self) -> Iterator[TensorEntry]:
        """The tensors whose header has arrived and, unless these are prefixes, whose bytes have too."""
        for name in self.shard_of:
            entry = self.entry(name)
            if entry and (self.are_prefixes or entry.end <= self.headers[self.shard_of[name]].file_nbytes):
                yield entry


def read_disk(
    directory: Path, *, also: Sequence[Path] = (), index_file: Path | None = None, are_prefixes: bool = False
) -> Disk:
    """What `directory` holds, by its own index or `index_file`; whole shards may be in `also` too.

    Raises CheckpointError and its subclasses.
    """
    index = read_index(index_file) if index_file else find_index(directory)
    for root in also:
        check_directory(root)
    with without_garbage_collection():
        if are_prefixes:
            headers, strays, notes = _prefixes(directory, index)
        else:
            headers, strays, notes = *_shards((directory, *also), index), ()
    if not headers and index is None:
        kind = "file that begins like a shard" if are_prefixes else f"`*{SHARD_SUFFIX}` file"
        raise CheckpointError(f"{quoted(directory)} holds neither an index nor any {kind}")
    if index is None:
        _check_unique(headers)
    return Disk(index, headers, _absent(index, headers), strays, notes, are_prefixes)


def _shards(roots: Sequence[Path], index: ShardIndex | None) -> tuple[dict[str, RawHeader], tuple[str, ...]]:
    names = {path.name for root in roots for path in _listed(root) if path.name.endswith(SHARD_SUFFIX)}
    named = index.file_names if index else sorted(names)
    headers = {name: read_raw_header(path) for name in named if (path := locate_shard(roots, name))}
    return headers, tuple(sorted(names.difference(named)))


def _prefixes(
    directory: Path, index: ShardIndex | None
) -> tuple[dict[str, RawHeader], tuple[str, ...], tuple[str, ...]]:
    files = [path for path in _listed(directory) if path.name.endswith(SHARD_SUFFIX) or _begins_like_a_shard(path)]
    first: dict[bytes, RawHeader] = {}
    headers: dict[str, RawHeader] = {}
    notes, strays = [], []
    for path in files:
        header = read_raw_header(path)
        same = first.setdefault(header.digest, header)
        if same is not header:
            notes.append(f"{quoted(path.name)} has the header of {quoted(same.name)}: counted once")
            continue
        shard = _shard_name(header, index)
        if shard is None:
            strays.append(path.name)
        elif shard in headers:
            both = f"{quoted(headers[shard].path)} and {quoted(path)}"
            raise CheckpointError(f"{both} are both {quoted(shard)}, with different headers; expected it once")
        else:
            headers[shard] = header
    return headers, tuple(strays), tuple(notes)


def _shard_name(header: RawHeader, index: ShardIndex | None) -> str | None:
    """A prefix may have any name: its tensors say which shard of the index it is."""
    if index is None or header.name in index.file_names:
        return header.name
    return next((index.weight_map[name] for name in header.tensors if name in index.weight_map), None)


def _begins_like_a_shard(path: Path) -> bool:
    return path.is_file() and has_header(path)


def _listed(directory: Path) -> list[Path]:
    try:
        return sorted(directory.iterdir())
    except OSError as problem:
        raise CheckpointError(f"{quoted(directory)} cannot be listed: {problem.strerror}") from problem


def _absent(index: ShardIndex | None, headers: Mapping[str, RawHeader]) -> tuple[str, ...]:
    """Without an index, files that are all numbered `k-of-n` still tell which of them are not there."""
    if index:
        return tuple(name for name in index.file_names if name not in headers)
    numbered = [_NUMBERED.fullmatch(name) for name in headers]
    series = {(match[1], match[3]) if match else None for match in numbered}
    if len(series) != 1 or (only := series.pop()) is None:
        return ()
    stem, total = only
    names = (f"{stem}-{number:05}-of-{total}{SHARD_SUFFIX}" for number in range(1, int(total) + 1))
    return tuple(name for name in names if name not in headers)


def _check_unique(headers: Mapping[str, RawHeader]) -> None:
    seen: dict[str, RawHeader] = {}
    for header in headers.values():
        for name in header.tensors:
            if name in seen:
                both = f"{quoted(seen[name].path)} and in {quoted(header.path)}"
                raise TensorError(f"{quoted(name)} is in {both}, expected once where no index assigns it")
            seen[name] = header
