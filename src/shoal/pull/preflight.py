"""What can be known before the first byte: what is here, what is missing, whether it fits. Standard library only."""

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from shoal.checkpoint.json_object import quoted
from shoal.errors import OptionError
from shoal.pull.part_file import writing
from shoal.pull.receipts import Receipts
from shoal.pull.remote_file import RemoteFile, hash_file

if TYPE_CHECKING:
    from shoal.pull.repository import Repository

GIB = 2**30
HUB_PACKAGE = "huggingface_hub"
PACKAGES_TO_RUN = ("torch", "numpy", "tokenizers", "safetensors", "jaxtyping", "deepseek_recipe")
_SHOWN_NAMES = 5


def check_hub_package() -> None:
    """Raises OptionError where the package that speaks to the hub is not installed."""
    if find_spec(HUB_PACKAGE) is None:
        raise OptionError(f"found no package {quoted(HUB_PACKAGE)}", hint="pip install huggingface-hub")


def absent_packages() -> tuple[str, ...]:
    """What running the model will need and is not installed here."""
    return tuple(name for name in PACKAGES_TO_RUN if find_spec(name) is None)


@dataclass(frozen=True)
class Plan:
    """What a pull will do. `whole` files are here and right; `replaced` ones are here and something else.

    `part_nbytes` is what has arrived of the files that are not whole, by path; `free_nbytes` what the disk has left.
    """

    out: Path
    repository: "Repository"
    selected: tuple[RemoteFile, ...]
    whole: tuple[RemoteFile, ...]
    replaced: tuple[RemoteFile, ...]
    part_nbytes: dict[str, int]
    free_nbytes: int

    @property
    def missing(self) -> tuple[RemoteFile, ...]:
        """The files to fetch."""
        whole = {file.path for file in self.whole}
        return tuple(file for file in self.selected if file.path not in whole)

    @property
    def nbytes(self) -> int:
        """Bytes of all that was selected."""
        return sum(file.nbytes for file in self.selected)

    @property
    def nbytes_here(self) -> int:
        """Bytes of it that need not be fetched."""
        return sum(file.nbytes for file in self.whole) + sum(self.part_nbytes.values())

    @property
    def nbytes_to_fetch(self) -> int:
        """Bytes of it that the disk must still take."""
        return self.nbytes - self.nbytes_here

    def check_space(self) -> None:
        """Raises OptionError when the disk cannot take it all."""
        lacking = self.nbytes_to_fetch - self.free_nbytes
        if lacking > 0:
            raise OptionError(
                f"{quoted(self.out)} has {in_gib(self.free_nbytes)} free, expected {in_gib(self.nbytes_to_fetch)} "
                f"for what is missing of {quoted(self.repository.name)}",
                hint=f"free {in_gib(lacking)}, choose another disk, or fetch a part of the model with `--only`",
            )

    def lines(self) -> Iterator[str]:
        """What a person reads before it begins."""
        shards = [file for file in self.selected if file.is_shard]
        yield f"{self.repository.name} at {self.repository.commit}, into {self.out}"
        files = f"{len(shards)} shards and {len(self.selected) - len(shards)} other files"
        yield f"  wanted   {in_gib(self.nbytes)}: {files} of the {len(self.repository.files)} there are"
        parts = f", {len(self.part_nbytes)} begun" if self.part_nbytes else ""
        yield f"  here     {in_gib(self.nbytes_here)}: {len(self.whole)} files checked{parts}"
        free = f"the disk has {in_gib(self.free_nbytes)} free"
        yield f"  to fetch {in_gib(self.nbytes_to_fetch)}: {len(self.missing)} files; {free}"
        if self.replaced:
            names = [quoted(file.path) for file in self.replaced]
            more = f" and {len(names) - _SHOWN_NAMES} more" if len(names) > _SHOWN_NAMES else ""
            yield f"  differ   {', '.join(names[:_SHOWN_NAMES])}{more}: replaced once the right bytes are here"


def plan(
    out: Path,
    repository: "Repository",
    selected: tuple[RemoteFile, ...],
    receipts: Receipts,
    progress: Callable[[int], None],
) -> Plan:
    """Compares what `out` holds with what is wanted; nothing is written.

    Files without a receipt are read and hashed, and get one; `progress` takes the bytes as they are read. Raises
    OptionError when `out` or a file in it is of another kind.
    """
    whole, replaced, part_nbytes = [], [], {}
    for file in selected:
        final = file.final_path(out)
        if final.exists() and _is_right(file, out, receipts, progress):
            whole.append(file)
            continue
        if final.exists():
            replaced.append(file)
        part = file.part_path(out, repository.commit)
        if part.is_file() and (nbytes := part.stat().st_size) <= file.nbytes:
            part_nbytes[file.path] = nbytes
    return Plan(out, repository, selected, tuple(whole), tuple(replaced), part_nbytes, _free_nbytes(out))


def in_gib(nbytes: int) -> str:
    """A size to read: GiB, and MiB below a hundredth of one."""
    return f"{nbytes / GIB:,.2f} GiB" if nbytes >= GIB / 100 or nbytes == 0 else f"{nbytes / 2**20:,.3f} MiB"


def _is_right(file: RemoteFile, out: Path, receipts: Receipts, progress: Callable[[int], None]) -> bool:
    final = file.final_path(out)
    if not final.is_file():
        raise OptionError(f"{quoted(final)} is no regular file, expected one or nothing")
    if final.stat().st_size != file.nbytes:
        return False
    if receipts.covers(file) or file.digest is None:
        return True
    hasher = file.digest.hasher(file.nbytes)
    with writing(final), final.open("rb") as stream:
        hash_file(stream, hasher, progress)
    if hasher.hexdigest() != file.digest.hex:
        return False
    receipts.add(file)
    return True


def _free_nbytes(out: Path) -> int:
    place = out.absolute()
    if place.exists() and not place.is_dir():
        raise OptionError(f"{quoted(out)} is no directory, expected one or nothing")
    while not place.exists():
        place = place.parent
    return shutil.disk_usage(place).free
