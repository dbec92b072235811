"""The one place that knows every floor: options become an engine that runs, or a sentence that says why not."""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Self

import torch

from shoal.checkpoint.direct_file import Notice
from shoal.checkpoint.inventory import ENGRAM
from shoal.checkpoint.said_once import SaidOnce
from shoal.checkpoint.shards import Checkpoint
from shoal.config.layer_plan import LayerPlan, plan_layers
from shoal.config.layouts import load_config
from shoal.config.schema import ModelConfig
from shoal.doctor.cores import affinity, read_cores
from shoal.doctor.disk import read_disk, why_slow
from shoal.doctor.memory import granted_memory, read_memory
from shoal.engine.engine import MOST_RUNNING, MOST_WAITING, Engine
from shoal.engine.kv_room import ByteRoom
from shoal.engine.prefix import PrefixCache
from shoal.engine.prefix_disk import PrefixDisk
from shoal.engine.prefix_key import prefix_key
from shoal.engine.prefix_options import PrefixOptions
from shoal.engram.token_map import TokenMap
from shoal.errors import CheckpointError, ConfigError, OptionError
from shoal.model.backbone import Backbone
from shoal.model.cache import SequenceCache
from shoal.model.engram import EngramRows
from shoal.model.page_pool import PagePool
from shoal.ops.choose import arithmetic_named
from shoal.plan.activations import activations
from shoal.plan.budget import Budget, plan_budget
from shoal.plan.kv_cache import KVCache
from shoal.plan.least_memory import Wishes
from shoal.plan.stored import count_stored
from shoal.text.tokenizer import Tokenizer
from shoal.weights.cached_experts import READER_THREADS
from shoal.weights.engram_store import StoredEngramRows
from shoal.weights.engram_tables import ResidentEngramRows, table_tensors
from shoal.weights.expert_store import ExpertOptions, ExpertStore
from shoal.weights.load import TotalProgress, counting, load_backbone
from shoal.weights.memory_watch import MemoryWatch
from shoal.weights.names import expected_tensors
from shoal.weights.reader import WeightReader
from shoal.weights.report import LoadReport
from shoal.weights.row_reader import RowReader, say_nothing

MINIATURE = Path(__file__).parent / "data" / "miniature"
"""The built-in checkpoint: the release's layout in 7 MB, trained on a small world (`training/`)."""

PROC, SYS, CGROUP = Path("/proc"), Path("/sys"), Path("/sys/fs/cgroup")
# Where the system does not say how much is free.
ASSUMED_MEMORY = 4 << 30


@dataclass(frozen=True)
class LoadOptions:
    """What to load and where it shall live. Raises `OptionError` for a value out of range.

    `checkpoint` None is the built-in miniature; `also` are more directories with shards of it; `isa` None takes the
    best native kernels; `memory` bytes are for everything, None takes what is free less a margin; of them
    `expert_memory` are for routed experts, `engram_memory` for Engram rows and `kv_memory` for the KV cache, None
    leaves each to the planner; `resident_engram` reads the whole Engram tables instead; `expert_profile` is read if it
    is there and written at the end, `record_routing` is written at the end; `prefetch` reads ahead, where that pays,
    the experts that the next layer may use; `threads` None takes all processors this process may use; `prefill_chunk`
    tokens of a prompt are read at once, None leaves it to the planner; `max_running` requests run together and
    `max_waiting` more may wait; `prefix_memory` bytes keep what was computed of prompts and replies, None takes a
    share, and `prefix_directory` keeps it over a restart in `prefix_disk` bytes; `cache_directory` keeps the Engram
    token map between runs; `notice` takes a sentence on each thing that is slower than it should be.
    """

    checkpoint: Path | None = None
    arithmetic: str = "native"
    isa: str | None = None
    also: tuple[Path, ...] = ()
    memory: int | None = None
    kv_memory: int | None = None
    expert_memory: int | None = None
    expert_profile: Path | None = None
    record_routing: Path | None = None
    prefetch: bool = True
    reader_threads: int = READER_THREADS
    resident_engram: bool = False
    engram_memory: int | None = None
    threads: int | None = None
    prefill_chunk: int | None = None
    max_running: int = MOST_RUNNING
    max_waiting: int = MOST_WAITING
    prefix_memory: int | None = 0
    prefix_directory: Path | None = None
    prefix_disk: int | None = None
    cache_directory: Path | None = None
    progress: TotalProgress | None = None
    notice: Notice | None = None

    def __post_init__(self) -> None:
        for name, value in self._counts():
            if value is not None and value < 1:
                raise OptionError(f"`{name}` is {value}, expected 1 or more")
        if self.engram_memory is not None and self.engram_memory < 0:
            raise OptionError(f"`engram_memory` is {self.engram_memory}, expected 0 or more bytes")
        if self.engram_memory is not None and self.resident_engram:
            raise OptionError("`resident_engram` keeps every Engram row in memory, expected no `engram_memory` with it")
        if self.also and self.checkpoint is None:
            raise OptionError("`also` adds to a checkpoint, expected `checkpoint` with it")
        assert self.prefix  # which checks its own

    @property
    def prefix(self) -> PrefixOptions:
        """What the prefix cache is told."""
        return PrefixOptions(self.prefix_memory, self.prefix_directory, self.prefix_disk)

    @property
    def wishes(self) -> Wishes:
        """What the planner is told."""
        return Wishes(
            self.memory,
            self.expert_memory,
            self.engram_memory,
            self.kv_memory,
            self.prefill_chunk,
            self.resident_engram,
            self.max_running,
        )

    def _counts(self) -> tuple[tuple[str, int | None], ...]:
        return (
            ("memory", self.memory),
            ("kv_memory", self.kv_memory),
            ("expert_memory", self.expert_memory),
            ("reader_threads", self.reader_threads),
            ("threads", self.threads),
            ("prefill_chunk", self.prefill_chunk),
            ("max_running", self.max_running),
            ("max_waiting", self.max_waiting),
        )


@dataclass(frozen=True)
class Assembled:
    """A model ready to run. Leaving it as a context closes the checkpoint; nothing runs after that."""

    engine: Engine
    backbone: Backbone
    tokenizer: Tokenizer
    config: ModelConfig
    checkpoint: Checkpoint
    report: LoadReport
    budget: Budget
    expert_store: ExpertStore
    engram_store: StoredEngramRows | None
    pool: PagePool
    prefix: PrefixCache | None
    prefix_line: str

    def places(self) -> Iterator[str]:
        """Where each class of bytes lives and how much of it, for a person."""
        yield from self.budget.lines()
        if self.prefix is not None:
            yield f"  {self.prefix_line}"
        yield f"  {self.expert_store.line()}"
        if self.config.has_engram:
            rows = "all of them in memory" if self.engram_store is None else self.engram_store.line()
            yield f"  Engram rows: {rows}"

    def close(self) -> None:
        """Ends what still runs, writes the prefixes that wait for it, and lets the experts, which writes what is to be
        written of them, the Engram rows and the checkpoint go."""
        with ExitStack() as closing:
            closing.callback(self.checkpoint.close)
            if self.engram_store is not None:
                closing.callback(self.engram_store.close)
            closing.callback(self.expert_store.close)
            if self.prefix is not None:
                closing.callback(self.prefix.close)
            closing.callback(self.engine.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def assemble(options: LoadOptions) -> Assembled:
    """Check everything that can be checked without the weights, then load the dense ones.

    Native kernels have threads of their own, and torch then has one; otherwise torch's number, the process's, is set.
    Raises a `ShoalError` naming what is wrong.
    """
    started = time.perf_counter()
    # Dense weights, experts and tables may have the same to say of a directory.
    options = replace(options, notice=SaidOnce(options.notice))
    directory = options.checkpoint or MINIATURE
    config = _config(directory)
    budget, prefix_nbytes = _budget(config, options)
    tokenizer = Tokenizer.load(directory, config.vocab_size)
    threads = options.threads or read_cores(PROC, CGROUP, affinity()).usable
    arithmetic = arithmetic_named(options.arithmetic, options.isa, threads)
    # Two pools of threads on the same processors would only fight each other.
    torch.set_num_threads(1 if arithmetic.kernels is not None else threads)
    with ExitStack() as on_failure:
        checkpoint = on_failure.enter_context(Checkpoint.open(directory, options.also))
        _say_what_is_slow(checkpoint, options.notice or say_nothing)
        disk = _prefix_disk(checkpoint, config, tokenizer, options)
        if disk is not None:
            on_failure.callback(disk.close)
        plans = plan_layers(config)
        store = _experts(checkpoint, config, plans, options, budget)
        if store.cached is not None:
            on_failure.callback(store.cached.close)
        tables_nbytes = _tables_nbytes(checkpoint, plans) if options.resident_engram else 0
        with WeightReader(checkpoint, counting(options.progress, tables_nbytes), options.notice) as engram_reader:
            engram_rows = _engram_rows(engram_reader, config, plans, options, budget)
        engram_store = engram_rows if isinstance(engram_rows, StoredEngramRows) else None
        if engram_store is not None:
            on_failure.callback(engram_store.close)
        loaded = load_backbone(
            config,
            checkpoint,
            arithmetic=arithmetic,
            token_map=_token_map(config, tokenizer, options),
            experts=store.experts,
            engram_rows=engram_rows,
            progress=_after(options.progress, tables_nbytes),
            notice=options.notice,
            through_page_cache=None,
        )
        on_failure.pop_all()
    eos_id = tokenizer.eos_id if config.eos_token_id is None else config.eos_token_id
    report = _with_resident(loaded.report, engram_reader.read, time.perf_counter() - started)
    pool = loaded.backbone.new_pool()
    prefix = None
    if prefix_nbytes:
        prefix = PrefixCache(_cache_maker(loaded.backbone, pool), prefix_nbytes, disk, options.notice)
    engine = _engine(loaded.backbone, eos_id, budget, options, pool, prefix)
    parts = loaded.backbone, tokenizer, config, checkpoint, report, budget, store, engram_store, pool, prefix
    return Assembled(engine, *parts, options.prefix.line(prefix_nbytes))


def _engine(
    backbone: Backbone, eos_id: int, budget: Budget, options: LoadOptions, pool: PagePool, prefix: PrefixCache | None
) -> Engine:
    return Engine(
        backbone,
        eos_id,
        budget.chunk,
        cache_tokens=budget.context,
        new_cache=_cache_maker(backbone, pool),
        kv_room=_kv_room(backbone.config, budget, pool),
        prefix=prefix,
        max_running=options.max_running,
        max_waiting=options.max_waiting,
    )


def _cache_maker(backbone: Backbone, pool: PagePool) -> Callable[[], SequenceCache]:
    return lambda: backbone.new_cache(pool=pool)


def _budget(config: ModelConfig, options: LoadOptions) -> tuple[Budget, int]:
    """The plan, whose `memory` is the prefix cache's too, and the bytes that this one takes of it."""
    usable, wishes = _usable_memory(), options.wishes
    prefix = options.prefix.nbytes(usable if wishes.memory is None else wishes.memory)
    if wishes.memory is not None:
        if prefix >= wishes.memory:
            raise OptionError(
                f"`prefix_memory` is {prefix:,} bytes, expected less than the {wishes.memory:,} of `memory`"
            )
        wishes = replace(wishes, memory=wishes.memory - prefix)
    budget = plan_budget(count_stored(config), wishes, max(0, usable - prefix), activations(config))
    return replace(budget, memory=budget.memory + prefix), prefix


def _kv_room(config: ModelConfig, budget: Budget, pool: PagePool) -> ByteRoom:
    """The budget's bytes in pages of the pool. One sequence of the budget's context always fits."""
    layout, fixed = pool.layout, KVCache(config, 0).fixed_nbytes
    least = fixed + layout.pages_for(budget.context) * layout.nbytes
    return ByteRoom(max(budget.kv, least), layout.nbytes, fixed, layout.tokens)


def _prefix_disk(
    checkpoint: Checkpoint, config: ModelConfig, tokenizer: Tokenizer, options: LoadOptions
) -> PrefixDisk | None:
    def key() -> str:
        return prefix_key(checkpoint, config, tokenizer.path, options.arithmetic)

    return options.prefix.open_disk(key, config, options.notice)


def _say_what_is_slow(checkpoint: Checkpoint, notice: Notice) -> None:
    """A sentence on each directory of shards whose file system is slower than a local disk."""
    for folder in checkpoint.folders():
        disk = read_disk(folder, PROC, SYS)
        if (reason := why_slow(disk)) is not None:
            notice(f"`{folder}` is on {disk.file_system}: {reason}; expect less than a local NVMe disk gives")


def _usable_memory() -> int:
    try:
        return read_memory(PROC, CGROUP).usable
    except OptionError:  # only Linux says
        return ASSUMED_MEMORY


def _config(directory: Path) -> ModelConfig:
    if not directory.is_dir():
        found = "is not a directory" if directory.exists() else "does not exist"
        raise CheckpointError(
            f"the checkpoint `{directory}` {found}, expected the directory that holds `config.json` and the shards"
        )
    config = load_config(directory)
    if problems := config.verify():
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        raise ConfigError(
            f"the config of `{directory}` contradicts itself: {problems[0]}{more}",
            hint=f"`shoal config {directory}` lists every problem.",
        )
    return config


def _token_map(config: ModelConfig, tokenizer: Tokenizer, options: LoadOptions) -> TokenMap | None:
    return TokenMap.load(tokenizer.path, config, options.cache_directory) if config.has_engram else None


def _experts(
    checkpoint: Checkpoint, config: ModelConfig, plans: tuple[LayerPlan, ...], options: LoadOptions, budget: Budget
) -> ExpertStore:
    if budget.experts is not None:
        # Settled before the headers' offsets are used.
        expected_tensors(config, checkpoint)
    expert_options = ExpertOptions(
        budget.experts,
        options.reader_threads,
        options.expert_profile,
        options.record_routing,
        options.prefetch,
        MemoryWatch(lambda: granted_memory(PROC, CGROUP), budget.memory, options.notice or say_nothing),
    )
    return ExpertStore(checkpoint, config, plans, expert_options, options.notice)


def _engram_rows(
    reader: WeightReader, config: ModelConfig, plans: tuple[LayerPlan, ...], options: LoadOptions, budget: Budget
) -> EngramRows:
    if budget.engram is not None:
        row_reader = RowReader(reader.checkpoint, notice=options.notice or say_nothing)
        return StoredEngramRows(reader.checkpoint, plans, budget.engram, row_reader)
    # Settled before the tables are read, which takes minutes at released size.
    expected_tensors(config, reader.checkpoint)
    return ResidentEngramRows(reader, plans)


def _tables_nbytes(checkpoint: Checkpoint, plans: tuple[LayerPlan, ...]) -> int:
    """Of those that are there: loading says which are missing."""
    return sum(checkpoint.nbytes(name) for name in table_tensors(plans) if name in checkpoint)


def _after(progress: TotalProgress | None, nbytes: int) -> TotalProgress | None:
    """`progress` for what is read after `nbytes` bytes."""
    return None if progress is None else lambda done, total: progress(nbytes + done, nbytes + total)


def _with_resident(report: LoadReport, tables: dict[str, int], seconds: float) -> LoadReport:
    """The report with the Engram tables moved from the shards to memory, and the whole assembly's `seconds`."""
    nbytes, left_nbytes = Counter(report.nbytes), Counter(report.left_nbytes)
    nbytes[ENGRAM] += sum(tables.values())
    left_nbytes[ENGRAM] -= sum(tables.values())
    # `+` drops a class that holds nothing.
    return replace(
        report,
        read=report.read + len(tables),
        left=report.left - len(tables),
        nbytes=dict(+nbytes),
        left_nbytes=dict(+left_nbytes),
        seconds=seconds,
    )
