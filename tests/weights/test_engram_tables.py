"""Engram rows are the same from the shards and from memory."""

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.checkpoint.shards import Checkpoint
from shoal.config.layer_plan import LayerPlan
from shoal.errors import TensorError
from shoal.weights.engram_tables import MappedEngramRows, ResidentEngramRows
from shoal.weights.reader import WeightReader

Plans = tuple[LayerPlan, ...]
ROWS = {1: 3688, 4: 3904}
Store = MappedEngramRows | ResidentEngramRows


@pytest.fixture(scope="module")
def stores(miniature: Checkpoint, plans: Plans) -> tuple[MappedEngramRows, ResidentEngramRows]:
    return MappedEngramRows(miniature, plans), ResidentEngramRows(WeightReader(miniature), plans)


@settings(max_examples=25)
@given(layer=st.sampled_from([1, 4]), shares=st.lists(st.floats(0, 1), max_size=12))
def test_resident_rows_are_the_mapped_ones(stores: tuple[Store, Store], layer: int, shares: list[float]) -> None:
    rows = torch.tensor([round(share * (ROWS[layer] - 1)) for share in [*shares, *shares[:2]]], dtype=torch.int64)
    mapped, resident = (store.gather(layer, rows) for store in stores)
    assert torch.equal(mapped.codes, resident.codes) and torch.equal(mapped.scales, resident.scales)


@pytest.mark.parametrize("layer", [1, 4])
def test_rows_come_in_the_order_asked_for(stores: tuple[Store, Store], miniature: Checkpoint, layer: int) -> None:
    asked = torch.tensor([ROWS[layer] - 1, 0, 17, 0])
    table = miniature.tensor(f"layers.{layer}.engram.embed.weight")
    for store in stores:
        assert torch.equal(store.gather(layer, asked).codes, table[asked])


@pytest.mark.parametrize("resident", [False, True])
@pytest.mark.parametrize(("part", "width"), [("weight", 64), ("scale", 2)])
def test_a_row_with_nan_is_named(spoiled: Any, plans: Plans, resident: bool, part: str, width: int) -> None:
    spoiled.poke(f"layers.4.engram.embed.{part}", 2500 * width, b"\xff")
    with Checkpoint.open(spoiled.directory) as checkpoint:
        reader = WeightReader(checkpoint)
        store = ResidentEngramRows(reader, plans) if resident else MappedEngramRows(checkpoint, plans)
        store.gather(4, torch.tensor([2499, 2501]))
        with pytest.raises(TensorError, match=r"row 2,500 of `layers\.4\.engram\.embed` holds a NaN"):
            store.gather(4, torch.tensor([7, 2500, 8]))
