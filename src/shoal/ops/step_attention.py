"""Attention of all sequences of a step, which then keep the keys of their last positions (spec §4.2 steps 3 to 6)."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import torch
from jaxtyping import BFloat16, Float32, Int64, UInt8
from torch import Tensor

from shoal.ops.addresses import address, empty_quantized, quantized_addresses
from shoal.ops.arithmetic import Arithmetic
from shoal.ops.kernels import Kernels
from shoal.ops.paged_rows import PagedRows, Place, place_of
from shoal.ops.quantize import Q4C, Q8, Quantized
from shoal.ops.rotation import Rotation
from shoal.ops.sparse_attention import SelectedEntries, WindowKeys, attend

NO_ENTRIES = (0, 0, 0, 0, 0)


@dataclass(frozen=True)
class StepSequence:
    """A sequence of a step, whose `count` tokens begin at `position`: its ring, and what they read beside it.

    The ring holds the last min(position, window) positions, each at slot position mod window.
    """

    count: int
    position: int
    ring: Quantized
    entries: Quantized | PagedRows | None = None
    selected: Int64[Tensor, "count topk"] | None = None

    @property
    def num_kept(self) -> int:
        """How many of its tokens come into the ring: the last ones."""
        return min(self.count, self.ring.codes.shape[0])


@dataclass(frozen=True)
class Replaced:
    """What a step's rows replace in the rings, a sequence's after another's; `is_full` is 1 once it is in `rows`."""

    rows: Quantized
    is_full: UInt8[Tensor, "1"]

    @classmethod
    def room(cls, count: int, dim: int) -> "Replaced":
        """For `count` rows, nothing of which is valid yet."""
        return cls(empty_quantized(Q8, count, dim), torch.zeros(1, dtype=torch.uint8))


class ReplacedOfLayers:
    """`Replaced` of all layers of a step, which replace `rows` rows each, in one piece of memory."""

    def __init__(self, layers: int, rows: int, dim: int) -> None:
        self.rows = empty_quantized(Q8, layers, rows, dim)
        self.is_full: UInt8[Tensor, "layers"] = torch.zeros(layers, dtype=torch.uint8)
        self._addresses = *quantized_addresses(self.rows), address(self.is_full)
        self._nbytes = rows * Q8.code_bytes(dim), rows * Q8.scale_bytes(dim), 1

    def of(self, layer: int) -> Replaced:
        """One layer's."""
        return Replaced(self.rows[layer], self.is_full[layer : layer + 1])

    def addresses(self, layer: int) -> tuple[int, int, int]:
        """Of its codes, its scales, and whether they are there."""
        codes, scales, full = (at + layer * size for at, size in zip(self._addresses, self._nbytes, strict=True))
        return codes, scales, full


def attend_step(
    q: BFloat16[Tensor, "tokens heads dim"],
    kv: Quantized,
    sequences: Sequence[StepSequence],
    sink: Float32[Tensor, "heads"],
    rotation: Rotation,
    replaced: Replaced,
    arithmetic: Arithmetic,
) -> BFloat16[Tensor, "tokens heads dim"]:
    """`attend` of every sequence's rows of q and kv; then their rings take kv, and `replaced` what was in their place.

    Rows are the sequences' in their order, all have entries or none. With kernels it is one call, which nothing
    interrupts: rings are as they were, or `replaced` is full.
    """
    if arithmetic.kernels is not None:
        return _attend_native(q, kv, sequences, sink, rotation, replaced, arithmetic.kernels)
    return attend_step_torch(q, kv, sequences, sink, rotation, replaced, arithmetic)


def attend_step_torch(
    q: BFloat16[Tensor, "tokens heads dim"],
    kv: Quantized,
    sequences: Sequence[StepSequence],
    sink: Float32[Tensor, "heads"],
    rotation: Rotation,
    replaced: Replaced,
    arithmetic: Arithmetic,
) -> BFloat16[Tensor, "tokens heads dim"]:
    """`attend_step` in torch, or of the operators that `arithmetic` has."""
    attended, start, saved = [], 0, 0
    for one in sequences:
        rows = slice(start, start + one.count)
        window = WindowKeys(one.ring, kv[rows], one.position)
        compressed = None
        if one.entries is not None and one.selected is not None:
            compressed = SelectedEntries(one.entries, one.selected)
        attended.append(attend(q[rows], window, compressed, sink, rotation[rows], arithmetic))
        place = slice(saved, saved + one.num_kept)
        taken = one.ring[kept_slots(one)]
        replaced.rows.codes[place], replaced.rows.scales[place] = taken.codes, taken.scales
        start, saved = rows.stop, place.stop
    replaced.is_full.fill_(1)
    start = 0
    for one in sequences:
        keep_rows(one, kv[slice(start, start + one.count)])
        start += one.count
    return torch.cat(attended)


def kept_slots(one: StepSequence) -> Int64[Tensor, "kept"]:
    """Where the last tokens of a sequence come in its ring."""
    end = one.position + one.count
    return torch.arange(end - one.num_kept, end) % one.ring.codes.shape[0]


def keep_rows(one: StepSequence, kv: Quantized) -> None:
    """The last rows of kv, in the sequence's ring."""
    slots, first = kept_slots(one), one.count - one.num_kept
    one.ring.codes[slots], one.ring.scales[slots] = kv.codes[first:], kv.scales[first:]


@cache
def score_scale(dim: int) -> float:
    """dim^-½ in float32."""
    return float(torch.tensor(dim**-0.5, dtype=torch.float32))


def _attend_native(
    q: BFloat16[Tensor, "tokens heads dim"],
    kv: Quantized,
    sequences: Sequence[StepSequence],
    sink: Float32[Tensor, "heads"],
    rotation: Rotation,
    replaced: Replaced,
    kernels: Kernels,
) -> BFloat16[Tensor, "tokens heads dim"]:
    (tokens, heads, dim), window = q.shape, sequences[0].ring.codes.shape[0]
    topk = 0 if sequences[0].selected is None else sequences[0].selected.shape[1]
    assert tokens == sum(one.count for one in sequences) == kv.codes.shape[0] == rotation.cos.shape[0], q.shape
    assert replaced.rows.codes.shape[0] == sum(one.num_kept for one in sequences), replaced.rows.codes.shape
    # What had to be copied, kept until the kernel returns.
    listed, kept = list[tuple[int, ...]](), list[Place | Tensor]()
    for one in sequences:
        assert one.ring.codes.shape == (window, dim) and one.ring.format is Q8, one.ring.codes.shape
        entries = NO_ENTRIES
        if one.entries is not None and one.selected is not None:
            assert one.selected.shape == (one.count, topk), (one.selected.shape, one.count, topk)
            place, selected = place_of(one.entries, Q4C, dim), one.selected.contiguous()
            kept += place, selected
            entries = address(place.addresses), place.codes, place.scales, place.shift, address(selected)
        listed.append((one.count, one.position, *quantized_addresses(one.ring), *entries))
    q, y = q.contiguous(), torch.empty(q.shape, dtype=torch.bfloat16)
    kernels.native.attend_step(
        listed,
        *(address(q), *quantized_addresses(kv), *map(address, (sink, rotation.cos, rotation.sin))),
        *(heads, dim, window, topk, rotation.cos.shape[1], score_scale(dim), address(y)),
        *(*quantized_addresses(replaced.rows), address(replaced.is_full)),
    )
    del kept
    return y
