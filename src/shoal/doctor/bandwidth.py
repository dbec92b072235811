"""What the probes of memory and disk mean for a token."""

from shoal.doctor.finding import Finding, ok, warning

SLOW_MEMORY, SLOW_DISK = 15e9, 1e9
BUSY = 0.9
"""Bytes a second below which something is wrong with the machine, and the processor share below which it is busy."""


def examine_memory_rate(per_second: float, processor_share: float, token_nbytes: float) -> Finding:
    """A token reads `token_nbytes`, so this is the speed that no program can pass on this machine."""
    text = f"{per_second / 1e9:.1f} GB/s; a token reads {token_nbytes / 1e9:.4g} GB"
    text += f", so at best {token_nbytes / per_second:.3g} s"
    if processor_share < BUSY:
        found = f"{text}, measured with {processor_share:.0%} of the processors' time"
        return warning("memory bandwidth", found, "another program is busy; end it and ask again")
    if per_second < SLOW_MEMORY:
        return warning(
            "memory bandwidth", text, "fill every memory channel, and see the memory's speed in the firmware"
        )
    return ok("memory bandwidth", text)


def examine_disk_rate(per_second: float, direct: bool, token_nbytes: float) -> Finding:
    """`token_nbytes` are those of a token's routed experts, all of which come from the disk when none is held."""
    how = "by O_DIRECT" if direct else "through the page cache"
    text = f"{per_second / 1e9:.2f} GB/s {how}; a token whose experts are all missed waits"
    text += f" {token_nbytes / per_second:.3g} s"
    if not direct:
        return warning(
            "disk bandwidth",
            f"{text}; this file system has no O_DIRECT",
            "use ext4, xfs or btrfs on a local disk",
        )
    if per_second < SLOW_DISK:
        return warning("disk bandwidth", text, "use an NVMe disk, or memory enough to hold the experts")
    return ok("disk bandwidth", text)
