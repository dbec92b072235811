"""The environment's say in which native kernels run, and the line for a machine that has only the portable ones."""

import os
import platform
import sys

VARIABLE = "SHOAL_ISA"
_LEAST = {"x86_64": "AVX2", "aarch64": "dot-product instructions"}


def forced_isa() -> str | None:
    """The instruction set that `SHOAL_ISA` names; None where it is unset or empty."""
    return os.environ.get(VARIABLE) or None


def note_portable_kernels() -> None:
    """One line on stderr where this machine runs no kernels but the portable ones."""
    from shoal.ops.kernels import available_isas

    if available_isas() == ("portable",):
        lacking = _LEAST.get(platform.machine(), "an instruction set there are kernels for")
        print(
            f"portable kernels: this processor lacks {lacking}; the answer is the same, many times slower",
            file=sys.stderr,
            flush=True,
        )
