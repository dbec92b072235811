"""Release arithmetic has the released code's bits, end to end, where MKL and oneDNN use AVX-512 (spec §10).

Everywhere else the same goldens are met one layer at a time within the bounds of spec §10.
"""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from shoal.model.backbone import Backbone
from shoal.tracing.compare import compare
from shoal.tracing.distance import distance
from shoal.tracing.trace import trace_backbone

Golden = dict[str, Tensor]
Goldens = Callable[[str], Golden]
PREFILLS = ["prefill_001", "prefill_002", "prefill_003", "prefill_033", "prefill_064", "prefill_401"]
LIGHT_LENGTHS = [16, 31, 32, 47, 48, 49, 95, 96, 97, 130, 200, 257, 320, 399, 402, 403]
# Of the release's run, not of the model: which rows it kept, what it was fed, and draft layers no token reached.
NOT_COMPARED = ("sel_positions", "tokens", "forced")
# Recorded against the release's stale index keys (spec §4.5).
STALE_SCORES = ("s38.L2.index_score", "s38.L4.index_score")
bitwise = pytest.mark.usefixtures("_avx512", "_threads")


def _assert_same_bits(run: Golden, golden: Golden, exempt: Sequence[str] = ()) -> None:
    comparison = compare(run, golden)
    differing = [d.name for d in comparison.compared if not d.is_same and d.name not in exempt]
    assert differing == []
    names = [name for name in comparison.only_in_b if not name.startswith("cache.M") and name not in NOT_COMPARED]
    assert names == [], "the golden holds what no trace does"


@bitwise
@pytest.mark.parametrize("name", PREFILLS)
def test_a_prefill_has_the_goldens_bits(name: str, golden: Goldens, release: Backbone) -> None:
    expected = golden(name)
    _assert_same_bits(trace_backbone(release, expected["input_ids"].tolist()), expected)


@bitwise
@pytest.mark.parametrize("length", LIGHT_LENGTHS)
def test_the_last_row_of_a_prefill_has_the_goldens_bits(
    length: int, golden: Goldens, release: Backbone, prompt_ids: list[int]
) -> None:
    run = trace_backbone(release, prompt_ids[:length])
    prefix = f"n{length}."
    expected = {n.removeprefix(prefix): v for n, v in golden("prefill_light").items() if n.startswith(prefix)}
    picks = {name: value for name, value in expected.items() if name.endswith(".topk_last")}
    _assert_same_bits(run, {name: value for name, value in expected.items() if name not in picks})
    for name, value in picks.items():
        own = run[name.removesuffix("_last")][-1]
        assert own.tolist() == [pick - length if pick >= 0 else -1 for pick in value.tolist()], name


@bitwise
def test_forced_decoding_from_one_token_has_the_goldens_bits(
    golden: Goldens, release: Backbone, prompt_ids: list[int]
) -> None:
    run = trace_backbone(release, prompt_ids[:64], chunks=[1] * 64)
    _assert_same_bits(run, golden("decode_001_forced"))


@bitwise
def test_greedy_decoding_has_the_goldens_bits(golden: Goldens, release: Backbone, prompt_ids: list[int]) -> None:
    expected = golden("decode_037_greedy")
    tokens = expected["tokens"].tolist()
    run = trace_backbone(release, prompt_ids[:37] + tokens[:-1], chunks=[37] + [1] * 32)
    _assert_same_bits(run, expected, exempt=STALE_SCORES)
    assert run["logits"][36:].argmax(-1).tolist() == tokens


@bitwise
def test_forced_decoding_beyond_the_top_k_limit_has_the_goldens_bits(
    golden: Goldens, release: Backbone, prompt_ids: list[int]
) -> None:
    expected = golden("decode_401_forced_ownkeys")
    run = trace_backbone(release, prompt_ids[:401] + expected["forced"].tolist(), chunks=[401] + [1] * 16)
    _assert_same_bits(run, expected)


@bitwise
def test_two_sequences_in_a_batch_give_the_goldens_tokens(
    golden: Goldens, release: Backbone, greedy_batch: Callable[..., list[list[int]]]
) -> None:
    expected = golden("batch2")
    assert greedy_batch(release, expected["input_ids"].tolist(), 7) == expected["tokens"].T.tolist()


@bitwise
def test_a_ragged_batch_gives_the_tokens_of_each_prompt_alone(
    release: Backbone, ragged: dict[str, Any], greedy_batch: Callable[..., list[list[int]]]
) -> None:
    completions = greedy_batch(release, ragged["prompts"], 12)
    assert completions[:2] == ragged["completions_alone"][:2]
    # The released code itself gives the third prompt another last token in a batch than alone.
    assert completions[2][:-1] == ragged["completions_alone"][2][:-1]


@pytest.mark.parametrize("layer", range(10))
@pytest.mark.parametrize("name", ["prefill_033", "prefill_064", "prefill_401"])
def test_a_layer_on_any_cpu_is_within_the_bounds(name: str, layer: int, layerwise: Callable[..., Any]) -> None:
    run = layerwise("release", name)
    for part, bound in (("attn_out", 1e-3), ("ffn_out", 1e-2), ("stream_out", 2e-3)):
        found = distance(run.tensors[f"L{layer}.{part}"], run.golden[f"L{layer}.{part}"])
        assert found.relative <= bound, (part, found)
    own, expected = (t[f"L{layer}.router.indices"].long().sort(-1).values for t in (run.tensors, run.golden))
    assert torch.equal(own, expected)


@pytest.mark.parametrize("name", ["prefill_001", "prefill_002", "prefill_003"])
def test_short_prefills_on_any_cpu_route_and_select_as_the_goldens(
    name: str, golden: Goldens, release: Backbone
) -> None:
    expected = golden(name)
    comparison = compare(trace_backbone(release, expected["input_ids"].tolist()), expected)
    exact = [d for d in comparison.compared if d.name.endswith((".indices", ".topk", ".candidates", ".hash_ids"))]
    assert len(exact) >= 13 and all(difference.is_same for difference in exact)
