"""What must be in memory at once, term by term, and the error that names the one that does not fit."""

from collections.abc import Sequence
from typing import NamedTuple

from shoal.errors import OptionError
from shoal.plan.size import GIB, MIB, gib


class Term(NamedTuple):
    """Something that must be in memory, and what a user can do about its size."""

    name: str
    nbytes: int
    hint: str | None


def refuse_too_little(memory: int, terms: Sequence[Term]) -> None:
    """OptionError where the terms, in their order, do not fit into `memory`: which one, and what would do."""
    left = memory
    for term in terms:
        if term.nbytes > left:
            found = f"{term.name} take {gib(term.nbytes)} where {gib(left)} is left"
            wanted = f"the smallest budget that would do is {_rounded_up(sum(term.nbytes for term in terms))}"
            raise OptionError(f"this does not fit into {gib(memory)}: {found}; {wanted}", hint=term.hint)
        left -= term.nbytes


def _rounded_up(nbytes: int) -> str:
    """A size such that it can be given back as a budget."""
    unit, name = (GIB, "GiB") if nbytes >= GIB else (MIB, "MiB")
    return f"{-(-nbytes * 100 // unit) / 100:.2f} {name}"
