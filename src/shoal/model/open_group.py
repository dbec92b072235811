"""The tokens of a compressor's unfinished group, in float32 (spec §5c)."""

from copy import copy

import torch
from jaxtyping import Float32
from torch import Tensor

Rows = Float32[Tensor, "rows dim"]
Groups = Float32[Tensor, "groups ratio dim"]


class OpenGroup:
    """Values and gates of the last length mod ratio tokens. Groups follow absolute positions: 0..ratio−1 is the first.

    The rows of the last pass are kept, when there are at most `undoable` of them, so that it can be cut anywhere.
    """

    def __init__(self, ratio: int, dim: int, undoable: int) -> None:
        self.ratio = ratio
        self.undoable = undoable
        self.length = 0
        self.values = self.gates = torch.zeros((0, dim))
        self.settle()

    def extend(self, values: Rows, gates: Rows) -> tuple[Groups, Groups]:
        """Append tokens; the values and gates of the groups they complete come back."""
        start, held, count = self.length, self.values.shape[0], values.shape[0]
        all_values, all_gates = torch.cat((self.values, values)), torch.cat((self.gates, gates))
        if count <= self.undoable:
            self._remember(start, all_values, all_gates)
        else:
            # Copied: a view would keep the whole chunk's rows.
            self._remember(start, all_values[:held].clone(), all_gates[:held].clone())
        complete = (held + count) // self.ratio * self.ratio
        self.values, self.gates = all_values[complete:].clone(), all_gates[complete:].clone()
        self.length = start + count
        shape = (complete // self.ratio, self.ratio)
        return all_values[:complete].unflatten(0, shape), all_gates[:complete].unflatten(0, shape)

    def truncate(self, length: int) -> None:
        """Undo the last pass from position `length` on."""
        if length == self.length:
            return
        first = length // self.ratio * self.ratio - self._base
        assert first >= 0 and length - self._base <= self._pass_values.shape[0], (self._base, length)
        self.values = self._pass_values[first : length - self._base].clone()
        self.gates = self._pass_gates[first : length - self._base].clone()
        self.length = length

    def state(self) -> dict[str, Tensor]:
        """Copies of what must be saved."""
        return {"values": self.values.clone(), "gates": self.gates.clone()}

    def load(self, state: dict[str, Tensor], length: int) -> None:
        """Take over a saved state of a sequence of `length` tokens."""
        self.values, self.gates = state["values"].clone(), state["gates"].clone()
        self.length = length
        self.settle()

    def fork(self) -> "OpenGroup":
        """The same group, to go on alone: rows are replaced and never written to, so they are shared."""
        return copy(self)

    def settle(self) -> None:
        """Make the last pass final."""
        self._remember(self.length, self.values, self.gates)

    @property
    def nbytes(self) -> int:
        """Bytes held, those that undoing takes included."""
        held = {id(rows): rows for rows in (self.values, self.gates, self._pass_values, self._pass_gates)}
        return sum(rows.nbytes for rows in held.values())

    def _remember(self, start: int, values: Rows, gates: Rows) -> None:
        self._base = start // self.ratio * self.ratio
        self._pass_values, self._pass_gates = values, gates
