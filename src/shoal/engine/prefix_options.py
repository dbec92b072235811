"""Where prefixes are kept and how much of them."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from shoal.checkpoint.direct_file import Notice
from shoal.config.schema import ModelConfig
from shoal.engine.prefix_directory import PrefixDirectory
from shoal.engine.prefix_disk import PrefixDisk
from shoal.errors import OptionError
from shoal.plan.size import gib

FOLDER = "prefixes"
DEFAULT_DISK = 32 << 30
MEMORY_SHARE = 32


@dataclass(frozen=True)
class PrefixOptions:
    """`memory` bytes (`--prefix-memory`), 0 keeps nothing, None takes a 32nd of all there is; a `directory`
    (`--cache-dir`) that keeps it over a restart in `disk` bytes (`--cache-disk`).

    Raises OptionError for what cannot be.
    """

    memory: int | None = 0
    directory: Path | None = None
    disk: int | None = None

    def __post_init__(self) -> None:
        if self.memory is not None and self.memory < 0:
            raise OptionError(f"`--prefix-memory` is {self.memory}, expected 0 or more bytes")
        if self.disk is not None and self.disk < 1:
            raise OptionError(f"`--cache-disk` is {self.disk}, expected 1 or more bytes")
        if self.disk is not None and self.directory is None:
            raise OptionError("`--cache-disk` limits a directory, expected `--cache-dir` with it")
        if self.directory is not None and self.memory == 0:
            raise OptionError("`--prefix-memory` is 0, expected more with `--cache-dir`: files are written from memory")

    def nbytes(self, memory: int) -> int:
        """What the cache takes of `memory` bytes for everything."""
        return memory // MEMORY_SHARE if self.memory is None else self.memory

    def open_disk(self, key: Callable[[], str], config: ModelConfig, notice: Notice | None = None) -> PrefixDisk | None:
        """None without a directory; `key` is `prefix_key` of what is loaded, asked only with one.

        Raises OptionError for a directory that cannot be used.
        """
        if self.directory is None:
            return None
        directory = PrefixDirectory(self.directory / FOLDER, self.disk or DEFAULT_DISK, notice)
        return PrefixDisk(directory, key(), config, notice)

    def line(self, nbytes: int) -> str:
        """For a person: what is kept of prompts and replies, and where."""
        if not nbytes:
            return "prefix cache: none"
        kept = f"prefix cache: {gib(nbytes)}"
        if self.directory is None:
            return f"{kept}, forgotten at the end"
        return f"{kept}; {gib(self.disk or DEFAULT_DISK)} on the disk, in `{self.directory / FOLDER}`"
