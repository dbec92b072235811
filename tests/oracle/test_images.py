"""Text positions and image spans in one prompt, from the merged embeddings the released code recorded."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from shoal.model.backbone import Backbone
from shoal.model.batch import Batch
from shoal.model.cache import SequenceCache

Golden = dict[str, Tensor]
EXACT_LAYERS = 7


def forward(
    backbone: Backbone, golden: Golden, sequence: SequenceCache, rows: slice = slice(None)
) -> tuple[Golden, Tensor]:
    """Internals and logits of the golden's rows."""
    ids, inside = golden["input_ids"][rows].tolist(), golden["token_types"][rows] >= 0
    batch = Batch.build([ids], [sequence], logits="all")
    batch = replace(batch, image_mask=inside, image_rows=golden["L0.stream_in"][rows][inside, 0])
    recorded: Golden = {}
    return recorded, backbone.forward(batch, [sequence], recorded.__setitem__).logits


@pytest.mark.parametrize("name", ["vision_small", "vision_one"])
def test_image_positions_are_dead_to_engram(name: str, wide: Backbone, golden: Callable[[str], Golden]) -> None:
    recorded, _ = forward(wide, golden(name), wide.new_cache())
    for layer in (1, 4):
        assert torch.equal(recorded[f"L{layer}.engram.hash_ids"].int(), golden(name)[f"L{layer}.engram.hash_ids"])


def test_a_prompt_that_is_one_image_is_identical_up_to_the_candidate_source(
    wide: Backbone, golden: Callable[[str], Golden]
) -> None:
    small = golden("vision_small")
    recorded, logits = forward(wide, small, wide.new_cache())
    for layer in range(EXACT_LAYERS):
        assert torch.equal(recorded[f"L{layer}.stream_out"], small[f"L{layer}.stream_out"]), layer
        chosen = [tensors[f"L{layer}.router.indices"].long().sort(-1).values for tensors in (recorded, small)]
        assert torch.equal(*chosen), layer
    assert int(logits[-1].argmax()) == int(small["tokens"][0])


@pytest.mark.parametrize("name", ["vision_small", "vision_one"])
def test_image_rows_choose_experts_with_their_own_bias(
    name: str, wide: Backbone, golden: Callable[[str], Golden], monkeypatch: pytest.MonkeyPatch
) -> None:
    weights = wide.layers[0].moe.weights
    right, _ = forward(wide, golden(name), wide.new_cache())
    monkeypatch.setattr(
        wide.layers[0].moe, "weights", replace(weights, router=replace(weights.router, bias_vl=weights.router.bias))
    )
    wrong, _ = forward(wide, golden(name), wide.new_cache())
    wanted = golden(name)["L0.router.indices"].long().sort(-1).values
    assert torch.equal(right["L0.router.indices"].sort(-1).values, wanted)
    assert not torch.equal(wrong["L0.router.indices"].sort(-1).values, wanted)


def test_a_span_cut_in_two_gives_the_bits_of_the_whole(wide: Backbone, golden: Callable[[str], Golden]) -> None:
    small = golden("vision_small")
    _, whole = forward(wide, small, wide.new_cache())
    sequence = wide.new_cache()
    pieces = [forward(wide, small, sequence, rows)[1] for rows in (slice(0, 5), slice(5, 6), slice(6, 12))]
    assert torch.equal(torch.cat(pieces), whole)
