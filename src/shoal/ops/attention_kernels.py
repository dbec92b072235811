"""Sparse attention and rope by the native kernels. Tensors are checked here once; the kernels trust them."""

from typing import TYPE_CHECKING

import torch
from jaxtyping import BFloat16, Float32, Int64
from torch import Tensor

from shoal.ops.paged_rows import place_of
from shoal.ops.quantize import Q4C, Q8, BlockFormat, Quantized
from shoal.ops.rotation import Rotation

if TYPE_CHECKING:
    from shoal._native import Kernels as Native
    from shoal.ops.sparse_attention import SelectedEntries, WindowKeys


class AttentionKernels:
    """What `Kernels` offers for attention."""

    native: "Native"

    def attention(
        self,
        q: BFloat16[Tensor, "tokens heads dim"],
        window: "WindowKeys",
        compressed: "SelectedEntries | None",
        sink: Float32[Tensor, "heads"],
        rotation: Rotation,
    ) -> BFloat16[Tensor, "tokens heads dim"]:
        """`attend_torch` in float32: sums by fma in a written order, the same bits alone and in any company."""
        tokens, heads, dim = q.shape
        pairs = rotation.cos.shape[1]
        assert q.dtype == torch.bfloat16 and dim % Q8.group == 0 and 2 * pairs <= dim, (q.dtype, q.shape, pairs)
        assert sink.shape == (heads,) and sink.dtype == torch.float32, (sink.shape, sink.dtype)
        q, sink, y = q.contiguous(), sink.contiguous(), torch.empty(q.shape, dtype=torch.bfloat16)
        own, ring = _checked(window.own, Q8, tokens, dim), _checked(window.ring, Q8, None, dim)
        cos, sin = _angles(rotation, tokens)
        # Kept here, so that what contiguous() may have copied lives until the kernel returns.
        entries, selected = None, None
        if compressed is not None:
            entries, selected = place_of(compressed.entries, Q4C, dim), compressed.selected.contiguous()
            assert selected.dtype == torch.int64 and selected.shape[0] == tokens, (selected.dtype, selected.shape)
        self.native.attention(
            q.data_ptr(),
            own.codes.data_ptr(),
            own.scales.data_ptr(),
            ring.codes.data_ptr(),
            ring.scales.data_ptr(),
            0 if entries is None else entries.addresses.data_ptr(),
            0 if entries is None else entries.codes,
            0 if entries is None else entries.scales,
            0 if entries is None else entries.shift,
            0 if selected is None else selected.data_ptr(),
            sink.data_ptr(),
            cos.data_ptr(),
            sin.data_ptr(),
            tokens,
            heads,
            dim,
            ring.codes.shape[0],
            0 if selected is None else selected.shape[1],
            pairs,
            window.position,
            float(torch.tensor(dim**-0.5, dtype=torch.float32)),
            y.data_ptr(),
        )
        return y

    def rotate_rows(
        self, x: BFloat16[Tensor, "tokens *heads dim"], rotation: Rotation, inverse: bool = False
    ) -> BFloat16[Tensor, "tokens *heads dim"]:
        """`rotate` by the rotation, or by its inverse."""
        rows, dim, pairs = x.shape[0], x.shape[-1], rotation.cos.shape[1]
        assert x.dtype == torch.bfloat16 and 2 * pairs <= dim, (x.dtype, x.shape, pairs)
        x, y = x.contiguous(), torch.empty(x.shape, dtype=torch.bfloat16)
        cos, sin = _angles(rotation, rows)
        heads = x.shape[1:-1].numel()
        self.native.rotate_rows(
            x.data_ptr(), cos.data_ptr(), sin.data_ptr(), rows, heads, dim, pairs, inverse, y.data_ptr()
        )
        return y

    def rope_table(
        self, positions: Int64[Tensor, "tokens"], frequencies: Float32[Tensor, "pairs"]
    ) -> tuple[Float32[Tensor, "tokens pairs"], Float32[Tensor, "tokens pairs"]]:
        """cos and sin of `rotation_at`, as `Wide` computes them."""
        assert positions.dtype == torch.int64 and frequencies.dtype == torch.float32, (positions, frequencies)
        positions, frequencies = positions.contiguous(), frequencies.contiguous()
        shape = positions.numel(), frequencies.numel()
        cos, sin = torch.empty(shape), torch.empty(shape)
        self.native.rope_table(positions.data_ptr(), frequencies.data_ptr(), *shape, cos.data_ptr(), sin.data_ptr())
        return cos, sin


def _checked(rows: Quantized, format: BlockFormat, count: int | None, dim: int) -> Quantized:
    codes, scales = rows.codes.contiguous(), rows.scales.contiguous()
    wanted = codes.shape[0] if count is None else count
    assert rows.format is format, (rows.format.name, format.name)
    assert codes.shape == (wanted, format.code_bytes(dim)), (codes.shape, wanted, dim)
    assert scales.shape == (wanted, format.scale_bytes(dim)), (scales.shape, wanted, dim)
    return Quantized(codes, scales, format)


def _angles(rotation: Rotation, rows: int) -> tuple[Tensor, Tensor]:
    cos, sin = rotation.cos.contiguous(), rotation.sin.contiguous()
    assert cos.shape == sin.shape == (rows, cos.shape[1]), (cos.shape, sin.shape, rows)
    assert cos.dtype == sin.dtype == torch.float32, (cos.dtype, sin.dtype)
    return cos, sin
