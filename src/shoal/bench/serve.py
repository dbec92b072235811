"""Requests decoded together: their rate over that of one alone, as a share of what the bytes of both allow.

    bytes(m) = dense weights once + the union of the experts that m tokens chose, once + m x what a token reads of KV
    bound    = n x bytes(1) / bytes(n)          n requests over one, if a step took as long as its bytes
    figure   = n x seconds(1) / seconds(n)      aggregate tokens a second of n requests over those of one
    ratio    = figure / bound

The unions are counted in the very steps that are timed. Both engines run in turns, a step each, after the probe.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from shoal.bench.model import BenchModel
from shoal.bench.probe import Probe
from shoal.bench.result import Result
from shoal.bench.rounds import Kept, Round, keep, timed
from shoal.engine.engine import Engine
from shoal.engine.request import Request
from shoal.engine.sampling_options import SamplingOptions
from shoal.model.backbone import Backbone
from shoal.model.moe import Experts
from shoal.ops.mixture import ExpertWeights
from shoal.plan.memory_split import Workload, smallest_memory, split_memory
from shoal.plan.stored import READ_PER_TOKEN
from shoal.plan.traffic import KV_CACHE, Traffic

PROMPT_TOKENS, WARM_STEPS, SEED = 32, 2, 1
NEVER = -1
"""No id: answers do not end by themselves."""


class CountedExperts:
    """Stands for a layer's experts and counts how many are asked for."""

    def __init__(self, inner: Experts) -> None:
        self.inner, self.count = inner, 0

    def request(self, layer_id: int, expert_ids: Sequence[int]) -> None:
        """The real one's."""
        self.inner.request(layer_id, expert_ids)

    def expect(self, layer_id: int, guess: Callable[[], Sequence[int]]) -> None:
        """The real one's."""
        self.inner.expect(layer_id, guess)

    def arrivals(self, layer_id: int, expert_ids: Sequence[int]) -> Iterator[list[tuple[int, ExpertWeights]]]:
        """The real one's, counted."""
        self.count += len(expert_ids)
        return self.inner.arrivals(layer_id, expert_ids)


@dataclass(frozen=True)
class ServeBench:
    """Greedy tokens of `requests` requests of random prompts, through an engine that samples and gives out events."""

    model: BenchModel
    probe: Probe
    requests: int
    tokens: int

    def results(self) -> Iterator[Result]:
        """`engine_1` and `engine_N`."""
        kept = keep(list(self._rounds()), self.probe.best_rate)
        yield self._alone(kept)
        yield self._together(kept)

    def _rounds(self) -> Iterator[Round]:
        experts = _count_experts(self.model.backbone)
        alone, together = self._engine(1), self._engine(self.requests)
        for index in range(WARM_STEPS + self.tokens):
            rate, probe = self.probe.run()
            jobs, counts = {}, {}
            for name, engine in (("alone", alone), ("together", together)):
                experts.count = 0
                jobs[name] = timed([engine.step], self.probe.threads)
                counts[name] = float(experts.count)
            if index >= WARM_STEPS:
                yield Round(rate, probe.share, jobs, counts)
        for engine in (alone, together):
            engine.close()

    def _engine(self, requests: int) -> Engine:
        """Its prompts are read, and all of them say their first token in the same step."""
        rng, vocab = random.Random(SEED), self.model.config.vocab_size
        engine = Engine(self.model.backbone, NEVER, max_running=requests, chunk_tokens=2 * requests * PROMPT_TOKENS)
        options = SamplingOptions(max_new_tokens=1 + WARM_STEPS + self.tokens)
        for _ in range(requests):
            engine.submit(Request(tuple(rng.randrange(vocab) for _ in range(PROMPT_TOKENS)), options))
        engine.step()
        return engine

    def _alone(self, kept: Kept) -> Result:
        seconds, nbytes = kept.seconds("alone"), self._nbytes(1, kept.count("alone"))
        return Result.of(
            "engine_1",
            kept,
            seconds=seconds,
            nbytes=round(nbytes),
            ratio=kept.median(lambda each: nbytes / each.jobs["alone"].seconds / each.probe_rate),
            value=1 / seconds,
            unit="tokens a second",
            more={"experts_a_step": kept.count("alone"), "experts": self.model.experts},
        )

    def _together(self, kept: Kept) -> Result:
        count = self.requests
        one, many = self._nbytes(1, kept.count("alone")), self._nbytes(count, kept.count("together"))
        gain = kept.median(lambda each: count * each.jobs["alone"].seconds / each.jobs["together"].seconds)
        bound = count * one / many
        seconds = kept.seconds("together")
        more = {
            "bound": bound,
            "tokens_per_second": count / seconds,
            "experts_a_step": kept.count("together"),
            "experts": self.model.experts,
        }
        return Result.of(
            f"engine_{count}",
            kept,
            seconds=seconds,
            nbytes=round(many),
            ratio=gain / bound,
            value=gain,
            unit=f"times, of {bound:.2f}",
            more=more,
        )

    def _nbytes(self, sequences: int, experts: float) -> float:
        """Bytes of a step that uses so many experts in all layers together."""
        stored, context = self.model.stored, PROMPT_TOKENS + self.tokens
        workload = Workload(smallest_memory(stored, Workload(0, context, sequences)), context, sequences)
        traffic = Traffic(split_memory(stored, workload), sequences, sequences).from_memory
        dense = sum(traffic.get(kind, 0.0) for kind in READ_PER_TOKEN)
        return dense + experts * stored.expert_nbytes + traffic[KV_CACHE]


def _count_experts(backbone: Backbone) -> CountedExperts:
    """One count of all layers."""
    counted = CountedExperts(backbone.layers[0].moe.experts)
    for layer in backbone.layers:
        parts: Any = layer.moe
        parts.experts = counted
    return counted
