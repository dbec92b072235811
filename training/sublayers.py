"""The stretches of a layer between its data-dependent parts, each one graph that `torch.compile` fuses (spec §4).

Tokens are end to end. All values are rounded where the release rounds them.
"""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from training import fake_quantize as fq
from training.streams import Mix, collapse, expand, mix

SWIGLU_LIMIT = 10.0


class Entered(NamedTuple):
    """Attention's inputs: x and qr [tokens, ...], q [tokens, heads, dim], kv [tokens, dim], and its mix."""

    x: Tensor
    qr: Tensor
    q: Tensor
    kv: Tensor
    mix: Mix


class Returned(NamedTuple):
    """After attention: the streams, the mixture's mix and input in Q8, router scores, the shared expert's output."""

    streams: Tensor
    mix: Mix
    x_q8: Tensor
    scores: Tensor
    shared: Tensor


def rms_norm(x: Tensor, weight: Tensor) -> Tensor:
    """x / √mean x² · weight."""
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-20) * weight


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """x [tokens, ..., dim] with its last 2·pairs dims turned; cos and sin [tokens, pairs]."""
    pairs = cos.shape[1]
    kept, turned = x[..., : x.shape[-1] - 2 * pairs], x[..., x.shape[-1] - 2 * pairs :]
    if x.dim() == 3:
        cos, sin = cos[:, None], sin[:, None]
    real, imaginary = turned[..., 0::2], turned[..., 1::2]
    rotated = torch.stack((real * cos - imaginary * sin, real * sin + imaginary * cos), dim=-1).flatten(-2)
    return fq.bfloat16(torch.cat((kept, rotated), dim=-1))


def normed(streams: Tensor, pre: Tensor, weight: Tensor) -> Tensor:
    """A sublayer's input: the collapsed streams, normed."""
    return fq.bfloat16(rms_norm(fq.bfloat16(collapse(streams, pre)), weight))


def enter_attention(
    streams: Tensor,
    pre: Tensor,
    cos: Tensor,
    sin: Tensor,
    hc: tuple[Tensor, Tensor, Tensor],
    norm: Tensor,
    query: tuple[Tensor, Tensor, Tensor],
    key: tuple[Tensor, Tensor],
    heads: int,
) -> Entered:
    """Mix, norm and projections; `query` is wq_a, q_norm, wq_b, `key` is wkv, kv_norm."""
    coefficients = mix(streams, *hc)
    x = normed(streams, pre, norm)
    x_q8 = fq.q8(x)
    qr = fq.q8(fq.bfloat16(rms_norm(fq.bfloat16(x_q8 @ query[0].T), query[1])))
    q = rotate(fq.bfloat16(qr @ query[2].T).unflatten(1, (heads, -1)), cos, sin)
    kv = fq.bfloat16(rms_norm(fq.bfloat16(x_q8 @ key[0].T), key[1]))
    return Entered(x, qr, q, fq.q8(rotate(kv, cos, sin)), coefficients)


def return_attention(
    o: Tensor,
    cos: Tensor,
    sin: Tensor,
    output: tuple[Tensor, Tensor],
    streams: Tensor,
    attention_mix: Mix,
    hc: tuple[Tensor, Tensor, Tensor],
    norm: Tensor,
    gate: Tensor,
    shared: tuple[Tensor, Tensor, Tensor],
    groups: int,
) -> Returned:
    """Output projection, streams, and the mixture's inputs; o [tokens, heads, dim] is not yet turned back."""
    o = rotate(fq.bfloat16(o), cos, -sin).flatten(1).unflatten(1, (groups, -1))
    wo_a = output[0].unflatten(0, (groups, -1))
    t = torch.cat([fq.bfloat16(o[:, group] @ wo_a[group].T) for group in range(groups)], 1)
    out = fq.bfloat16(fq.q8(t) @ output[1].T)
    streams = fq.bfloat16(expand(out, streams, attention_mix.post, attention_mix.comb))
    coefficients = mix(streams, *hc)
    x = normed(streams, attention_mix.pre, norm)
    x_q8 = fq.q8(x)
    scores = functional.softplus(x @ gate.T).sqrt()
    both = fq.bfloat16(x_q8 @ shared[0].T), fq.bfloat16(x_q8 @ shared[1].T)
    return Returned(streams, coefficients, x_q8, scores, fq.bfloat16(_swiglu_q8(*both) @ shared[2].T))


def routed_swiglu(both: Tensor, weights: Tensor) -> Tensor:
    """The second matrix's input of routed experts: both is [rows, 2·inner], weights [rows]."""
    inner = both.shape[1] // 2
    both = fq.bfloat16(both)
    return _swiglu_q8(both[:, :inner], both[:, inner:], weights[:, None])


def return_mixture(
    out: Tensor, chosen: int, back: Tensor, shared: Tensor, streams: Tensor, coefficients: Mix
) -> Tensor:
    """The streams after the mixture; `out` are the experts' rows, `back` where each token's lie among them."""
    routed = fq.bfloat16(out)[back].unflatten(0, (-1, chosen)).sum(1)
    return fq.bfloat16(expand(fq.bfloat16(routed + shared), streams, coefficients.post, coefficients.comb))


def remember(streams: Tensor, rows: Tensor, wkv: Tensor, q_weight: Tensor, k_weight: Tensor) -> Tensor:
    """The streams with what the Engram rows [tokens, width] of their n-grams add (spec §6.3)."""
    count, _, dim = streams.shape
    projected = fq.bfloat16(fq.q8(rows) @ wkv.T)
    key = projected[:, : count * dim].unflatten(1, (count, -1)).transpose(0, 1)
    value = projected[:, count * dim :]
    norms = torch.rsqrt(streams.square().mean(-1) + 1e-20) * torch.rsqrt(key.square().mean(-1) + 1e-20)
    dot = (streams * (q_weight * k_weight)[:, None] * key).sum(-1) * norms * dim**-0.5
    root = torch.sqrt(dot.abs().clamp_min(1e-6))
    gate = torch.sigmoid(torch.where(dot < 0, -root, root))
    return fq.bfloat16(streams + gate[..., None] * value)


def _swiglu_q8(gate: Tensor, up: Tensor, weights: Tensor | None = None) -> Tensor:
    a = functional.silu(gate.clamp_max(SWIGLU_LIMIT)) * up.clamp(-SWIGLU_LIMIT, SWIGLU_LIMIT)
    return fq.q8(fq.bfloat16(a if weights is None else a * weights))
