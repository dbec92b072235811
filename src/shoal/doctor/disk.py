"""The disk a checkpoint is on: its file system, the kind of device, and whether what is missing still fits."""

import os
from dataclasses import dataclass
from pathlib import Path

from shoal.doctor.finding import Finding, ok, problem, warning
from shoal.doctor.kernel_file import read_number, read_text

_GIB = 1 << 30
_NETWORK = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "ceph", "lustre", "glusterfs", "afs", "gpfs", "beegfs"}
)
_IN_MEMORY = frozenset({"tmpfs", "ramfs"})
_VIRTUAL = ("vd", "xvd")
"""Devices of virtual machines, which say that they rotate whatever is behind them."""
UNKNOWN = "unknown"


@dataclass(frozen=True)
class Disk:
    """`device` is the kernel's name, None where the file system has none; `rotates` None where it is not known."""

    mount_point: str
    file_system: str
    device: str | None
    rotates: bool | None


def read_disk(path: Path, proc: Path, sys: Path) -> Disk:
    """The disk under the absolute, resolved `path`: the longest mount point above it, the last one mounted there."""
    mount_point, file_system, number = "/", UNKNOWN, ""
    for line in (read_text(proc / "self" / "mountinfo") or "").splitlines():
        words, (kind, *_) = line.partition(" - ")[0].split(), (*line.partition(" - ")[2].split(), UNKNOWN)
        point = _unescaped(words[4]) if len(words) > 4 else ""
        if point and path.is_relative_to(point) and len(point) >= len(mount_point):
            mount_point, file_system, number = point, kind, words[2]
    device = _device(sys / "dev" / "block" / number) if number else None
    return Disk(mount_point, file_system, device.name if device else None, _rotates(device))


def _unescaped(text: str) -> str:
    """Spaces, tabs, newlines and backslashes of a mount point are octal."""
    for octal in ("040", "011", "012", "134"):
        text = text.replace(f"\\{octal}", chr(int(octal, 8)))
    return text


def _device(link: Path) -> Path | None:
    return Path(os.path.realpath(link)) if link.exists() else None


def _rotates(device: Path | None) -> bool | None:
    # A partition has no queue of its own; the disk is its parent.
    for folder in (device, device.parent) if device else ():
        found = read_number(folder / "queue" / "rotational")
        if found is not None:
            return found == 1
    return None


def examine_disk(disk: Disk) -> Finding:
    """A warning for what is slow by its nature or reads through another program, whatever a probe says."""
    text = f"{disk.file_system} at `{disk.mount_point}`" + (f" on `{disk.device}`" if disk.device else "")
    if (reason := why_slow(disk)) is not None:
        return warning("disk", f"{text}: {reason}", "copy the checkpoint to a local NVMe disk")
    return ok("disk", text)


def why_slow(disk: Disk) -> str | None:
    """What makes reads of it slow, or memory short; None where nothing does."""
    if disk.file_system.startswith("fuse"):
        return "every read passes through a program (FUSE)"
    if disk.file_system in _NETWORK:
        return "every read crosses the network"
    if disk.file_system in _IN_MEMORY:
        return "this is memory, which the model then lacks"
    if disk.rotates and not (disk.device or "").startswith(_VIRTUAL):
        return "it rotates, and experts are read from all over it"
    return None


def examine_space(free: int, missing: int) -> Finding:
    """A problem when the `missing` bytes of the checkpoint do not fit in the `free` ones of its file system."""
    text = f"{free / _GIB:,.2f} GiB free"
    if missing <= 0:
        return ok("space", f"{text}; the shards are there")
    needed = f"{text}, and {missing / _GIB:,.2f} GiB of the checkpoint are not there yet"
    return ok("space", needed) if missing <= free else problem("space", needed, "make room or choose another disk")
