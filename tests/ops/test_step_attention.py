"""Attention of a step's sequences: each as if it were alone, and its ring afterwards; native against torch."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from shoal.ops.arithmetic import Arithmetic
from shoal.ops.kernels import available_isas
from shoal.ops.native import Native
from shoal.ops.quantize import Quantized, quantize_q4c, quantize_q8_torch
from shoal.ops.rope import rope_frequencies, rotation_at
from shoal.ops.rotation import Rotation
from shoal.ops.sparse_attention import SelectedEntries, WindowKeys, attend
from shoal.ops.step_attention import Replaced, StepSequence, attend_step, attend_step_torch
from shoal.ops.wide import Wide

HEADS, DIM, WINDOW, ENTRIES, TOPK = 3, 64, 6, 40, 9
SINK = torch.tensor([0.3, -1.0, 2.0])
ARITHMETICS = [Wide(), *(Native(isa, threads) for isa in available_isas() for threads in (1, 2))]
Parts = tuple[Tensor, Quantized, list[StepSequence], Rotation]


def step(seed: int, counts: list[int], has_entries: bool) -> Parts:
    """Sequences at drawn positions, some younger than the window is long."""
    generator = torch.Generator().manual_seed(seed)

    def values(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator).to(torch.bfloat16)

    sequences = []
    for count in counts:
        ring = quantize_q8_torch(values(WINDOW, DIM))
        position = int(torch.randint(0, 3 * WINDOW, (1,), generator=generator))
        one = StepSequence(count, position, ring)
        if has_entries:
            held = torch.randint(0, TOPK + 1, (count, 1), generator=generator)
            selected = torch.randint(0, ENTRIES, (count, TOPK), generator=generator).sort(-1).values
            selected = selected.masked_fill(torch.arange(TOPK) >= held, -1)
            one = replace(one, entries=quantize_q4c(values(ENTRIES, DIM)), selected=selected)
        sequences.append(one)
    tokens = sum(counts)
    positions = torch.cat([torch.arange(one.position, one.position + one.count) for one in sequences])
    rotation = rotation_at(positions, rope_frequencies(10000.0, 16, None), Wide())
    return values(tokens, HEADS, DIM), quantize_q8_torch(values(tokens, DIM)), sequences, rotation


def copies(sequences: list[StepSequence]) -> list[StepSequence]:
    """The same, with rings of their own."""
    return [
        replace(one, ring=Quantized(one.ring.codes.clone(), one.ring.scales.clone(), one.ring.format))
        for one in sequences
    ]


def run(parts: Parts, arithmetic: Arithmetic, *, torch_twin: bool = False) -> tuple[Tensor, list[Tensor]]:
    """The result, and everything the call wrote."""
    q, kv, sequences, rotation = parts
    sequences = copies(sequences)
    replaced = Replaced.room(sum(one.num_kept for one in sequences), DIM)
    function = attend_step_torch if torch_twin else attend_step
    y = function(q, kv, sequences, SINK, rotation, replaced, arithmetic)
    written = [part for one in sequences for part in (one.ring.codes, one.ring.scales)]
    return y, [*written, replaced.rows.codes, replaced.rows.scales, replaced.is_full]


COUNTS = st.lists(st.integers(1, 2 * WINDOW + 1), min_size=1, max_size=6)


@pytest.mark.parametrize("arithmetic", ARITHMETICS, ids=lambda each: f"{each.name}")
@settings(max_examples=10)
@given(st.integers(0, 1000), COUNTS, st.booleans())
def test_sequences_of_a_step_have_the_bits_they_have_alone(
    arithmetic: Arithmetic, seed: int, counts: list[int], has_entries: bool
) -> None:
    q, kv, sequences, rotation = parts = step(seed, counts, has_entries)
    together, _ = run(parts, arithmetic)
    start = 0
    for one in sequences:
        rows = slice(start, start + one.count)
        chosen = None
        if one.entries is not None and one.selected is not None:
            chosen = SelectedEntries(one.entries, one.selected)
        alone = attend(q[rows], WindowKeys(one.ring, kv[rows], one.position), chosen, SINK, rotation[rows], arithmetic)
        assert torch.equal(together[rows].view(torch.int16), alone.view(torch.int16))
        start = rows.stop


@pytest.mark.parametrize("arithmetic", ARITHMETICS, ids=lambda each: f"{each.name}")
@settings(max_examples=10)
@given(st.integers(0, 1000), COUNTS, st.booleans())
def test_the_kernel_does_what_its_twin_does(
    arithmetic: Arithmetic, seed: int, counts: list[int], has_entries: bool
) -> None:
    parts = step(seed, counts, has_entries)
    (found, written), (wanted, twin) = run(parts, arithmetic), run(parts, arithmetic, torch_twin=True)
    assert torch.equal(found.view(torch.int16), wanted.view(torch.int16))
    assert all(torch.equal(one, other) for one, other in zip(written, twin, strict=True))


def test_a_ring_takes_the_last_rows_and_what_they_replace_is_kept() -> None:
    parts = step(1, [WINDOW + 2, 1], False)
    _, kv, (long, short), _ = parts
    _, (long_codes, _, short_codes, _, replaced, _, is_full) = run(parts, Native())
    ends = torch.arange(long.position + 2, long.position + WINDOW + 2) % WINDOW
    assert torch.equal(long_codes[ends], kv.codes[2 : WINDOW + 2]) and torch.equal(replaced[:-1], long.ring.codes[ends])
    slot = short.position % WINDOW
    assert torch.equal(short_codes[slot], kv.codes[-1]) and torch.equal(replaced[-1], short.ring.codes[slot])
    assert is_full.tolist() == [1]


def test_a_step_is_one_call() -> None:
    arithmetic = Native()
    calls = arithmetic.native.native.calls
    run(step(2, [1, 1, 5, 1], True), arithmetic)
    assert arithmetic.native.native.calls == calls + 1
