"""Sizes as a person writes and reads them. GiB for sizes, GB/s for bandwidth."""

import re

from shoal.errors import OptionError

KIB, MIB, GIB, TIB = 1 << 10, 1 << 20, 1 << 30, 1 << 40

_UNITS = {
    "": 1,
    **dict.fromkeys(("k", "kib"), KIB),
    **dict.fromkeys(("m", "mib"), MIB),
    **dict.fromkeys(("g", "gib"), GIB),
    **dict.fromkeys(("t", "tib"), TIB),
    **{"b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12},
}
_LARGEST_DIGITS = 30


def parse_size(text: str) -> int:
    """Bytes of `24GiB`, `64G` (binary, as GiB), `512MB` (decimal), `1.5T` or plain bytes; spaces and case are free.

    `OptionError` for anything else, and for less than one byte.
    """
    match = re.fullmatch(r"(\d+)(?:\.(\d+))?([a-z]*)", "".join(text.split()).lower(), re.ASCII)
    if match is None or match[3] not in _UNITS or len(text) > _LARGEST_DIGITS:
        raise OptionError(f"{_shown(text)} is not a size, wanted for example `24GiB`, `64G`, `512MB` or bytes")
    whole, fraction = match[1], match[2] or ""
    nbytes = int(whole + fraction) * _UNITS[match[3]] // int(10 ** len(fraction))
    if nbytes < 1:
        raise OptionError(f"{_shown(text)} is {nbytes} bytes, wanted at least 1")
    return nbytes


def gib(nbytes: float) -> str:
    """GiB to two decimals; MiB, or bytes, of what would show as next to nothing."""
    if nbytes == 0:
        return "0 GiB"
    if nbytes >= GIB / 10:
        return f"{nbytes / GIB:,.2f} GiB"
    return f"{nbytes / MIB:,.2f} MiB" if nbytes >= MIB / 10 else f"{nbytes:,.0f} B"


def giga(amount: float) -> str:
    """10^9 bytes or operations, what is divided by a rate: two decimals, or two digits of what is small."""
    billions = amount / 1e9
    return f"{billions:,.2f}" if billions == 0 or billions >= 0.1 else f"{billions:.2g}"


def _shown(text: str) -> str:
    printable = text if text.isprintable() else ascii(text)
    return f"`{printable[:_LARGEST_DIGITS]}`"
