"""A request gets the bits it gets alone, whatever comes, goes, is pre-empted or found in a cache beside it."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache as memoised
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from shoal.assemble import MINIATURE
from shoal.checkpoint.shards import Checkpoint
from shoal.config.layouts import load_config
from shoal.engine import prefix_lengths, scheduler
from shoal.engine.engine import Engine
from shoal.engine.events import TokenEvent
from shoal.engine.kv_room import ByteRoom
from shoal.engine.prefix import PrefixCache
from shoal.engine.request import Request
from shoal.engine.sampler import Sampler
from shoal.engine.sampling_options import SamplingOptions
from shoal.engine.ticket import Ticket
from shoal.engram.token_map import TokenMap
from shoal.model.backbone import Backbone
from shoal.model.batch import Batch
from shoal.ops.native import Native
from shoal.text.tokenizer import Tokenizer
from shoal.weights.load import load_backbone

REQUESTS, EXAMPLES, MOST_NEW = 20, 10, 8
TEXTS = (
    "The capital of France is",
    "The capital of France is Paris. The capital of Italy is Rome. The capital of Spain is",
    "The capital of France is Paris. The capital of Italy is Rome. The capital of Japan is",
    "Once upon a time there was a fox that counted: one, two, three, four, five, six, seven, eight, nine, ten.",
    "2 + 2 =",
)
OPTIONS = (
    SamplingOptions(max_new_tokens=MOST_NEW, logprobs=2),
    SamplingOptions(max_new_tokens=MOST_NEW, logprobs=2, temperature=1.5, seed=7, top_p=0.95),
    SamplingOptions(
        max_new_tokens=MOST_NEW // 2, logprobs=2, temperature=1.0, repetition_penalty=1.3, frequency_penalty=0.5
    ),
)


@dataclass(frozen=True)
class Asked:
    """One request: what, how many steps after the one before, and after how many tokens it is cancelled."""

    text: int
    options: int
    gap: int
    cancelled_after: int | None


@dataclass(frozen=True)
class Setting:
    """An engine: small numbers make it pre-empt, cut and wait."""

    chunk: int
    running: int
    spare_pages: int
    page_tokens: int
    has_prefix: bool


ASKED = st.builds(
    Asked,
    st.integers(0, len(TEXTS) - 1),
    st.integers(0, len(OPTIONS) - 1),
    st.integers(0, 3),
    st.sampled_from([None, None, None, None, 0, 1, 5]),
)
SETTING = st.builds(
    Setting, st.sampled_from([5, 32, 256]), st.integers(2, 6), st.integers(0, 4), st.sampled_from([2, 4]), st.booleans()
)


@pytest.fixture(scope="module")
def miniature() -> Iterator[tuple[Backbone, Tokenizer]]:
    config = load_config(MINIATURE)
    tokenizer = Tokenizer.load(MINIATURE, config.vocab_size)
    with Checkpoint.open(MINIATURE) as checkpoint:
        token_map = TokenMap.load(tokenizer.path, config, None)
        yield load_backbone(config, checkpoint, arithmetic=Native(threads=1), token_map=token_map).backbone, tokenizer


class Alone:
    """Answers computed without an engine: the prompt in one forward, then token by token."""

    def __init__(self, backbone: Backbone, tokenizer: Tokenizer) -> None:
        self.backbone, self.eos_id = backbone, tokenizer.eos_id
        self.prompts = [tuple(tokenizer.encode_prompt(text)) for text in TEXTS]
        self.answer: Callable[[int, int], list[object]] = memoised(self._answer)

    def _answer(self, text: int, number: int) -> list[object]:
        prompt, options = self.prompts[text], OPTIONS[number]
        sampler = Sampler(options, prompt, self.backbone.config.vocab_size)
        cache, fed, given = self.backbone.new_cache(), list(prompt), list[object]()
        for _ in range(options.max_new_tokens):
            logits = self.backbone.forward(Batch.build([fed], [cache]), [cache]).logits[0]
            token_id = sampler.choose(logits, cache.length)
            if token_id == self.eos_id:
                break
            given.append((token_id, sampler.logprobs(logits, token_id)))
            fed = [token_id]
        return given


class Trial:
    """An engine with a pool of small pages, few of them, and the count of them that it has."""

    def __init__(self, alone: Alone, setting: Setting) -> None:
        backbone = alone.backbone
        self.pool = pool = backbone.new_pool(page_tokens=setting.page_tokens)
        pages = pool.layout.pages_for(max(map(len, alone.prompts)) + MOST_NEW) + setting.spare_pages
        self.room = ByteRoom(pages, 1, 0, setting.page_tokens)
        # Room for few snapshots, so that they come and go.
        nbytes = 6 * backbone.new_cache().fixed_nbytes + 40 * pool.layout.nbytes
        self.prefix = PrefixCache(lambda: backbone.new_cache(pool=pool), nbytes) if setting.has_prefix else None
        self.engine = Engine(
            backbone,
            alone.eos_id,
            setting.chunk,
            new_cache=lambda: backbone.new_cache(pool=pool),
            kv_room=self.room,
            prefix=self.prefix,
            max_running=setting.running,
        )

    def step(self) -> None:
        self.engine.step()
        if self.prefix is None:
            assert self.pool.num_used <= self.room.used_nbytes  # of one byte each

    def end(self) -> None:
        """Nothing is left but what the prefix cache keeps."""
        if self.prefix is not None:
            assert self.prefix.statistics().nbytes <= self.prefix.limit
            self.prefix.close()
        assert (self.pool.num_used, self.room.used_nbytes) == (0, 0)


class Reader:
    """Takes what a ticket has without running steps, and gives up where it shall."""

    def __init__(self, asked: Asked, ticket: Ticket) -> None:
        self.asked, self.ticket, self.given = asked, ticket, list[TokenEvent]()

    def look(self) -> None:
        self.given += [event for event in self.ticket.take() if isinstance(event, TokenEvent)]
        if self.asked.cancelled_after is not None and len(self.given) >= self.asked.cancelled_after:
            self.ticket.cancel()

    def check(self, wanted: Sequence[object]) -> None:
        tokens = [(event.token_id, event.logprobs) for event in self.given if event.token_id is not None]
        assert tokens == wanted[: len(tokens)]
        assert self.given[-1].finish_reason == "cancelled" or len(tokens) == len(wanted)


def play(alone: Alone, setting: Setting, requests: Sequence[Asked]) -> Counter[str]:
    """All of them through one engine; what happened."""
    trial, readers, arrivals, wait = Trial(alone, setting), list[Reader](), list(requests), 0
    while arrivals or not trial.engine.is_idle:
        while arrivals and wait <= 0:
            asked = arrivals.pop(0)
            request = Request(alone.prompts[asked.text], OPTIONS[asked.options])
            readers.append(Reader(asked, trial.engine.submit(request)))
            wait = arrivals[0].gap if arrivals else 0
        trial.step()
        wait -= 1
        for reader in readers:
            reader.look()
    for reader in readers:
        reader.look()
        reader.check(alone.answer(reader.asked.text, reader.asked.options))
    trial.end()
    metrics = trial.engine.metrics()
    return Counter(
        requests=len(readers),
        preemptions=metrics.preemptions,
        cached=metrics.cached_tokens,
        together=int(metrics.step_sequences.total) - metrics.steps,
        cancelled=metrics.ended.get("cancelled", 0),
    )


def test_requests_of_any_mixture_get_the_bits_they_get_alone(miniature: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduler, "RESERVE_TOKENS", 0)
    monkeypatch.setattr(prefix_lengths, "KEPT_EVERY", 32)
    alone, seen = Alone(*miniature), Counter[str]()

    # Not shrunk: that would take minutes, and each request says by itself what it should have been.
    @settings(max_examples=EXAMPLES, phases=[Phase.explicit, Phase.generate])
    @given(SETTING, st.lists(ASKED, min_size=REQUESTS, max_size=REQUESTS))
    def check(setting: Setting, requests: list[Asked]) -> None:
        seen.update(play(alone, setting, requests))

    check()
    assert seen["requests"] >= REQUESTS * EXAMPLES
    assert min(seen[name] for name in ("preemptions", "cached", "together", "cancelled")) > 5, seen
