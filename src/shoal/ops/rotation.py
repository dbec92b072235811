"""The rotation that rope gives each row, as cos and sin (spec §4.3)."""

from dataclasses import dataclass

from jaxtyping import Float32
from torch import Tensor


@dataclass(frozen=True)
class Rotation:
    """cos and sin of each row's angles."""

    cos: Float32[Tensor, "tokens pairs"]
    sin: Float32[Tensor, "tokens pairs"]

    def inverse(self) -> "Rotation":
        """The conjugate rotation."""
        return Rotation(self.cos, -self.sin)

    def __getitem__(self, rows: slice) -> "Rotation":
        """The rotation of the same rows."""
        return Rotation(self.cos[rows], self.sin[rows])
