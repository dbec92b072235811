"""The elementwise kernels, for tensors: quantisers, norms, hyper-connections, pooling, Engram, the router's tail.

Tensors are checked here once; the kernels trust them.
"""

import torch
from jaxtyping import BFloat16, Bool, Float32, Int64
from torch import Tensor

from shoal._native import EXP, SIGMOID, SILU, SOFTPLUS
from shoal._native import Kernels as Native
from shoal.ops.addresses import address, empty_quantized, quantized_addresses
from shoal.ops.quantize import Q4C, Q4I, Q8, BlockFormat, Quantized

__all__ = ["EXP", "SIGMOID", "SILU", "SOFTPLUS", "ElementwiseKernels"]

Mixes = tuple[Float32[Tensor, "tokens n"], Float32[Tensor, "tokens n"], Float32[Tensor, "tokens n n"]]
Chosen = tuple[Int64[Tensor, "tokens active"], Float32[Tensor, "tokens active"], Float32[Tensor, "tokens"]]


class ElementwiseKernels:
    """The elementwise operators of one instruction set on a pool of threads."""

    native: Native

    def elementary(self, function: int, x: Float32[Tensor, "*shape"]) -> Float32[Tensor, "*shape"]:
        """EXP, SIGMOID, SILU or SOFTPLUS of every element, as `Wide` computes them."""
        x = _plain(x, torch.float32)
        y = torch.empty_like(x)
        self.native.elementary(function, x.data_ptr(), y.data_ptr(), x.numel())
        return y

    def quantize_q8(self, x: BFloat16[Tensor, "*rows columns"]) -> Quantized:
        """`quantize_q8_torch`, for finite x whose columns are a multiple of 32."""
        x, result, rows = _to_quantize(x, Q8)
        self.native.quantize_q8(x.data_ptr(), *quantized_addresses(result), rows, x.shape[-1])
        return result

    def quantize_q4i(self, x: BFloat16[Tensor, "*rows columns"]) -> Quantized:
        """`quantize_q4i_torch`, for finite x whose columns are a multiple of 32."""
        x, result, rows = _to_quantize(x, Q4I)
        self.native.quantize_q4i(x.data_ptr(), *quantized_addresses(result), rows, x.shape[-1])
        return result

    def quantize_q4c(self, x: BFloat16[Tensor, "*rows columns"]) -> Quantized:
        """`quantize_q4c_torch`, for finite x whose columns are a multiple of 16."""
        x, result, rows = _to_quantize(x, Q4C)
        self.native.quantize_q4c(x.data_ptr(), *quantized_addresses(result), rows, x.shape[-1])
        return result

    def rms_norm(
        self, x: BFloat16[Tensor, "*rows columns"], weight: BFloat16[Tensor, "columns"], eps: float
    ) -> BFloat16[Tensor, "*rows columns"]:
        """`rms_norm_torch`, its sum in sixteen float32 lanes."""
        x, weight = _plain(x, torch.bfloat16), _row_of(weight, x.shape[-1])
        y = torch.empty_like(x)
        self.native.rms_norm(x.data_ptr(), weight.data_ptr(), y.data_ptr(), _rows(x), x.shape[-1], eps)
        return y

    def rms_norm_q8(
        self, x: BFloat16[Tensor, "*rows columns"], weight: BFloat16[Tensor, "columns"], eps: float
    ) -> tuple[BFloat16[Tensor, "*rows columns"], Quantized]:
        """`rms_norm` and Q8 of its result in one pass."""
        x, result, rows = _to_quantize(x, Q8)
        weight, y = _row_of(weight, x.shape[-1]), torch.empty_like(x)
        outputs = y.data_ptr(), *quantized_addresses(result)
        self.native.rms_norm_q8(x.data_ptr(), weight.data_ptr(), *outputs, rows, x.shape[-1], eps)
        return y, result

    def mean_square(self, x: BFloat16[Tensor, "rows columns"]) -> Float32[Tensor, "rows"]:
        """Mean of x² of every row, summed in sixteen float32 lanes."""
        x = _plain(x, torch.bfloat16)
        y = torch.empty(x.shape[0])
        self.native.mean_square(x.data_ptr(), y.data_ptr(), *x.shape)
        return y

    def collapse_norm(
        self,
        streams: BFloat16[Tensor, "tokens streams dim"],
        pre: Float32[Tensor, "tokens streams"],
        weight: BFloat16[Tensor, "dim"],
        eps: float,
    ) -> BFloat16[Tensor, "tokens dim"]:
        """`rms_norm` of `collapse`."""
        tokens, count, dim = streams.shape
        h, coefficients, norm = _to_collapse(streams, pre, weight)
        y = torch.empty((tokens, dim), dtype=streams.dtype)
        inputs = h.data_ptr(), coefficients.data_ptr(), norm.data_ptr()
        self.native.collapse_norm(*inputs, y.data_ptr(), 0, 0, tokens, count, dim, eps)
        return y

    def collapse_norm_q8(
        self,
        streams: BFloat16[Tensor, "tokens streams dim"],
        pre: Float32[Tensor, "tokens streams"],
        weight: BFloat16[Tensor, "dim"],
        eps: float,
    ) -> tuple[BFloat16[Tensor, "tokens dim"], Quantized]:
        """`collapse_norm` and Q8 of its result in one pass."""
        tokens, count, dim = streams.shape
        h, coefficients, norm = _to_collapse(streams, pre, weight)
        y = torch.empty((tokens, dim), dtype=streams.dtype)
        result = empty_quantized(Q8, *y.shape)
        inputs = h.data_ptr(), coefficients.data_ptr(), norm.data_ptr()
        self.native.collapse_norm(*inputs, y.data_ptr(), *quantized_addresses(result), tokens, count, dim, eps)
        return y, result

    def expand(
        self,
        x: BFloat16[Tensor, "tokens dim"],
        streams: BFloat16[Tensor, "tokens streams dim"],
        post: Float32[Tensor, "tokens streams"],
        comb: Float32[Tensor, "tokens streams streams"],
    ) -> BFloat16[Tensor, "tokens streams dim"]:
        """`expand_torch`."""
        tokens, count, dim = streams.shape
        assert x.shape == (tokens, dim) and post.shape == (tokens, count), (x.shape, post.shape)
        assert comb.shape == (tokens, count, count), comb.shape
        x, streams = _plain(x, torch.bfloat16), _plain(streams, torch.bfloat16)
        post, comb, y = _plain(post, torch.float32), _plain(comb, torch.float32), torch.empty_like(streams)
        inputs = x.data_ptr(), streams.data_ptr(), post.data_ptr(), comb.data_ptr()
        self.native.expand(*inputs, y.data_ptr(), tokens, count, dim)
        return y

    def split_mix(
        self,
        u: Float32[Tensor, "tokens coefficients"],
        mean_square: Float32[Tensor, "tokens"] | None,
        scale: Float32[Tensor, "3"],
        base: Float32[Tensor, "coefficients"],
        streams: int,
        iterations: int,
        eps: float,
        norm_eps: float,
    ) -> Mixes:
        """`split_mix_torch` of u, times 1/√(mean_square + norm_eps) of its row where given: pre, post and comb."""
        assert u.shape[1] == base.numel() == streams * (streams + 2) and scale.numel() == 3, (u.shape, streams)
        assert iterations > 0, iterations
        tokens = u.shape[0]
        u, scale, base = (_plain(tensor, torch.float32) for tensor in (u, scale, base))
        if mean_square is not None:
            mean_square = _plain(mean_square, torch.float32)
            assert mean_square.shape == (tokens,), mean_square.shape
        pre, post = torch.empty((tokens, streams)), torch.empty((tokens, streams))
        comb = torch.empty((tokens, streams, streams))
        inputs = u.data_ptr(), address(mean_square), scale.data_ptr(), base.data_ptr()
        outputs = pre.data_ptr(), post.data_ptr(), comb.data_ptr()
        self.native.split_mix(*inputs, *outputs, tokens, streams, iterations, eps, norm_eps)
        return pre, post, comb

    def pool_groups(
        self, values: Float32[Tensor, "groups ratio dim"], gates: Float32[Tensor, "groups ratio dim"]
    ) -> BFloat16[Tensor, "groups dim"]:
        """`pool_groups_torch`."""
        assert values.shape == gates.shape and values.shape[1] > 0, (values.shape, gates.shape)
        values, gates = _plain(values, torch.float32), _plain(gates, torch.float32)
        y = torch.empty((values.shape[0], values.shape[2]), dtype=torch.bfloat16)
        self.native.pool_groups(values.data_ptr(), gates.data_ptr(), y.data_ptr(), *values.shape)
        return y

    def gather_rows(self, table: Quantized, row_ids: Int64[Tensor, "rows"] | None = None) -> Quantized:
        """Q8 of the table's rows dequantised to bf16, all of them in order where no ids are given.

        The table is Q8 in layout, but its scales are the checkpoint's: Q8 itself would often have chosen smaller ones.
        The rows hold no NaN.
        """
        assert table.format is Q8 and table.codes.is_contiguous() and table.scales.is_contiguous(), table.format
        num_rows, columns = table.codes.shape
        assert table.scales.shape == (num_rows, columns // Q8.group), (table.codes.shape, table.scales.shape)
        if row_ids is not None:
            row_ids = _plain(row_ids, torch.int64)
            assert not row_ids.numel() or (int(row_ids.min()) >= 0 and int(row_ids.max()) < num_rows), num_rows
            num_rows = row_ids.numel()
        result = empty_quantized(Q8, num_rows, columns)
        self.native.gather_rows(
            *quantized_addresses(table), address(row_ids), *quantized_addresses(result), num_rows, columns
        )
        return result

    def engram_gate(
        self,
        streams: BFloat16[Tensor, "tokens streams dim"],
        projected: BFloat16[Tensor, "tokens projections"],
        q_weight: BFloat16[Tensor, "streams dim"],
        k_weight: BFloat16[Tensor, "streams dim"],
        image_mask: Bool[Tensor, "tokens"] | None,
        eps: float,
    ) -> BFloat16[Tensor, "tokens streams dim"]:
        """`gate_streams_torch`, its sums in sixteen float32 lanes; `projected` holds a key a stream, then the value."""
        tokens, count, dim = streams.shape
        assert projected.shape == (tokens, (count + 1) * dim), (projected.shape, streams.shape)
        assert q_weight.shape == k_weight.shape == (count, dim), (q_weight.shape, k_weight.shape)
        streams, projected = _plain(streams, torch.bfloat16), _plain(projected, torch.bfloat16)
        q_weight, k_weight = _plain(q_weight, torch.bfloat16), _plain(k_weight, torch.bfloat16)
        mask, y = _mask(image_mask, tokens), torch.empty_like(streams)
        inputs = streams.data_ptr(), projected.data_ptr(), q_weight.data_ptr(), k_weight.data_ptr()
        self.native.engram_gate(*inputs, address(mask), y.data_ptr(), tokens, count, dim, eps)
        return y

    def route(
        self,
        logits: Float32[Tensor, "tokens experts"],
        bias: Float32[Tensor, "experts"],
        bias_vl: Float32[Tensor, "experts"],
        image_mask: Bool[Tensor, "tokens"] | None,
        active: int,
        route_scale: float,
    ) -> Chosen:
        """`route_logits_torch`: expert ids best first, their weights, the margin."""
        tokens, experts = logits.shape
        assert bias.shape == bias_vl.shape == (experts,), (bias.shape, bias_vl.shape)
        logits, bias, bias_vl = (_plain(tensor, torch.float32) for tensor in (logits, bias, bias_vl))
        mask = _mask(image_mask, tokens)
        ids = torch.empty((tokens, active), dtype=torch.int64)
        weights, margin = torch.empty((tokens, active)), torch.empty(tokens)
        inputs = logits.data_ptr(), bias.data_ptr(), bias_vl.data_ptr(), address(mask)
        outputs = ids.data_ptr(), weights.data_ptr(), margin.data_ptr()
        self.native.route(*inputs, *outputs, tokens, experts, active, route_scale)
        return ids, weights, margin


def _plain(x: Tensor, dtype: torch.dtype) -> Tensor:
    """x in rows end to end."""
    assert x.dtype == dtype, (x.dtype, dtype)
    return x.contiguous()


def _row_of(weight: Tensor, columns: int) -> Tensor:
    assert weight.shape == (columns,), (weight.shape, columns)
    return _plain(weight, torch.bfloat16)


def _rows(x: Tensor) -> int:
    return x.numel() // x.shape[-1] if x.shape[-1] else 0


def _mask(image_mask: Tensor | None, tokens: int) -> Tensor | None:
    if image_mask is None:
        return None
    assert image_mask.shape == (tokens,), (image_mask.shape, tokens)
    return _plain(image_mask, torch.bool)


def _to_quantize(x: Tensor, format: BlockFormat) -> tuple[Tensor, Quantized, int]:
    return _plain(x, torch.bfloat16), empty_quantized(format, *x.shape), _rows(x)


def _to_collapse(streams: Tensor, pre: Tensor, weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    tokens, count, dim = streams.shape
    assert pre.shape == (tokens, count), (pre.shape, streams.shape)
    return _plain(streams, torch.bfloat16), _plain(pre, torch.float32), _row_of(weight, dim)
