"""Native kernels against the released code's internals, one layer at a time from golden inputs (spec §10).

What the layer before did is taken from the golden, so that no error is carried over; the bounds are those of the spec.
Picks and candidates come from the golden where scores tie; scores themselves are near, for their queries pass a
float32 sum before they are quantised.
"""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from shoal.model.backbone import Backbone
from shoal.tracing.compare import compare
from shoal.tracing.distance import distance
from shoal.tracing.trace import trace_backbone

Golden = dict[str, Tensor]
LAYERS, ENGRAMS, SOURCES = range(10), (1, 4), (2, 4, 6)
BOUNDS = {"attn_out": 1e-3, "ffn_out": 1e-2, "stream_out": 2e-3}
# Of 3,000 bf16 products of a float32 sum, a few lie beside another rounding boundary than their exact sum.
NEARLY = 2e-3
every_file = pytest.mark.parametrize("name", ["prefill_033", "prefill_064", "prefill_401"])


@pytest.mark.parametrize("name", ["prefill_001", "prefill_002", "prefill_003"])
def test_short_prefills_keep_to_the_golden_end_to_end(
    name: str, golden: Callable[[str], Golden], native: Backbone
) -> None:
    expected = golden(name)
    comparison = compare(trace_backbone(native, expected["input_ids"].tolist()), expected)
    streams = [d for d in comparison.compared if d.name.endswith("stream_out")]
    assert len(streams) == 12
    assert [d.name for d in streams if not d.is_same] == []


@every_file
@pytest.mark.parametrize("layer", LAYERS)
def test_a_layer_is_within_the_bounds(layer: int, name: str, layerwise: Callable[..., Any]) -> None:
    run = layerwise("native", name)
    for part, bound in BOUNDS.items():
        found = distance(run.tensors[f"L{layer}.{part}"], run.golden[f"L{layer}.{part}"])
        assert found.relative <= bound, (part, found)


@every_file
@pytest.mark.parametrize("layer", LAYERS)
def test_a_layer_routes_to_the_goldens_experts(layer: int, name: str, layerwise: Callable[..., Any]) -> None:
    run = layerwise("native", name)
    found, expected = (
        tensors[f"L{layer}.router.indices"].long().sort(-1).values for tensors in (run.tensors, run.golden)
    )
    assert torch.equal(found, expected)


@every_file
@pytest.mark.parametrize("layer", ENGRAMS)
def test_engram_hashes_exactly_and_mixes_nearly(layer: int, name: str, layerwise: Callable[..., Any]) -> None:
    run = layerwise("native", name)
    hash_ids, streams = f"L{layer}.engram.hash_ids", f"L{layer}.engram.stream_out"
    assert torch.equal(run.tensors[hash_ids].int(), run.golden[hash_ids])
    assert distance(run.tensors[streams], run.golden[streams]).relative <= NEARLY


@every_file
def test_the_cache_is_nearly_the_goldens(name: str, layerwise: Callable[..., Any]) -> None:
    run = layerwise("native", name)
    names = [f"cache.L{layer}.window_kv" for layer in LAYERS]
    names += [f"cache.L{layer}.{part}" for layer in SOURCES for part in ("compress_kv", "index_k")]
    far = {name: distance(run.tensors[name], run.golden[name]).relative for name in names}
    assert {name: found for name, found in far.items() if found > NEARLY} == {}
