"""The experts of a run: mapped or in a budget of memory, watched while they are asked for, let go at the end."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

from shoal.checkpoint.direct_file import Notice
from shoal.checkpoint.shards import Checkpoint
from shoal.config.layer_plan import LayerPlan
from shoal.config.schema import ModelConfig
from shoal.model.moe import Experts
from shoal.ops.mixture import ExpertWeights
from shoal.plan.size import gib
from shoal.weights.cached_experts import READER_THREADS, CachedExperts, slots_within
from shoal.weights.expert_key import expert_keys
from shoal.weights.expert_policy import HALF_LIFE, DecayedFrequency
from shoal.weights.expert_profile import ExpertProfile
from shoal.weights.expert_statistics import ExpertStatistics
from shoal.weights.experts import MappedExperts
from shoal.weights.memory_watch import MemoryWatch
from shoal.weights.routing_trace import RoutingTrace
from shoal.weights.stored_experts import StoredExperts

# Of the slots, for a profile's hottest experts: they stay whatever the text.
PINNED_SHARE = 0.5


@dataclass(frozen=True)
class ExpertOptions:
    """`nbytes` of memory for experts, None leaves all to the page cache; `profile` is read if it is there, and
    written at the end; `routing` is written at the end; `prefetch` reads ahead where that pays; `watch` tells how much
    of the memory is lost to a tighter limit."""

    nbytes: int | None = None
    reader_threads: int = READER_THREADS
    profile: Path | None = None
    routing: Path | None = None
    prefetch: bool = True
    watch: MemoryWatch | None = None


@runtime_checkable
class Watcher(Protocol):
    """Told of every step's experts."""

    def visit(self, layer_id: int, expert_ids: Sequence[int]) -> None:
        """A step of the layer asks for them."""
        ...


class WatchedExperts:
    """The experts of another store; watchers are told who is requested."""

    def __init__(self, experts: Experts, watchers: Sequence[Watcher]) -> None:
        self.experts, self.watchers = experts, watchers

    def request(self, layer_id: int, expert_ids: Sequence[int]) -> None:
        """Told, then passed on."""
        for watcher in self.watchers:
            watcher.visit(layer_id, expert_ids)
        self.experts.request(layer_id, expert_ids)

    def expect(self, layer_id: int, guess: Callable[[], Sequence[int]]) -> None:
        """Passed on: a guess is no visit."""
        self.experts.expect(layer_id, guess)

    def arrivals(self, layer_id: int, expert_ids: Sequence[int]) -> Iterator[list[tuple[int, ExpertWeights]]]:
        """The other store's."""
        return self.experts.arrivals(layer_id, expert_ids)


class ExpertStore:
    """What a model takes its experts from. `close` it at the end."""

    def __init__(
        self,
        checkpoint: Checkpoint,
        config: ModelConfig,
        plans: Sequence[LayerPlan],
        options: ExpertOptions,
        notice: Notice | None = None,
    ) -> None:
        """Raises OptionError for a budget that holds no expert and for a profile of something else."""
        self.options = options
        self.profile = ExpertProfile()
        if options.profile is not None:
            self.profile = ExpertProfile.load(options.profile, expert_keys(config, plans))
        self.trace = RoutingTrace()
        self.cached: CachedExperts | None = None
        if options.nbytes is not None:
            self.cached = self._cache(StoredExperts(checkpoint, config, plans, notice), options.nbytes)
        experts = self.cached or MappedExperts(checkpoint, plans)
        watchers = [
            watcher
            for watcher, file in ((self.profile, options.profile), (self.trace, options.routing))
            if file is not None
        ]
        self.experts: Experts = WatchedExperts(experts, watchers) if watchers else experts

    @property
    def statistics(self) -> ExpertStatistics | None:
        """Of a budget of memory; the page cache does not say."""
        return None if self.cached is None else self.cached.statistics

    def line(self) -> str:
        """Where experts live, for a person."""
        if self.cached is None:
            return "experts: all in the shards, through the page cache"
        arena, num_experts = self.cached.arena, len(self.cached.source.keys)
        return f"experts: {arena.num_slots:,} of {num_experts:,} in {gib(arena.nbytes)}, the others from the shards"

    def close(self) -> None:
        """Ends what reads, then writes the profile and the trace. OptionError where one cannot be written."""
        with ExitStack() as stack:
            # Pushed last, done first; one that fails keeps none of the others from being done.
            if self.options.routing is not None:
                stack.callback(self.trace.save, self.options.routing)
            if self.options.profile is not None:
                stack.callback(self.profile.save, self.options.profile)
            if self.cached is not None:
                stack.callback(self.cached.close)

    def _cache(self, source: StoredExperts, nbytes: int) -> CachedExperts:
        num_slots, hottest = slots_within(source, nbytes), self.profile.hottest()
        cached = CachedExperts(
            source,
            num_slots,
            policy=DecayedFrequency(counts=self.profile.decayed_counts(HALF_LIFE)),
            pinned=hottest[: int(num_slots * PINNED_SHARE)],
            prefetch=self.options.prefetch,
            num_threads=self.options.reader_threads,
            watch=self.options.watch,
        )
        cached.warm(hottest)
        return cached
