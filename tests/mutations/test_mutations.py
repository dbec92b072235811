"""Mistakes that read plausibly, each of which a golden check must see.

A check that stays green under its mistake is no check.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from shoal.formats.float4 import encode_e2m1, pack_e2m1
from shoal.formats.float8 import decode_e4m3, encode_e4m3
from shoal.model import compressor as compressor_module
from shoal.model.backbone import Backbone
from shoal.ops import attention_projections as projections_module
from shoal.ops import hyper_connections as hyper_connections_module
from shoal.ops import mixture as mixture_module
from shoal.ops import sparse_attention as sparse_attention_module
from shoal.ops import sublayer as sublayer_module
from shoal.ops.hyper_connections import Mix
from shoal.ops.quantize import Q4C, Quantized
from shoal.ops.routing import Router, Routes
from shoal.ops.weights import BlockScaledWeight
from shoal.ops.wide import Wide

Checks = dict[str, Callable[[], list[str]]]
Patch = pytest.MonkeyPatch


class NormedQueries(Wide):
    """Wide, with the per-head norm after wq_b that an earlier model had."""

    def __init__(self, backbone: Backbone) -> None:
        self.projections = {id(layer.attention.weights.input.wq_b) for layer in backbone.layers}
        self.heads = backbone.config.n_heads

    def quantized_linear(self, x: Quantized, weight: BlockScaledWeight) -> Tensor:
        product = super().quantized_linear(x, weight)
        if id(weight) not in self.projections:
            return product
        heads = product.float().unflatten(1, (self.heads, -1))
        return (heads * heads.square().mean(-1, keepdim=True).rsqrt()).flatten(1).to(torch.bfloat16)


def norm_queries_per_head(patch: Patch, backbone: Backbone) -> None:
    for layer in backbone.layers:
        patch.setattr(layer.attention, "arithmetic", NormedQueries(backbone))


def normalise_columns_first(patch: Patch, backbone: Backbone) -> None:
    split_mix, streams = sublayer_module.split_mix, backbone.config.hc_mult

    def transposed(coefficients: Tensor) -> Tensor:
        kept, comb = coefficients.tensor_split((2 * streams,), dim=-1)
        return torch.cat((kept, comb.unflatten(-1, (streams, streams)).mT.flatten(-2)), dim=-1)

    def mutant(u: Tensor, scale: Tensor, base: Tensor, *rest: Any) -> Mix:
        mix = split_mix(transposed(u), scale, transposed(base), *rest)
        return replace(mix, comb=mix.comb.transpose(1, 2))

    patch.setattr(sublayer_module, "split_mix", mutant)


def use_pre_at_once(patch: Patch, _: Backbone) -> None:
    split_mix, collapse, latest = sublayer_module.split_mix, hyper_connections_module.collapse, []

    def remembering(*inputs: Any) -> Mix:
        latest.append(split_mix(*inputs))
        return latest[-1]

    patch.setattr(sublayer_module, "split_mix", remembering)
    patch.setattr(hyper_connections_module, "collapse", lambda streams, pre: collapse(streams, latest[-1].pre))


def scale_entries_by_their_maximum(patch: Patch, _: Backbone) -> None:
    def mutant(_: Wide, x: Tensor) -> Quantized:
        groups = x.float().unflatten(-1, (-1, Q4C.group))
        scales = encode_e4m3(groups.abs().amax(-1).clamp_min(2.0**-9))
        codes = encode_e2m1(groups / decode_e4m3(scales)[..., None])
        return Quantized(pack_e2m1(codes.flatten(-2)), scales, Q4C)

    patch.setattr(Wide, "quantize_q4c", mutant)


def rotate_entries_at(place: Callable[[Tensor], Tensor]) -> Callable[[Patch, Backbone], None]:
    def mutate(patch: Patch, _: Backbone) -> None:
        rotation_at = compressor_module.rotation_at
        patch.setattr(
            compressor_module,
            "rotation_at",
            lambda positions, *rest: rotation_at(place(positions), *rest),
        )

    return mutate


def forget_the_engram_rows(patch: Patch, backbone: Backbone) -> None:
    gather = backbone.engram_rows.gather

    def zeros(layer_id: int, row_ids: Tensor) -> Quantized:
        rows = gather(layer_id, row_ids)
        return Quantized(torch.zeros_like(rows.codes), rows.scales, rows.format)

    patch.setattr(backbone.engram_rows, "gather", zeros)


def weigh_experts_by_biased_scores(patch: Patch, _: Backbone) -> None:
    route = sublayer_module.route

    def mutant(x: Tensor, router: Router, mask: Tensor | None, a: Wide) -> Routes:
        routes = route(x, router, mask, a)
        scores = a.sqrt(a.softplus(a.linear_float32(x, router.gate))) + router.bias
        chosen = scores.gather(1, routes.expert_ids)
        return replace(routes, weights=chosen / chosen.sum(-1, keepdim=True) * router.scale)

    patch.setattr(sublayer_module, "route", mutant)


def transpose_comb(patch: Patch, _: Backbone) -> None:
    for module in (projections_module, mixture_module):
        patch.setattr(module, "expand", transposing(module.expand))


def transposing(expand: Callable[..., Tensor]) -> Callable[..., Tensor]:
    return lambda x, streams, mix, a: expand(x, streams, replace(mix, comb=mix.comb.transpose(1, 2)), a)


def leave_probabilities_unrounded(patch: Patch, _: Backbone) -> None:
    def mutant(q: Tensor, pool: Tensor, columns: Tensor, sink: Tensor, _: Wide) -> Tensor:
        keys = pool[columns.clamp_min(0)].double()
        scores = torch.einsum("thd,tkd->thk", q.double(), keys) * q.shape[-1] ** -0.5
        scores = scores.masked_fill((columns < 0)[:, None], -torch.inf)
        logits = torch.cat((scores, sink.double()[None, :, None].expand(q.shape[0], -1, 1)), dim=-1)
        return torch.einsum("thk,tkd->thd", logits.softmax(-1)[..., :-1], keys).to(torch.bfloat16)

    patch.setattr(sparse_attention_module, "sparse_attention", mutant)


MUTATIONS: dict[str, tuple[Callable[[Patch, Backbone], None], str]] = {
    "a per-head norm on q": (norm_queries_per_head, "layer 2"),
    "a per-head norm on q, from the ids": (norm_queries_per_head, "end to end"),
    # Either order converges to nearly the same matrix, so only a check of all bits can see it.
    "Sinkhorn normalises columns first": (normalise_columns_first, "end to end"),
    "pre collapses its own sublayer": (use_pre_at_once, "layer 2"),
    "pre collapses its own sublayer, from the ids": (use_pre_at_once, "end to end"),
    "the E4M3 scale is not divided by 6": (scale_entries_by_their_maximum, "layer 2"),
    "entries are rotated where they are written": (rotate_entries_at(lambda p: p // 2), "layer 2"),
    "entries are rotated at their last token": (rotate_entries_at(lambda p: p + 1), "layer 2"),
    "Engram rows are zero": (forget_the_engram_rows, "end to end"),
    "the bias enters the weights": (weigh_experts_by_biased_scores, "layer 1"),
    "the bias enters the weights, from the ids": (weigh_experts_by_biased_scores, "end to end"),
    "comb is transposed": (transpose_comb, "layer 4"),
    "comb is transposed, from the ids": (transpose_comb, "end to end"),
    "probabilities are not rounded to bf16": (leave_probabilities_unrounded, "layer 6"),
}


@pytest.mark.parametrize("check", ["end to end", "layer 1", "layer 2", "layer 4", "layer 6"])
def test_the_model_as_it_is_passes(check: str, checks: Checks) -> None:
    assert checks[check]() == []


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_mistake_is_seen(name: str, checks: Checks, backbone: Backbone, monkeypatch: Patch) -> None:
    mutate, check = MUTATIONS[name]
    mutate(monkeypatch, backbone)
    assert checks[check]() != []
