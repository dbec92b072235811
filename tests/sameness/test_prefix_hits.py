"""A prompt that begins like an earlier one computes what is new and gives the bits of a fresh run."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
import torch
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from torch import Tensor

from shoal.assemble import Assembled, LoadOptions, assemble
from shoal.engine.engine import Engine
from shoal.engine.events import TokenEvent
from shoal.engine.prefix import PrefixCache
from shoal.engine.prefix_directory import PrefixDirectory
from shoal.engine.prefix_disk import PrefixDisk
from shoal.engine.request import Request
from shoal.engine.sampling_options import SamplingOptions
from shoal.model.backbone import ForwardOutput
from shoal.model.batch import Batch
from shoal.model.cache import SequenceCache
from shoal.text.chat import ChatOptions, render_chat

THINKING = ChatOptions(thinking=True)
KEY = "0" * 64
TEXT = "The capital of France is Paris. The capital of Spain is Madrid. The capital of Italy is"


class Watched:
    """The miniature; `computed` counts the tokens of prompts and steps, `logits` are those of each token chosen."""

    def __init__(self, assembled: Assembled) -> None:
        self.backbone, self.config = assembled.backbone, assembled.config
        self.tokenizer, self.eos_id = assembled.tokenizer, assembled.engine.eos_id
        self.computed, self.logits = 0, list[Tensor]()

    def new_cache(self, reserved: int = 0) -> SequenceCache:
        return self.backbone.new_cache(reserved)

    def expect(self, token_ids: Sequence[int], cache: SequenceCache) -> None:
        self.backbone.expect(token_ids, cache)

    def forward(
        self, batch: Batch, caches: Sequence[SequenceCache], *, on_layer: Callable[[int], None] | None = None
    ) -> ForwardOutput:
        output = self.backbone.forward(batch, caches, on_layer=on_layer)
        self.computed += len(batch.token_ids)
        self.logits += output.logits
        return output

    def prefix(self, nbytes: int = 1 << 28, disk: Path | None = None) -> PrefixCache:
        """A prefix cache of this model."""
        stored = None if disk is None else PrefixDisk(PrefixDirectory(disk, 1 << 30), KEY, self.config)
        return PrefixCache(self.new_cache, nbytes, stored)

    def run(self, prompt: Sequence[int], count: int, prefix: PrefixCache | None, chunk: int = 64) -> "Run":
        """A request alone."""
        self.computed, self.logits = 0, []
        engine = Engine(self, self.eos_id, chunk, prefix=prefix)
        options = SamplingOptions(max_new_tokens=count, temperature=1.0, seed=5)
        ticket = engine.submit(Request(tuple(prompt), options))
        events = [event for event in ticket if isinstance(event, TokenEvent)]
        ids = tuple(event.token_id for event in events if event.token_id is not None)
        # Every token chosen is a step, and the first one's is the prompt's last.
        prefilled = self.computed - (len(events) - 1)
        return Run(ids, torch.stack(self.logits), prefilled, ticket.cached_tokens)


class Run:
    """An answer, all of its logits, how many tokens of the prompt were computed and how many were known."""

    def __init__(self, ids: tuple[int, ...], logits: Tensor, prefilled: int, cached: int) -> None:
        self.ids, self.logits, self.prefilled, self.cached = ids, logits, prefilled, cached

    def equals(self, other: "Run") -> bool:
        """Whether ids and bits are the same."""
        return self.ids == other.ids and torch.equal(self.logits.view(torch.int32), other.logits.view(torch.int32))


@pytest.fixture(scope="module")
def model() -> Iterator[Watched]:
    with assemble(LoadOptions(threads=1)) as assembled:
        yield Watched(assembled)


def test_a_repeated_prompt_computes_one_token(model: Watched) -> None:
    prompt, prefix = model.tokenizer.encode_prompt(TEXT), model.prefix()
    fresh = model.run(prompt, 4, prefix)
    again = model.run(prompt, 4, prefix)
    assert (fresh.prefilled, fresh.cached) == (len(prompt), 0)
    assert (again.prefilled, again.cached) == (1, len(prompt) - 1)
    assert again.equals(fresh) and fresh.equals(model.run(prompt, 4, None))
    prefix.close()


def test_the_next_turn_computes_what_is_new(model: Watched) -> None:
    first, prefix = model.tokenizer.encode_prompt(TEXT), model.prefix()
    reply = model.run(first, 6, prefix)
    new = model.tokenizer.encode(" And the capital of Germany is")
    second = [*first, *reply.ids, *new]
    hit = model.run(second, 4, prefix)
    # The last token of a reply that was cut by its length was never fed.
    assert hit.prefilled == len(new) + 1 and hit.cached == len(first) + len(reply.ids) - 1
    assert hit.equals(model.run(second, 4, None))
    prefix.close()


def test_a_conversation_that_thinks_goes_on_from_its_last_prompt(model: Watched) -> None:
    prefix, messages = model.prefix(), [{"role": "user", "content": "What is the capital of France?"}]
    first = render_chat(model.tokenizer, messages, THINKING)
    model.run(first, 6, prefix)
    messages += [{"role": "assistant", "content": "Paris."}, {"role": "user", "content": "And of Spain?"}]
    second = render_chat(model.tokenizer, messages, THINKING)
    hit = model.run(second, 2, prefix)
    # All but `<think>`, which is `</think>` in the next turn's prompt.
    assert hit.cached == len(first) - 1 and second[: len(first)] != first
    assert hit.equals(model.run(second, 2, None))
    prefix.close()


def test_after_a_restart_repeats_and_next_turns_hit_as_before(model: Watched, tmp_path: Path) -> None:
    first, prefix = model.tokenizer.encode_prompt(TEXT), model.prefix(disk=tmp_path)
    reply = model.run(first, 6, prefix)
    prefix.close()
    prefix = model.prefix(disk=tmp_path)
    again = model.run(first, 6, prefix)
    assert again.prefilled == 1 and again.equals(reply)
    second = [*first, *reply.ids, *first]
    hit = model.run(second, 4, prefix)
    assert hit.prefilled == len(first) + 1 and hit.equals(model.run(second, 4, None))
    statistics = prefix.statistics()
    assert statistics.disk is not None and statistics.disk.hits >= 1 and statistics.disk.damaged == 0
    prefix.close()


def test_a_disk_serves_where_memory_has_no_room(model: Watched, tmp_path: Path) -> None:
    first = model.tokenizer.encode_prompt(TEXT)
    prefix = model.prefix(disk=tmp_path)
    fresh = model.run(first, 3, prefix)
    prefix.close()
    prefix = model.prefix(nbytes=1, disk=tmp_path)
    again = model.run(first, 3, prefix)
    assert again.prefilled == 1 and again.equals(fresh) and prefix.statistics().snapshots == 0
    prefix.close()


def test_requests_that_run_together_share_what_each_of_them_computes(model: Watched) -> None:
    pool = model.backbone.new_pool(page_tokens=8)
    prefix = PrefixCache(lambda: model.backbone.new_cache(pool=pool), 1 << 28)
    engine = Engine(model, model.eos_id, 16, new_cache=lambda: model.backbone.new_cache(pool=pool), prefix=prefix)
    text = model.tokenizer.encode_prompt(TEXT + TEXT)
    prompts = [text, text, [*text, 5, 6], [*text[:20], *text[1:]], text[:9], [*text, 5, 6, 7]]
    options = SamplingOptions(max_new_tokens=5, temperature=1.0, seed=5)
    tickets = [engine.submit(Request(tuple(prompt), options)) for prompt in prompts]
    tickets[4].cancel()
    answers = [tuple(event.token_id for event in ticket if isinstance(event, TokenEvent)) for ticket in tickets]
    assert answers[0] == answers[1] and tickets[1].cached_tokens == len(text) - 1
    for number in (0, 2, 3, 5):
        alone = model.run(prompts[number], 5, None)
        assert tuple(token_id for token_id in answers[number] if token_id is not None) == alone.ids
    assert engine.is_idle and pool.num_used > 0
    prefix.close()
    assert pool.num_used == 0


PROMPTS = st.lists(st.sampled_from([3, 4, 5]), min_size=1, max_size=70)


@settings(max_examples=4, phases=(Phase.generate,))
@given(data=st.data())
def test_whatever_was_kept_and_evicted_the_bits_are_those_of_a_fresh_run(model: Watched, data: st.DataObject) -> None:
    prefix = model.prefix(nbytes=4 * model.new_cache().nbytes)
    prompts = [[0, *data.draw(PROMPTS)]]
    for _ in range(5):
        earlier = data.draw(st.sampled_from(prompts))
        start = data.draw(st.integers(0, len(earlier)))
        prompts.append([*(earlier[:start] or [0]), *data.draw(PROMPTS)])
        prompt, chunk = prompts[-1], data.draw(st.sampled_from([1, 7, 64]))
        run = model.run(prompt, 3, prefix, chunk)
        assert run.prefilled + run.cached == len(prompt)
        assert run.equals(model.run(prompt, 3, None))
        prompts.append([*prompt, *run.ids])
    statistics = prefix.statistics()
    assert statistics.nbytes <= statistics.limit
    prefix.close()
