"""Prompts that begin alike and come together: the first is computed, the others wait for what it will leave.

The rule: a request waits while one that runs is reading a prompt which begins as its own does, up
to a length where the prefix cache will keep it, and that is `SMALLEST_SHARE` tokens more than what is kept already.
"""

from collections.abc import Sequence as Items

from shoal.engine.prefix_protocol import SMALLEST_SHARE
from shoal.engine.sequence import Sequence


def leader_of(sequence: Sequence, cached: int, running: Items[Sequence]) -> tuple[Sequence, int] | None:
    """Who computes the most of the sequence's prefix, and up to which length, if that is worth waiting for."""
    best = None
    least = cached + SMALLEST_SHARE
    for other in running:
        for cut in reversed(other.cuts):
            if cut < least or cut <= other.length:
                break
            if cut < sequence.num_known and other.known[:cut] == sequence.known[:cut]:
                best, least = (other, cut), cut + 1
                break
    return best
