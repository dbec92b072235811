"""Engram rows from the shards, or from tables copied into memory."""

from collections.abc import Sequence

import torch
from jaxtyping import Int64
from torch import Tensor

from shoal.checkpoint.shards import Checkpoint
from shoal.config.layer_plan import LayerPlan
from shoal.errors import TensorError
from shoal.formats.float8 import E4M3_NAN, E8M0_NAN
from shoal.ops.quantize import Q8, Quantized
from shoal.weights.reader import WeightReader


class MappedEngramRows:
    """Each row is read from its shard when asked for: slow, obvious, what every other store must equal."""

    def __init__(self, checkpoint: Checkpoint, plans: Sequence[LayerPlan]) -> None:
        self.checkpoint = checkpoint
        self.names = table_names(plans)

    def request(self, layer_id: int, row_ids: Sequence[int]) -> None:
        """Ignored: rows are read when they are gathered."""

    def gather(self, layer_id: int, row_ids: Int64[Tensor, "rows"]) -> Quantized:
        """Every distinct row is read once."""
        name = self.names[layer_id]
        distinct, places = row_ids.unique(return_inverse=True)
        codes = self.checkpoint.read_rows(f"{name}.weight", distinct)
        scales = self.checkpoint.read_rows(f"{name}.scale", distinct)
        refuse_nan_rows(codes, scales, distinct, name)
        return Quantized(codes, scales, Q8)[places]


class ResidentEngramRows:
    """The whole tables in memory."""

    def __init__(self, reader: WeightReader, plans: Sequence[LayerPlan]) -> None:
        self.names = table_names(plans)
        # Rows are looked at when they are gathered.
        reader.expect(table_tensors(plans), refuse_nan=False)
        self.tables = {
            layer: Quantized(reader.tensor(f"{name}.weight"), reader.tensor(f"{name}.scale"), Q8)
            for layer, name in self.names.items()
        }

    def request(self, layer_id: int, row_ids: Sequence[int]) -> None:
        """Nothing to do."""

    def gather(self, layer_id: int, row_ids: Int64[Tensor, "rows"]) -> Quantized:
        """Copies of the rows."""
        rows = self.tables[layer_id][row_ids]
        refuse_nan_rows(rows.codes, rows.scales, row_ids, self.names[layer_id])
        return rows


def table_names(plans: Sequence[LayerPlan]) -> dict[int, str]:
    """The name of each Engram layer's table, to which `.weight` and `.scale` are added."""
    return {plan.layer_id: f"{plan.prefix}.engram.embed" for plan in plans if plan.engram_index is not None}


def table_tensors(plans: Sequence[LayerPlan]) -> list[str]:
    """The tensors of all tables: codes and scales."""
    return [f"{name}.{part}" for name in table_names(plans).values() for part in ("weight", "scale")]


def refuse_nan_rows(codes: Tensor, scales: Tensor, row_ids: Tensor, name: str) -> None:
    """TensorError naming the first of the rows `row_ids` of table `name` that holds a NaN."""
    bad = ((codes & E4M3_NAN) == E4M3_NAN).any(-1) | (scales == E8M0_NAN).any(-1)
    if bool(bad.any()):
        raise nan_row_error(int(row_ids[torch.nonzero(bad)[0, 0]]), name)


def nan_row_error(row: int, name: str) -> TensorError:
    """The error of a row of table `name` that holds a NaN."""
    return TensorError(f"row {row:,} of `{name}` holds a NaN code or scale")
