"""What an answer may continue with, token by token: the engine asks, whoever knows a grammar answers."""

from collections.abc import Callable
from typing import Protocol

from jaxtyping import Bool
from torch import Tensor


class TokenConstraint(Protocol):
    """One answer's state: asked for a mask before each token, told of each token that was taken."""

    def mask(self) -> Bool[Tensor, "vocab"] | None:
        """Which tokens may come next; None where any may. Raises `OptionError` where no token can.

        The end-of-sequence id is among them only where the answer may end.
        """
        ...

    def accept(self, token_id: int) -> None:
        """The answer has one more token, one of the mask's."""
        ...

    @property
    def is_done(self) -> bool:
        """Whether the answer is whole and nothing could be added to it."""
        ...


ConstraintMaker = Callable[[], TokenConstraint]
"""Gives a constraint at its start. Called once for each answer, in the engine's thread."""
