"""Packed matrices: which scale belongs to which code (spec §3)."""

import pytest
import torch

from shoal.ops.weights import Float4Weight, Float8Weight, dequantize_weight

ONE_E4M3, ONE_E2M1_TWICE, ONE_E8M0 = 0x38, 0x22, 127


def test_an_fp8_scale_covers_a_tile_of_32_by_32() -> None:
    scales = torch.tensor([[127, 128], [129, 130]], dtype=torch.uint8)
    weight = dequantize_weight(Float8Weight(torch.full((64, 64), ONE_E4M3, dtype=torch.uint8), scales))
    assert weight[[0, 31, 0, 31, 32, 63], [0, 31, 32, 63, 0, 63]].tolist() == [1, 1, 2, 2, 4, 8]


@pytest.mark.parametrize(("rows", "columns"), [(33, 32), (32, 33), (40, 70), (1, 1)])
def test_tiles_at_the_edges_may_be_cut(rows: int, columns: int) -> None:
    tiles = (-(-rows // 32), -(-columns // 32))
    scales = torch.arange(120, 120 + tiles[0] * tiles[1], dtype=torch.uint8).reshape(tiles)
    weight = dequantize_weight(Float8Weight(torch.full((rows, columns), ONE_E4M3, dtype=torch.uint8), scales))
    assert weight.shape == (rows, columns)
    assert weight[-1, -1].item() == 2.0 ** (int(scales[-1, -1]) - 127)


def test_an_fp4_scale_covers_32_inputs_of_one_row() -> None:
    scales = torch.tensor([[127, 128], [129, 130]], dtype=torch.uint8)
    weight = dequantize_weight(Float4Weight(torch.full((2, 32), ONE_E2M1_TWICE, dtype=torch.uint8), scales))
    assert weight.shape == (2, 64)
    assert weight[[0, 0, 1, 1], [31, 32, 0, 63]].tolist() == [1, 2, 4, 8]


def test_an_fp4_row_begins_with_its_low_nibble() -> None:
    codes = torch.tensor([[0x21] + [0] * 15], dtype=torch.uint8)
    weight = dequantize_weight(Float4Weight(codes, torch.tensor([[ONE_E8M0]], dtype=torch.uint8)))
    assert weight[0, :3].tolist() == [0.5, 1.0, 0.0]


def test_bytes_are_counted_as_stored() -> None:
    def zeros(*shape: int) -> torch.Tensor:
        return torch.zeros(shape, dtype=torch.uint8)

    assert Float8Weight(zeros(64, 96), zeros(2, 3)).nbytes == 64 * 96 + 6
    # One routed expert's w1 of the release (spec §2.3).
    assert Float4Weight(zeros(2304, 2560), zeros(2304, 160)).nbytes == 5_898_240 + 368_640
