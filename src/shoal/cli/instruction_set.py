"""The environment's say in which native kernels run."""

import os

VARIABLE = "SHOAL_ISA"


def forced_isa() -> str | None:
    """The instruction set that `SHOAL_ISA` names; None where it is unset or empty."""
    return os.environ.get(VARIABLE) or None
