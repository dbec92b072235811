"""An arithmetic by its name."""

from shoal.errors import OptionError
from shoal.ops.arithmetic import Arithmetic
from shoal.ops.native import Native
from shoal.ops.release import Release
from shoal.ops.wide import Wide

ARITHMETICS = ("native", "wide", "release")


def arithmetic_named(name: str, isa: str | None = None, threads: int = 1) -> Arithmetic:
    """`native`, `wide` or `release`; `isa` forces the instruction set of native kernels, which run on `threads`."""
    if name == "native":
        return Native(isa, threads)
    if name == "wide":
        return Wide()
    if name == "release":
        return Release()
    raise OptionError(f"arithmetic `{name}` is not one of {', '.join(ARITHMETICS)}")
