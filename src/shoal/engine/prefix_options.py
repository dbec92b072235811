"""Where prefixes are kept and how much of them."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from shoal.checkpoint.direct_file import Notice
from shoal.config.schema import ModelConfig
from shoal.engine.prefix import PrefixCache
from shoal.engine.prefix_directory import PrefixDirectory
from shoal.engine.prefix_disk import PrefixDisk
from shoal.errors import OptionError
from shoal.model.cache import SequenceCache

FOLDER = "prefixes"
DEFAULT_DISK = 32 << 30


@dataclass(frozen=True)
class PrefixOptions:
    """`memory` bytes (`--prefix-memory`), 0 keeps nothing; a `directory` (`--cache-dir`) that keeps it over a restart
    in `disk` bytes (`--cache-disk`). Raises OptionError for what cannot be.
    """

    memory: int
    directory: Path | None = None
    disk: int | None = None

    def __post_init__(self) -> None:
        if self.memory < 0:
            raise OptionError(f"`--prefix-memory` is {self.memory}, expected 0 or more bytes")
        if self.disk is not None and self.disk < 1:
            raise OptionError(f"`--cache-disk` is {self.disk}, expected 1 or more bytes")
        if self.disk is not None and self.directory is None:
            raise OptionError("`--cache-disk` limits a directory, expected `--cache-dir` with it")
        if self.directory is not None and not self.memory:
            raise OptionError("`--prefix-memory` is 0, expected more with `--cache-dir`: files are written from memory")

    def open(
        self,
        new_cache: Callable[[], SequenceCache],
        key: Callable[[], str],
        config: ModelConfig,
        notice: Notice | None = None,
    ) -> PrefixCache | None:
        """The cache; None where nothing is kept. `key` is `prefix_key` of what is loaded, asked with a directory only.

        Raises OptionError for a directory that cannot be used.
        """
        if not self.memory:
            return None
        disk = None
        if self.directory is not None:
            directory = PrefixDirectory(self.directory / FOLDER, self.disk or DEFAULT_DISK, notice)
            disk = PrefixDisk(directory, key(), config, notice)
        return PrefixCache(new_cache, self.memory, disk, notice)
