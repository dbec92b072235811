"""What a checkpoint directory holds: its shards, and the tensors in them (spec §2). Standard library only."""

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from shoal.checkpoint.header import ShardHeader, TensorEntry
from shoal.checkpoint.index import INDEX_NAME, SHARD_SUFFIX, ShardIndex, read_index
from shoal.checkpoint.json_object import quoted
from shoal.errors import CheckpointError, ShardIndexError, TensorError

WEIGHT, SCALE = ".weight", ".scale"
# Codes that mean nothing without their scales, and the dtype of those (spec §2.1, §3).
SCALED_DTYPES = frozenset({"F8_E4M3", "I8"})
SCALE_DTYPE = "F8_E8M0"
SHOWN_NAMES = 5


def find_index(root: Path) -> ShardIndex | None:
    """The index of the directory `root`, None where it has none. Raises CheckpointError, ShardIndexError."""
    check_directory(root)
    # A link that points nowhere is an index that cannot be read, not the absence of one.
    return read_index(root / INDEX_NAME) if os.path.lexists(root / INDEX_NAME) else None


def check_directory(path: Path) -> None:
    """Raises CheckpointError unless `path` is a directory."""
    if not path.is_dir():
        found = "is not a directory" if path.exists() else "does not exist"
        raise CheckpointError(f"{quoted(path)} {found}, expected a checkpoint directory")


def find_shards(roots: Sequence[Path], index: ShardIndex | None) -> dict[str, Path]:
    """The files to open, by name: those the index names, else every shard of the directories `roots`, sorted.

    Each is of the first directory that has it. Raises CheckpointError when there is none, when one is absent, naming
    the absent ones and where they were looked for, and as `locate_shard` does.
    """
    names = index.file_names if index else _listed_shards(roots)
    places = {name: locate_shard(roots, name) for name in names}
    absent = [name for name, place in places.items() if place is None]
    if absent:
        listed = ", ".join(quoted(name) for name in absent[:SHOWN_NAMES])
        more = f" and {len(absent) - SHOWN_NAMES} more" if len(absent) > SHOWN_NAMES else ""
        lack = "lacks" if len(roots) == 1 else "lack"
        raise CheckpointError(
            f"{_listed(roots)} {lack} {len(absent)} of {len(names)} shards: {listed}{more}",
            hint="the download is incomplete, or a link points nowhere",
        )
    return {name: place for name, place in places.items() if place is not None}


def locate_shard(roots: Sequence[Path], name: str) -> Path | None:
    """The file `name` of the first directory that has it, None where none has.

    Raises CheckpointError when two have it with different sizes: one of them is not the shard.
    """
    copies = [(path, nbytes) for path in (root / name for root in roots) if (nbytes := _file_nbytes(path)) is not None]
    for path, nbytes in copies[1:]:
        first, expected = copies[0]
        if nbytes != expected:
            raise CheckpointError(
                f"{quoted(first)} has {expected:,} bytes and {quoted(path)} has {nbytes:,}, expected one or equal ones",
                hint="one of them is incomplete or belongs to another checkpoint: move it away",
            )
    return copies[0][0] if copies else None


def _file_nbytes(path: Path) -> int | None:
    """None where there is no such file; a link that points nowhere is none."""
    try:
        return path.stat().st_size
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as problem:
        raise CheckpointError(f"{quoted(path)} cannot be looked at: {problem.strerror}") from problem


def _listed_shards(roots: Sequence[Path]) -> tuple[str, ...]:
    names = set[str]()
    for root in roots:
        try:
            names.update(path.name for path in root.iterdir() if path.name.endswith(SHARD_SUFFIX))
        except OSError as problem:
            raise CheckpointError(f"{quoted(root)} cannot be listed: {problem.strerror}") from problem
    if not names:
        hold = "holds" if len(roots) == 1 else "hold"
        raise CheckpointError(f"{_listed(roots)} {hold} neither `{INDEX_NAME}` nor any `*{SHARD_SUFFIX}` file")
    return tuple(sorted(names))


def _listed(roots: Sequence[Path]) -> str:
    return " and ".join(quoted(root) for root in roots)


def locate_tensors(index: ShardIndex | None, headers: Mapping[str, ShardHeader]) -> dict[str, TensorEntry]:
    """Every tensor by name, in the order of the index, else of the headers; `headers` goes by file name.

    With an index, tensors it does not name are left out. Raises ShardIndexError for a tensor that is not in
    the shard the index assigns it to, TensorError for one that two shards hold and no index assigns.
    """
    if index is None:
        return _merged(headers.values())
    entries: dict[str, TensorEntry] = {}
    for name, file_name in index.weight_map.items():
        entry = headers[file_name].tensors.get(name)
        if entry is None:
            raise ShardIndexError(
                f"{quoted(name)} is not in {quoted(file_name)}, to which {quoted(index.path)} assigns it"
            )
        entries[name] = entry
    return entries


def _merged(headers: Iterable[ShardHeader]) -> dict[str, TensorEntry]:
    entries: dict[str, TensorEntry] = {}
    for header in headers:
        for name, entry in header.tensors.items():
            if name in entries:
                both = f"{quoted(entries[name].path)} and in {quoted(header.path)}"
                raise TensorError(f"{quoted(name)} is in {both}, expected once")
            entries[name] = entry
    return entries


def check_scales(entries: Mapping[str, TensorEntry]) -> None:
    """Raises TensorError unless packed `.weight`s and `.scale`s come in pairs and every scale is E8M0."""
    for name, entry in entries.items():
        if name.endswith(WEIGHT) and entry.dtype in SCALED_DTYPES:
            _check_partner(entry, name.removesuffix(WEIGHT) + SCALE, entries)
        elif name.endswith(SCALE):
            _check_partner(entry, name.removesuffix(SCALE) + WEIGHT, entries)
            if entry.dtype != SCALE_DTYPE:
                found = f"{quoted(name)} is {entry.dtype} in {quoted(entry.path)}"
                raise TensorError(f"{found}, expected {SCALE_DTYPE}")


def _check_partner(entry: TensorEntry, partner: str, entries: Mapping[str, TensorEntry]) -> None:
    if partner not in entries:
        found = f"{quoted(entry.name)} ({entry.dtype}) is in {quoted(entry.path)}"
        raise TensorError(f"{found}, but {quoted(partner)}, which belongs to it, is not in the checkpoint")
