"""What a checkpoint directory holds: its shards, and the tensors in them (spec §2). Standard library only."""

import os
from collections.abc import Iterable, Mapping
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
    if not root.is_dir():
        found = "is not a directory" if root.exists() else "does not exist"
        raise CheckpointError(f"{quoted(root)} {found}, expected a checkpoint directory")
    # A link that points nowhere is an index that cannot be read, not the absence of one.
    return read_index(root / INDEX_NAME) if os.path.lexists(root / INDEX_NAME) else None


def shard_names(root: Path, index: ShardIndex | None) -> tuple[str, ...]:
    """The files of `root` to open, all of them there: those the index names, else every shard, sorted.

    Raises CheckpointError when there is none or when one is absent, naming the absent ones.
    """
    names = index.file_names if index else _listed_shards(root)
    absent = [name for name in names if not (root / name).exists()]
    if absent:
        listed = ", ".join(quoted(name) for name in absent[:SHOWN_NAMES])
        more = f" and {len(absent) - SHOWN_NAMES} more" if len(absent) > SHOWN_NAMES else ""
        raise CheckpointError(
            f"{quoted(root)} lacks {len(absent)} of {len(names)} shards: {listed}{more}",
            hint="the download is incomplete, or a link points nowhere",
        )
    return names


def _listed_shards(root: Path) -> tuple[str, ...]:
    try:
        names = tuple(sorted(path.name for path in root.iterdir() if path.name.endswith(SHARD_SUFFIX)))
    except OSError as problem:
        raise CheckpointError(f"{quoted(root)} cannot be listed: {problem.strerror}") from problem
    if not names:
        raise CheckpointError(f"{quoted(root)} holds neither `{INDEX_NAME}` nor any `*{SHARD_SUFFIX}` file")
    return names


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
