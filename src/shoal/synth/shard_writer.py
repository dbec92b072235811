"""Writes a shard: header, then each tensor's payload, or a hole of its size."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from shoal.checkpoint.inventory import TensorSpec
from shoal.checkpoint.shard_layout import ShardLayout
from shoal.synth.replacement import replacing, writing

Progress = Callable[[int], None]
"""Takes the bytes just written."""


class TensorBytes(Protocol):
    """Where the bytes of tensors come from."""

    def portions(self, spec: TensorSpec) -> Iterator[memoryview]:
        """The tensor's bytes as stored, row-major, in portions."""
        ...


@dataclass(frozen=True)
class ShardWriter:
    """Writes into `directory`. `payload` None leaves holes, which read as zeros and take no space."""

    directory: Path
    payload: TensorBytes | None

    def nbytes_to_write(self, shard: ShardLayout, header: bytes) -> int:
        """Bytes the shard takes on the disk."""
        return len(header) + (shard.payload_nbytes if self.payload else 0)

    def is_complete(self, shard: ShardLayout, header: bytes) -> bool:
        """Whether the file is there, of the right size and with this header: no unfinished one gets the name.

        Raises `OptionError` when it cannot be read.
        """
        path = self.directory / shard.file_name
        with writing(path):
            if not path.is_file() or path.stat().st_size != len(header) + shard.payload_nbytes:
                return False
            with path.open("rb") as file:
                return file.read(len(header)) == header

    def write(self, shard: ShardLayout, header: bytes, progress: Progress) -> None:
        """Put the shard in place. Raises `OptionError` where the system refuses, and then leaves nothing."""
        with replacing(self.directory / shard.file_name) as file:
            file.write(header)
            progress(len(header))
            if self.payload is None:
                file.flush()
                os.ftruncate(file.fileno(), len(header) + shard.payload_nbytes)
                return
            for tensor in shard.tensors:
                for portion in self.payload.portions(tensor.spec):
                    file.write(portion)
                    progress(len(portion))
