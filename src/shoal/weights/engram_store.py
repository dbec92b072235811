"""Engram rows from the shards with a row cache: read ahead when they are requested, waited for when they are gathered.

Row ids depend on token ids alone, so a step's rows are requested before its first layer runs. What is requested is held
until it is gathered, beside the cache's budget, so the bits are the same for any budget and any request.
"""

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Int64
from torch import Tensor

import shoal._native as native
from shoal.checkpoint.header import TensorEntry
from shoal.checkpoint.shards import Checkpoint
from shoal.config.layer_plan import LayerPlan
from shoal.errors import TensorError
from shoal.ops.quantize import Q8, Quantized
from shoal.plan.size import gib
from shoal.weights.engram_tables import nan_row_error, table_names
from shoal.weights.row_reader import RowReader, read_problem, row_nbytes

WAIT_SECONDS = 0.1
"""Between two looks at what else the process is told, as an interrupt."""


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


@dataclass(frozen=True)
class _Table:
    """A layer's table: its number in the native store, its tensors, and one of these in each of their shards."""

    number: int
    name: str
    codes: TensorEntry
    scales: TensorEntry
    shards: tuple[str, ...]


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
        self.statistics, self._nbytes = EngramStatistics(), nbytes
        self._reads_by: native.RowReader | None = None
        self._native: native.RowStore | None = None
        self._tables: dict[int, _Table] = {}
        self._lock = threading.Lock()

    @property
    def readings(self) -> int:
        """How often reading was begun."""
        return self._native.readings if self._native else 0

    @property
    def cache_nbytes(self) -> int:
        """What the row cache takes when it is full."""
        return self._native.cache_nbytes if self._native else 0

    def line(self) -> str:
        """Where rows live, for a person."""
        return f"those read last in at most {gib(self._nbytes)}, the others in the shards"

    def request(self, layer_id: int, row_ids: Sequence[int]) -> None:
        """Begin to read those that are neither in memory nor on their way.

        Raises TensorError for a row that does not exist, and what opening a shard may raise.
        """
        with self._lock:
            store = self._open()
            table = self._table(store, layer_id)
            with _existing(table):
                store.request(table.number, list(row_ids))
            self.statistics.rows, self.statistics.hits = store.rows, store.hits

    def gather(self, layer_id: int, row_ids: Int64[Tensor, "rows"]) -> Quantized:
        """Waits for what is not there yet.

        Raises FileChangedError where rows could not be read or a shard is another by now, TensorError for a NaN.
        """
        wanted = row_ids.contiguous()
        with self._lock:
            store = self._open()
            table = self._table(store, layer_id)
            with _existing(table):
                gathering = store.gather(table.number, wanted.data_ptr(), len(wanted))
            self.statistics.rows, self.statistics.hits = store.rows, store.hits
            if gathering.has_read:
                self._await(gathering, table)
            codes, scales = (
                torch.empty(len(wanted), row_nbytes(part), dtype=torch.uint8) for part in (table.codes, table.scales)
            )
            gathering.copy_to(codes.data_ptr(), scales.data_ptr())
        return Quantized(codes, scales, Q8)

    def waiting(self, layer_id: int) -> int:
        """Requests of a layer that nobody has gathered yet."""
        table = self._tables.get(layer_id)
        return self._native.waiting(table.number) if self._native and table else 0

    def close(self) -> None:
        """Ends what is under way."""
        with self._lock:
            self.reader.close()

    def _await(self, gathering: native.RowGathering, table: _Table) -> None:
        started = time.perf_counter()
        while not gathering.wait(WAIT_SECONDS):
            pass
        self.statistics.stall_seconds += time.perf_counter() - started
        # The checkpoint's own word on a vanished or shortened file comes first: it says more.
        for name in table.shards:
            self.checkpoint.check(name)
        if (problem := gathering.problem()) is not None:
            of_scales, row, error = problem
            raise read_problem(table.scales if of_scales else table.codes, row, error)
        self.statistics.reads += gathering.reads
        self.statistics.nbytes_read += gathering.nbytes_read
        if (row_with_nan := gathering.nan_row()) is not None:
            raise nan_row_error(row_with_nan, table.name)

    def _open(self) -> native.RowStore:
        """Of this process; a child of a fork begins with an empty one. Made when the first row is wanted, after loading
        has checked the tables' shapes."""
        reader = self.reader.open()
        if self._native is None or self._reads_by is not reader:
            self._native, self._reads_by = native.RowStore(reader, *self._widths, self._nbytes, self._num_rows), reader
            self._tables.clear()
        return self._native

    def _table(self, store: native.RowStore, layer_id: int) -> _Table:
        if layer_id not in self._tables:
            name = self.names[layer_id]
            codes, scales = (self.checkpoint.entry(f"{name}.{part}") for part in ("weight", "scale"))
            places = [(self.reader.file_of(entry), entry.start) for entry in (codes, scales)]
            shards = {entry.path: entry.name for entry in (codes, scales)}
            number = store.add(places[0], places[1], codes.shape[0])
            self._tables[layer_id] = _Table(number, name, codes, scales, tuple(shards.values()))
        return self._tables[layer_id]

    @cached_property
    def _num_rows(self) -> int:
        return sum(self.checkpoint.entry(f"{name}.weight").shape[0] for name in self.names.values())

    @cached_property
    def _widths(self) -> tuple[int, int]:
        """Bytes of a row's codes and of its scales, the same in all tables."""
        name = next(iter(self.names.values()))
        codes, scales = (self._width(f"{name}.{part}") for part in ("weight", "scale"))
        return codes, scales

    def _width(self, name: str) -> int:
        entry = self.checkpoint.entry(name)
        if (width := row_nbytes(entry)) > native.MOST_ROW_NBYTES:
            found = f"a row of `{entry.name}` in `{entry.path}` has {width:,} bytes"
            raise TensorError(f"{found}, expected at most {native.MOST_ROW_NBYTES:,}")
        return width


@contextmanager
def _existing(table: _Table) -> Iterator[None]:
    """TensorError for the row that the native store says is not in the table."""
    try:
        yield
    except IndexError as row:
        found = f"row {row} of `{table.codes.name}` in `{table.codes.path}` does not exist"
        raise TensorError(f"{found}, expected one from 0 to {table.codes.shape[0] - 1}") from None
