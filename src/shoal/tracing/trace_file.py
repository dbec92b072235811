"""A trace on disk: a safetensors file, written whole or not at all, read tensor by tensor."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType

import torch
from torch import Tensor

from shoal.checkpoint.json_object import quoted
from shoal.checkpoint.shard_file import ShardFile
from shoal.errors import OptionError, TensorError

TORCH_DTYPES = {
    "BOOL": torch.bool,
    "U8": torch.uint8,
    "I8": torch.int8,
    "I16": torch.int16,
    "I32": torch.int32,
    "I64": torch.int64,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "F32": torch.float32,
    "F64": torch.float64,
}


class TraceFile(Mapping[str, Tensor]):
    """A trace or a golden file, open until `close`. Nothing in it is trusted.

    Raises HeaderError for a file that is no safetensors file, TensorError for a dtype no trace has.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = ShardFile(path.absolute())
        self._entries = self._file.header.tensors
        self.metadata = self._file.header.metadata

    def __enter__(self) -> "TraceFile":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def __getitem__(self, name: str) -> Tensor:
        entry = self._entries[name]
        if entry.dtype not in TORCH_DTYPES:
            found = f"{quoted(name)} is {entry.dtype} in {quoted(self.path)}"
            raise TensorError(f"{found}, expected one of {', '.join(TORCH_DTYPES)}")
        raw = self._file.read([(entry.start, entry.end)], entry.nbytes)
        # A byte that is neither 0 nor 1 is no boolean for torch.
        value = raw.ne(0) if entry.dtype == "BOOL" else raw.view(TORCH_DTYPES[entry.dtype])
        return value.view(entry.shape)

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)


def check_writable(path: Path) -> None:
    """OptionError when `write_trace` to `path` cannot succeed; better known before the run than after."""
    if path.is_dir():
        raise OptionError(f"cannot write {quoted(path)}: it is a directory, expected a file")
    if not path.parent.is_dir():
        raise OptionError(f"cannot write {quoted(path)}: there is no directory {quoted(path.parent)}")
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise OptionError(f"cannot write {quoted(path)}: no permission to write into {quoted(path.parent)}")


def write_trace(path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> None:
    """Write `tensors` to `path`, whole or not at all; OptionError where it cannot be written.

    `metadata` says what ran: by convention `shoal_version`, `arithmetic`, `chunks`, `checkpoint`.
    """
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    check_writable(path)
    temporary = path.with_name(f".{path.name[:200]}.{os.getpid()}.part")
    try:
        save_file(dict(tensors), temporary, dict(metadata))
        temporary.replace(path)
    except (OSError, SafetensorError) as problem:
        raise OptionError(f"cannot write {quoted(path)}: {problem}") from problem
    finally:
        temporary.unlink(missing_ok=True)
