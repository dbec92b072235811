"""The miniature under wide arithmetic, and the golden checks that a mistake in it must fail (spec §10)."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from miniature import MINI
from shoal.checkpoint.shards import Checkpoint
from shoal.config.layouts import load_config
from shoal.model.backbone import Backbone
from shoal.model.batch import Batch
from shoal.ops.wide import Wide
from shoal.weights.load import load_backbone

GOLDENS = Path(__file__).parents[1] / "data" / "oracle" / "goldens"
# Spec §10: L2 relative distances of one layer fed golden inputs. A wrong softmax gives four times as much.
BOUNDS = {"attn_out": 1e-3, "ffn_out": 1e-2, "stream_out": 2e-3}

Golden = dict[str, Tensor]


def distance(found: Tensor, wanted: Tensor) -> float:
    return float((found.double() - wanted.double()).norm() / wanted.double().norm())


class GoldenChecks:
    """Each check returns what it found wrong."""

    def __init__(self, backbone: Backbone) -> None:
        self.backbone = backbone
        self.short: Golden = load_file(GOLDENS / "prefill_003.safetensors")
        self.long: Golden = load_file(GOLDENS / "prefill_033.safetensors")

    def end_to_end(self) -> list[str]:
        """All streams of `prefill_003`, bit for bit."""
        recorded: Golden = {}
        cache = self.backbone.new_cache()
        batch = Batch.build([self.short["input_ids"].tolist()], [cache])
        self.backbone.forward(batch, [cache], recorded.__setitem__)
        streams = [name for name in recorded if name.endswith("stream_out")]
        return [name for name in streams if not torch.equal(recorded[name], self.short[name])]

    def layer(self, layer_id: int) -> list[str]:
        """One layer of `prefill_033` from its golden inputs: distances within bounds, equal router sets."""
        golden, name, layer = self.long, f"L{layer_id}", self.backbone.layers[layer_id]
        recorded: Golden = {}
        cache = self.backbone.new_cache()
        batch = Batch.build([golden["input_ids"].tolist()], [cache])
        step = self.backbone._begin(batch, (cache,), recorded.__setitem__)
        before = f"L{layer_id - 1}.stream_out" if layer.engram is None else f"{name}.engram.stream_out"
        layer.forward(golden[before], golden[f"L{layer_id - 1}.pre_mix_out"], step)
        far = [
            part
            for part, bound in BOUNDS.items()
            if not distance(recorded[f"{name}.{part}"], golden[f"{name}.{part}"]) < bound
        ]
        found, wanted = recorded[f"{name}.router.indices"], golden[f"{name}.router.indices"].long()
        return far + ["router"] * (not torch.equal(found.sort(-1).values, wanted.sort(-1).values))


@pytest.fixture(scope="session")
def backbone() -> Iterator[Backbone]:
    with Checkpoint.open(MINI) as checkpoint:
        yield load_backbone(load_config(MINI), checkpoint, arithmetic=Wide()).backbone


@pytest.fixture(scope="session")
def checks(backbone: Backbone) -> dict[str, Callable[[], list[str]]]:
    golden = GoldenChecks(backbone)
    return {"end to end": golden.end_to_end} | {f"layer {i}": partial(golden.layer, i) for i in (1, 2, 4, 6)}
