"""A forward in a workspace, three native calls a layer, has the bits of one with a call an operator."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from shoal.assemble import Assembled, LoadOptions, assemble
from shoal.model.backbone import Backbone
from shoal.model.batch import Batch
from shoal.model.layer import stages_of
from shoal.model.step import record_nothing
from shoal.ops.kernels import available_isas
from shoal.ops.mixture import ExpertWeights

IDS = tuple(range(20, 420))
Runs = list[list[int]]
Found = tuple[list[Tensor], list[dict[str, Tensor]]]


@pytest.fixture(scope="module", params=[1, 2])
def model(request: pytest.FixtureRequest) -> Iterator[Assembled]:
    with assemble(LoadOptions(threads=request.param)) as assembled:
        yield assembled


def run(backbone: Backbone, steps: Sequence[Runs], uses_workspace: bool) -> Found:
    """Logits and hidden rows of every step, and what the sequences remember in the end."""
    caches = [backbone.new_cache() for _ in steps[0]]
    found = []
    backbone.uses_workspace = uses_workspace
    try:
        for runs in steps:
            given = [cache for cache, ids in zip(caches, runs, strict=True) if ids]
            output = backbone.forward(Batch.build([ids for ids in runs if ids], given, logits="all"), given)
            found += [output.logits, output.draft_hidden]
    finally:
        backbone.uses_workspace = True
    return found, [cache.state() for cache in caches]


def assert_equal(one: Found, other: Found) -> None:
    assert all(torch.equal(a, b) for a, b in zip(one[0], other[0], strict=True))
    for a, b in zip(one[1], other[1], strict=True):
        assert a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


STEPS = {
    "one token after another": [[[token]] for token in IDS[:12]],
    "a prompt, then tokens": [[list(IDS[:150])], [[7]], [[8]]],
    "a prompt that nothing divides": [[list(IDS[:333])], [list(IDS[333:])]],
    "sequences of many lengths": [[list(IDS[:70]), [3], list(IDS[:33])], [[1], [2], [3, 4]], [[5], [], [6]]],
}


@pytest.mark.parametrize("isa", available_isas()[1:])
def test_nor_does_it_in_another_build(isa: str) -> None:
    with assemble(LoadOptions(isa=isa, threads=1)) as other:
        steps = [[[3, 4, 5], [6]], [[7], [8]]]
        assert_equal(run(other.backbone, steps, True), run(other.backbone, steps, False))


@pytest.mark.parametrize("steps", STEPS.values(), ids=STEPS)
def test_it_changes_no_bit(model: Assembled, steps: Sequence[Runs]) -> None:
    assert_equal(run(model.backbone, steps, True), run(model.backbone, steps, False))


class OneByOne:
    """Experts that come alone, the last asked for first."""

    def __init__(self, experts: object) -> None:
        self.experts = experts

    def __getattr__(self, name: str) -> object:
        return getattr(self.experts, name)

    def arrivals(self, layer_id: int, expert_ids: Sequence[int]) -> Iterator[list[tuple[int, ExpertWeights]]]:
        arrivals: Callable[..., Iterator[list[tuple[int, ExpertWeights]]]] = self.experts.arrivals  # type: ignore[attr-defined]
        for group in list(arrivals(layer_id, expert_ids)):
            for one in reversed(group):
                yield [one]


def test_experts_that_arrive_alone_change_no_bit(model: Assembled, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = STEPS["sequences of many lengths"]
    expected = run(model.backbone, steps, True)
    for layer in model.backbone.layers:
        monkeypatch.setattr(layer.moe, "experts", OneByOne(layer.moe.experts))
    assert_equal(run(model.backbone, steps, True), expected)


def test_image_rows_go_to_the_experts_of_images(model: Assembled, monkeypatch: pytest.MonkeyPatch) -> None:
    def logits(uses_workspace: bool) -> Tensor:
        cache = model.backbone.new_cache()
        plain = Batch.build([list(IDS[:60])], [cache], logits="all")
        mask = torch.arange(60) % 3 == 0
        rows = torch.randn((20, model.backbone.config.dim), generator=torch.Generator().manual_seed(1)).bfloat16()
        batch = Batch(plain.token_ids, plain.spans, plain.logit_rows, mask, rows)
        model.backbone.uses_workspace = uses_workspace
        try:
            return model.backbone.forward(batch, [cache]).logits
        finally:
            model.backbone.uses_workspace = True

    for layer in model.backbone.layers:
        weights = layer.moe.weights
        router = replace(weights.router, bias_vl=torch.linspace(1, 0, weights.router.bias_vl.shape[0]))
        monkeypatch.setattr(layer.moe, "weights", replace(weights, router=router))
        monkeypatch.setitem(vars(layer), "stages", stages_of(layer))
    assert torch.equal(logits(True), logits(False))


def test_a_forward_cut_short_leaves_the_sequence_as_it_was(model: Assembled, monkeypatch: pytest.MonkeyPatch) -> None:
    backbone, cache = model.backbone, model.backbone.new_cache()
    backbone.forward(Batch.build([list(IDS[:100])], [cache]), [cache])
    before = cache.state()

    class InterruptionError(Exception): ...

    def stop(done: int) -> None:
        if done == 4:
            raise InterruptionError

    with pytest.raises(InterruptionError):
        backbone.forward(Batch.build([[5, 6, 7]], [cache]), [cache], record_nothing, stop)
    after = cache.state()
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_the_last_pass_can_be_cut_back(model: Assembled) -> None:
    backbone = model.backbone
    cut, straight = backbone.new_cache(), backbone.new_cache()
    for cache in (cut, straight):
        backbone.forward(Batch.build([list(IDS[:100])], [cache]), [cache])
    backbone.forward(Batch.build([[9, 10, 11, 12]], [cut]), [cut])
    cut.truncate(101)
    backbone.forward(Batch.build([[9]], [straight]), [straight])
    one, other = (backbone.forward(Batch.build([[13]], [cache]), [cache]).logits for cache in (cut, straight))
    assert torch.equal(one, other)
