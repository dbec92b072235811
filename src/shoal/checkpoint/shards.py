"""A checkpoint directory: its shards mapped read-only, its tensors found by name (spec §2).

Shards are mapped and read by Shoal itself, so a table larger than the memory costs only the rows asked for.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import MappingProxyType, TracebackType

import numpy as np
import numpy.typing as npt
import torch

from shoal.checkpoint.direct_file import DirectFile, Notice
from shoal.checkpoint.directory import check_directory, check_scales, find_index, find_shards, locate_tensors
from shoal.checkpoint.garbage_collection import without_garbage_collection
from shoal.checkpoint.header import TensorEntry
from shoal.checkpoint.json_object import quoted
from shoal.checkpoint.shard_file import ShardFile
from shoal.errors import TensorError

# Packed codes come as the bytes they are; `formats` decodes them (spec §3).
TORCH_DTYPES: Mapping[str, torch.dtype] = MappingProxyType(
    {
        **dict.fromkeys(("F8_E4M3", "F8_E8M0", "I8", "U8"), torch.uint8),
        "BF16": torch.bfloat16,
        "F32": torch.float32,
    }
)


class Checkpoint:
    """An open checkpoint. Every access first makes sure that the shard is still the file that was opened.

    Accesses raise TensorError for an unknown name, a dtype Shoal does not use or a row out of range,
    FileChangedError when a shard vanished, shrank or was written to, and ValueError after `close`.
    Reads from several threads at once are fine.
    """

    def __init__(self, directory: Path, entries: Mapping[str, TensorEntry], files: Mapping[Path, ShardFile]) -> None:
        self.directory = directory
        self._entries = entries
        self._files = files

    @classmethod
    def open(cls, directory: str | os.PathLike[str], also: Sequence[str | os.PathLike[str]] = ()) -> "Checkpoint":
        """Opens the shards named by the directory's index or, without one, every `*.safetensors` in it.

        Shards that are not in it may be in the directories `also`; each is taken from the first that has it. All
        headers are checked, and that packed weights have their scales. Raises CheckpointError or, as they apply, its
        subclasses HeaderError, ShardIndexError and TensorError.
        """
        # Absolute, so that a later chdir is not taken for a vanished file.
        roots = [Path(root).absolute() for root in (directory, *also)]
        for root in roots:
            check_directory(root)
        index = find_index(roots[0])
        with ExitStack() as stack, without_garbage_collection():
            places = find_shards(roots, index)
            files = {name: stack.enter_context(ShardFile(place)) for name, place in places.items()}
            entries = locate_tensors(index, {name: file.header for name, file in files.items()})
            check_scales(entries)
            stack.pop_all()
        return cls(roots[0], MappingProxyType(entries), {file.path: file for file in files.values()})

    def __enter__(self) -> "Checkpoint":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes every shard; views taken before stay valid."""
        for file in self._files.values():
            file.close()

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def names(self) -> tuple[str, ...]:
        """All tensor names, in the order of the index, else of the files and their headers."""
        return tuple(self._entries)

    def entry(self, name: str) -> TensorEntry:
        """Dtype, shape and place of a tensor as its header says; looks at no file."""
        try:
            return self._entries[name]
        except KeyError:
            raise TensorError(f"{quoted(name)} is not in the checkpoint {quoted(self.directory)}") from None

    def nbytes(self, name: str) -> int:
        return self.entry(name).nbytes

    def cached_share(self, names: Iterable[str]) -> float:
        """How much of the tensors the page cache holds, 0 to 1."""
        entries = [self.entry(name) for name in names]
        total = sum(entry.nbytes for entry in entries)
        return sum(self._files[entry.path].cached_nbytes(entry) for entry in entries) / total if total else 0.0

    def check(self, name: str) -> None:
        """Raises FileChangedError unless the tensor's shard is still the file that was opened."""
        self._files[self.entry(name).path].check()

    def reopen(self, name: str, flags: int = 0) -> int:
        """A descriptor of its own onto the tensor's shard, as of `ShardFile.reopen`."""
        return self._files[self.entry(name).path].reopen(flags)

    def open_direct(self, name: str, notice: Notice, *, through_page_cache: bool = False) -> DirectFile:
        """The tensor's shard, opened once more to read whole pages of it; whoever asks closes it."""
        return DirectFile(self._files[self.entry(name).path], notice, through_page_cache=through_page_cache)

    def device(self, name: str) -> int:
        """The number of the file system that the tensor is on: reads of different ones do not wait for each other."""
        return self._files[self.entry(name).path].device

    def folders(self) -> tuple[Path, ...]:
        """Where the shards really are, links followed: each directory once."""
        return tuple(dict.fromkeys(path.resolve().parent for path in self._files))

    def tensor(self, name: str) -> torch.Tensor:
        """A view of the mapped file in the tensor's shape; a copy where the file misaligns its items.

        F8_E4M3, F8_E8M0, I8 and U8 come as uint8 codes, BF16 as bfloat16, F32 as float32. Writing to a view
        ends the process, and so does touching one after its file was cut short, which no check can prevent:
        hold a view for long only where `read` costs too much memory, and call `check` before each use.
        """
        entry = self.entry(name)
        return shaped(self._files[entry.path].view(entry), entry)

    def read(self, name: str) -> torch.Tensor:
        """A copy of the tensor in memory of its own, of the dtypes of `tensor`."""
        entry = self.entry(name)
        return shaped(self._read(entry, [(entry.start, entry.end)], entry.nbytes), entry)

    def read_rows(self, name: str, row_ids: npt.NDArray[np.int64] | torch.Tensor) -> torch.Tensor:
        """Copies of the rows `row_ids` (int64 [n], any order, repeats allowed): [n, *shape[1:]]."""
        entry = self.entry(name)
        dtype = _torch_dtype(entry)
        rows = _checked_rows(entry, row_ids)
        row_nbytes = entry.nbytes // entry.shape[0] if rows else 0
        starts = [entry.start + row * row_nbytes for row in rows]
        raw = self._read(entry, [(start, start + row_nbytes) for start in starts], len(rows) * row_nbytes)
        return raw.view(dtype).view(len(rows), *entry.shape[1:])

    def read_bytes(self, name: str) -> bytes:
        """The tensor's bytes as they are in the file, of any dtype."""
        entry = self.entry(name)
        return self._read(entry, [(entry.start, entry.end)], entry.nbytes).numpy().tobytes()

    def _read(self, entry: TensorEntry, spans: list[tuple[int, int]], nbytes: int) -> torch.Tensor:
        return self._files[entry.path].read(spans, nbytes)


def shaped(raw: torch.Tensor, entry: TensorEntry) -> torch.Tensor:
    """The bytes `raw`, uint8 [nbytes], in the tensor's dtype and shape; a copy where they misalign its items."""
    dtype = _torch_dtype(entry)
    # The offset too, which torch looks at even where there is no byte.
    if raw.data_ptr() % dtype.itemsize or raw.storage_offset() % dtype.itemsize:
        raw = raw.clone()
    return raw.view(dtype).view(entry.shape)


def _torch_dtype(entry: TensorEntry) -> torch.dtype:
    if entry.dtype not in TORCH_DTYPES:
        found = f"{quoted(entry.name)} is {entry.dtype} in {quoted(entry.path)}"
        raise TensorError(f"{found}, expected one of {', '.join(TORCH_DTYPES)}")
    return TORCH_DTYPES[entry.dtype]


def _checked_rows(entry: TensorEntry, row_ids: npt.NDArray[np.int64] | torch.Tensor) -> list[int]:
    """The ids as Python integers, whose products with a row's size cannot wrap."""
    assert row_ids.ndim == 1 and str(row_ids.dtype) in ("int64", "torch.int64"), (row_ids.ndim, row_ids.dtype)
    if not entry.shape:
        raise TensorError(f"{quoted(entry.name)} of {quoted(entry.path)} is a scalar, expected rows")
    rows: list[int] = row_ids.tolist()
    for row in rows:
        if not 0 <= row < entry.shape[0]:
            found = f"row {row} of {quoted(entry.name)} in {quoted(entry.path)} does not exist"
            raise TensorError(f"{found}, expected one from 0 to {entry.shape[0] - 1}")
    return rows
