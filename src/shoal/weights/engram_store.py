"""Engram rows from the shards with a row cache: read ahead when they are requested, waited for when they are gathered.

Row ids depend on token ids alone, so a step's rows are requested before its first layer runs. What is requested is held
until it is gathered, beside the cache's budget, so the bits are the same for any budget and any request.
"""

import os
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Int64
from torch import Tensor

from shoal.checkpoint.shards import Checkpoint
from shoal.config.layer_plan import LayerPlan
from shoal.ops.quantize import Q8, Quantized
from shoal.plan.size import gib
from shoal.weights.engram_tables import refuse_nan_rows, table_names
from shoal.weights.row_cache import ABSENT, Ids, RowCache, Rows
from shoal.weights.row_reader import Reading, RowReader

# Requests that nobody gathers: of a sequence that ended, or a forward that was interrupted.
MOST_FORGOTTEN = 4
# A key is the layer's number above the row's.
ROW_BITS = 40


@dataclass
class EngramStatistics:
    """Distinct rows that steps asked for, how many were in memory, and what the others cost.

    `stall_seconds` is how long layers waited for rows; `reads` and `nbytes_read` count whole blocks.
    """

    rows: int = 0
    hits: int = 0
    reads: int = 0
    nbytes_read: int = 0
    stall_seconds: float = 0.0

    def line(self) -> str:
        """For a person."""
        share = 100 * self.hits / self.rows if self.rows else 0.0
        read = f"{self.reads:,} reads of {self.nbytes_read / (1 << 20):,.1f} MiB"
        return f"Engram: {self.rows:,} rows, {share:.0f} % in memory; {read}, waited {self.stall_seconds:.2f} s"


@dataclass(eq=False)
class _Request:
    """Rows of a layer, ascending: those of the cache are here, the `missing` ones are on their way."""

    row_ids: Ids
    parts: list[Rows]
    missing: Ids
    reading: Reading | None


class StoredEngramRows:
    """The tables of a checkpoint, `nbytes` of them in memory.

    Raises ValueError once it or its checkpoint is closed. Calls from several threads wait for each other.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        plans: Sequence[LayerPlan],
        nbytes: int,
        reader: RowReader | None = None,
    ) -> None:
        self.checkpoint, self.names = checkpoint, table_names(plans)
        self.reader = reader or RowReader(checkpoint)
        self.statistics = EngramStatistics()
        self._nbytes = nbytes
        self._requests: dict[int, list[_Request]] = {layer: [] for layer in self.names}
        self._process = os.getpid()
        self._lock = threading.Lock()

    @cached_property
    def cache(self) -> RowCache:
        """Made when the first row is wanted, after loading has checked the tables' shapes."""
        weights = [self.checkpoint.entry(f"{name}.weight") for name in self.names.values()]
        return RowCache(self._widths, self._nbytes, sum(entry.shape[0] for entry in weights))

    @cached_property
    def _widths(self) -> list[int]:
        """Bytes of a row's codes and of its scales, the same in all tables."""
        name = next(iter(self.names.values()))
        entries = [self.checkpoint.entry(f"{name}.{part}") for part in ("weight", "scale")]
        return [entry.nbytes // entry.shape[0] for entry in entries]

    def line(self) -> str:
        """Where rows live, for a person."""
        return f"those read last in at most {gib(self._nbytes)}, the others in the shards"

    def request(self, layer_id: int, row_ids: Sequence[int]) -> None:
        """Begin to read those that are neither in memory nor on their way."""
        with self._lock:
            # Not by np.unique, whose first call imports numpy.ma before the first token.
            self._begin(layer_id, np.array(sorted(set(row_ids)), dtype=np.int64))

    def gather(self, layer_id: int, row_ids: Int64[Tensor, "rows"]) -> Quantized:
        """Waits for what is not there yet."""
        distinct, places = row_ids.unique(return_inverse=True)
        with self._lock:
            codes, scales = self._collect(layer_id, distinct.numpy())
        return Quantized(torch.from_numpy(codes), torch.from_numpy(scales), Q8)[places]

    def close(self) -> None:
        """Ends what is under way."""
        with self._lock:
            self.reader.close()

    def _begin(self, layer_id: int, wanted: Ids) -> None:
        requests = self._requests_of(layer_id)
        for request in requests:
            if np.array_equal(wanted, request.row_ids):
                return
            wanted = wanted[~np.isin(wanted, request.row_ids, assume_unique=True)]
        if not len(wanted):
            return
        places = self.cache.find(_keys(layer_id, wanted))
        is_here = places != ABSENT
        missing = np.flatnonzero(~is_here)
        parts = [np.empty((len(wanted), width), dtype=np.uint8) for width in self._widths]
        for part, kept in zip(parts, self.cache.rows(places[is_here]), strict=True):
            part[is_here] = kept
        reading = self.reader.start(self._tensors(layer_id), wanted[missing]) if len(missing) else None
        requests.append(_Request(wanted, parts, missing, reading))
        self.statistics.rows += len(wanted)
        self.statistics.hits += len(wanted) - len(missing)

    def _collect(self, layer_id: int, wanted: Ids) -> list[Rows]:
        """Every part of the rows `wanted` (ascending), whose requests are then forgotten."""
        self._begin(layer_id, wanted)
        requests = self._requests_of(layer_id)
        parts = [np.empty((len(wanted), width), dtype=np.uint8) for width in self._widths]
        for request in list(requests):
            at = np.searchsorted(request.row_ids, wanted).clip(max=len(request.row_ids) - 1)
            here = request.row_ids[at] == wanted
            if not here.any():
                continue
            # Before it is known to be good: rows that could not be read are read again when they are asked for again.
            requests.remove(request)
            self._finish(layer_id, request)
            for part, given in zip(parts, request.parts, strict=True):
                part[here] = given[at[here]]
        del requests[:-MOST_FORGOTTEN]
        return parts

    def _finish(self, layer_id: int, request: _Request) -> None:
        if request.reading is None:
            return
        started = time.perf_counter()
        given = request.reading.finish()
        self.statistics.stall_seconds += time.perf_counter() - started
        cost = request.reading.cost()
        self.statistics.reads += cost.reads
        self.statistics.nbytes_read += cost.nbytes
        row_ids = request.row_ids[request.missing]
        codes, scales = (torch.from_numpy(part) for part in given)
        refuse_nan_rows(codes, scales, torch.from_numpy(row_ids), self.names[layer_id])
        for part, arrived in zip(request.parts, given, strict=True):
            part[request.missing] = arrived
        self.cache.put(_keys(layer_id, row_ids), given)

    def _requests_of(self, layer_id: int) -> list[_Request]:
        """Those under way; in a child of a fork none are."""
        if self._process != os.getpid():
            self._process = os.getpid()
            for requests in self._requests.values():
                requests.clear()
        return self._requests[layer_id]

    def _tensors(self, layer_id: int) -> tuple[str, str]:
        return f"{self.names[layer_id]}.weight", f"{self.names[layer_id]}.scale"


def _keys(layer_id: int, row_ids: Ids) -> Ids:
    return row_ids + (layer_id << ROW_BITS)
