from collections.abc import Callable

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

import shoal
from miniature import MINI
from shoal.errors import OptionError, PromptError
from shoal.model.backbone import Backbone
from shoal.tracing.compare import compare
from shoal.tracing.trace import check_chunks, trace_backbone

Traced = dict[str, Tensor]


def test_every_name_has_the_goldens_dtype_and_shape(backbone: Backbone, data_golden: Callable[[str], Traced]) -> None:
    golden = data_golden("prefill_003")
    run = trace_backbone(backbone, golden["input_ids"].tolist())
    ours = {name: value for name, value in golden.items() if not name.startswith("cache.M")}
    assert run.keys() == ours.keys()
    odd = [name for name in ours if run[name].dtype != ours[name].dtype or run[name].shape != ours[name].shape]
    # The released code returns the last row's logits only.
    assert odd == ["logits"]
    assert run["logits"].shape == (3, 1024)


@pytest.fixture
def data_golden(request: pytest.FixtureRequest) -> Callable[[str], Traced]:
    folder = request.path.parents[1] / "data" / "oracle" / "goldens"
    return lambda name: load_file(folder / f"{name}.safetensors")


@pytest.mark.parametrize("chunks", [[5, 1, 1]])
def test_any_chunking_gives_the_same_trace(
    chunks: list[int], backbone: Backbone, ids: list[int], whole: Traced
) -> None:
    run = trace_backbone(backbone, ids, chunks=chunks)
    assert run.keys() == whole.keys()
    # A chunk does not mark the rest of a block that it cannot see.
    assert [name for name in whole if not torch.equal(run[name], whole[name])] in ([], ["L6.candidates"])
    assert compare(run, whole).is_same


def test_only_what_matches_is_kept(backbone: Backbone, ids: list[int], whole: Traced) -> None:
    run = trace_backbone(backbone, ids, only=["L2.topk", "*.window_kv"])
    assert set(run) == {"L2.topk", *(f"cache.L{layer}.window_kv" for layer in range(10))}
    assert torch.equal(run["L2.topk"], whole["L2.topk"])


def test_logits_of_all_rows_are_kept_when_asked_for(backbone: Backbone, ids: list[int], whole: Traced) -> None:
    run = trace_backbone(backbone, ids, only=["logits"], chunks=[4, 3])
    assert list(run) == ["logits"]
    assert torch.equal(run["logits"], whole["logits"])


def test_window_slots_are_positions_modulo_the_window(whole: Traced, ids: list[int]) -> None:
    ring = whole["cache.L3.window_kv"]
    assert ring.shape == (32, 64)
    assert ring[: len(ids)].any(1).all() and not ring[len(ids) :].any()


def test_an_open_group_lies_in_its_slot(backbone: Backbone, ids: list[int], whole: Traced) -> None:
    assert whole["cache.L2.kv_state"][0].any() and not whole["cache.L2.kv_state"][1].any()
    even = trace_backbone(backbone, ids[:6], only=["cache.L2.*"])
    assert not even["cache.L2.kv_state"].any() and not even["cache.L2.score_state"].any()


def test_progress_counts_the_layers_of_all_chunks(backbone: Backbone, ids: list[int]) -> None:
    seen: list[tuple[int, int]] = []
    trace_backbone(backbone, ids, chunks=[5, 2], only=[], progress=lambda done, total: seen.append((done, total)))
    assert seen == [(done, 20) for done in range(1, 21)]


def test_the_package_traces_the_miniature(ids: list[int], whole: Traced) -> None:
    run = shoal.trace(MINI, ids=ids, chunks=[6, 1], only=["L9.stream_out"])
    assert list(run) == ["L9.stream_out"]
    assert torch.equal(run["L9.stream_out"], whole["L9.stream_out"])


def test_native_traces_the_same_bits_in_any_chunking(ids: list[int]) -> None:
    chunked = shoal.trace(MINI, ids=ids, arithmetic="native", chunks=[4, 1, 2])
    assert compare(shoal.trace(MINI, ids=ids, arithmetic="native"), chunked).is_same


def test_chunks_that_do_not_add_up_are_refused() -> None:
    with pytest.raises(OptionError, match=r"add up to 6 tokens, expected the prompt's 7"):
        check_chunks([5, 1], 7)
    with pytest.raises(OptionError, match="a piece of 0 tokens"):
        check_chunks([7, 0], 7)


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        ([], "the prompt is empty"),
        ([1, 1024], r"token id 1024 at position 1 .* expected 0 to 1023"),
        ([-1], "token id -1 at position 0"),
    ],
)
def test_ids_the_model_cannot_take_are_refused(ids: list[int], message: str, backbone: Backbone) -> None:
    with pytest.raises(PromptError, match=message):
        trace_backbone(backbone, ids)


def test_a_prompt_beyond_the_context_is_refused(backbone: Backbone) -> None:
    longest = backbone.config.context_length
    with pytest.raises(PromptError, match=f"has {longest + 1} tokens, expected at most the {longest}"):
        trace_backbone(backbone, [5] * (longest + 1))
