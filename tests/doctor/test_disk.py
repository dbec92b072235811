from pathlib import Path
from typing import Any

import pytest

from shoal.doctor.disk import Disk, examine_disk, examine_space, read_disk
from shoal.doctor.finding import Level

GIB = 1 << 30
MOUNTS = """\
21 1 259:2 / / rw,relatime shared:1 - ext4 /dev/nvme0n1p2 rw
30 21 8:1 / /data rw - xfs /dev/sda1 rw
31 30 0:50 / /data/far rw - nfs4 server:/export rw
32 21 0:51 / /with\\040space rw - fuse.sshfs host: rw
33 21 0:52 / /data rw - tmpfs tmpfs rw
"""


@pytest.fixture
def disks(machine: Any) -> Any:
    """An NVMe disk with a partition, and a rotating one."""
    machine.put("proc/self/mountinfo", MOUNTS)
    machine.put("sys/devices/nvme0n1/queue/rotational", "0\n")
    machine.put("sys/devices/nvme0n1/nvme0n1p2/partition", "2\n")
    machine.put("sys/devices/sda/queue/rotational", "1\n")
    (machine.sys / "dev" / "block").mkdir(parents=True)
    (machine.sys / "dev" / "block" / "259:2").symlink_to(machine.sys / "devices" / "nvme0n1" / "nvme0n1p2")
    (machine.sys / "dev" / "block" / "8:1").symlink_to(machine.sys / "devices" / "sda")
    return machine


@pytest.mark.parametrize(
    ("path", "disk"),
    [
        ("/home/me", Disk("/", "ext4", "nvme0n1p2", False)),
        ("/database", Disk("/", "ext4", "nvme0n1p2", False)),
        ("/data/far/away", Disk("/data/far", "nfs4", None, None)),
        ("/with space/x", Disk("/with space", "fuse.sshfs", None, None)),
        ("/data", Disk("/data", "tmpfs", None, None)),  # mounted over the other
    ],
)
def test_the_longest_and_last_mount_above_a_path_is_its_disk(disks: Any, path: str, disk: Disk) -> None:
    assert read_disk(Path(path), disks.proc, disks.sys) == disk


def test_a_rotating_disk_says_so(disks: Any) -> None:
    disks.put("proc/self/mountinfo", "30 1 8:1 / / rw - xfs /dev/sda rw\n")
    assert read_disk(Path("/x"), disks.proc, disks.sys) == Disk("/", "xfs", "sda", True)


def test_a_kernel_that_says_nothing_leaves_it_unknown(machine: Any) -> None:
    machine.put("proc/self/mountinfo", "short line\n- - -\n")
    assert read_disk(Path("/x"), machine.proc, machine.sys) == Disk("/", "unknown", None, None)


@pytest.mark.parametrize(
    ("disk", "part"),
    [
        (Disk("/", "ext4", "nvme0n1", False), None),
        (Disk("/", "overlay", None, None), None),
        (Disk("/", "ext4", "vda", True), None),  # virtual: it always says so
        (Disk("/", "ext4", "sda", True), "it rotates"),
        (Disk("/m", "nfs4", None, None), "crosses the network"),
        (Disk("/m", "fuse.sshfs", None, None), "(FUSE)"),
        (Disk("/m", "fuseblk", "sda1", False), "(FUSE)"),
        (Disk("/m", "tmpfs", None, None), "this is memory"),
    ],
)
def test_what_is_slow_by_nature_is_a_warning(disk: Disk, part: str | None) -> None:
    finding = examine_disk(disk)
    assert (finding.level is Level.OK) == (part is None)
    assert (part or disk.file_system) in finding.text


@pytest.mark.parametrize(
    ("free", "missing", "level"),
    [(1, 0, Level.OK), (1, -5, Level.OK), (100 * GIB, 100 * GIB, Level.OK), (100 * GIB, 100 * GIB + 1, Level.PROBLEM)],
)
def test_what_is_missing_must_fit(free: int, missing: int, level: Level) -> None:
    assert examine_space(free, missing).level is level
