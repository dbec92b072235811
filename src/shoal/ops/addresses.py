"""Tensors as the kernels take them: addresses of contiguous memory, and room for results."""

import torch
from torch import Tensor

from shoal.ops.quantize import BlockFormat, Quantized
from shoal.ops.weights import Float8Weight


def address(tensor: Tensor | None) -> int:
    """Where a contiguous tensor begins; 0 for none."""
    if tensor is None:
        return 0
    assert tensor.is_contiguous(), (tensor.shape, tensor.stride())
    return tensor.data_ptr()


def float8_addresses(weight: Float8Weight) -> tuple[int, int]:
    """Of codes and scales."""
    return address(weight.codes), address(weight.scales)


def quantized_addresses(rows: Quantized) -> tuple[int, int]:
    """Of codes and scales."""
    return address(rows.codes), address(rows.scales)


def empty_quantized(format: BlockFormat, *shape: int) -> Quantized:
    """Room for `shape[:-1]` rows of `shape[-1]` values; what it holds means nothing."""
    *rows, columns = shape
    assert columns % format.group == 0, (shape, format.group)
    codes = torch.empty((*rows, format.code_bytes(columns)), dtype=torch.uint8)
    return Quantized(codes, torch.empty((*rows, format.scale_bytes(columns)), dtype=torch.uint8), format)
