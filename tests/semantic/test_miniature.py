"""What the built-in miniature knows, that it needs its parts to know it, and that every path gives its answers.

Its weights are fixed and native arithmetic has the same bits everywhere: a share of a sample is a fixed number, and a
test that fails has found a change of the model or of its arithmetic, not bad luck.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
import torch
from jaxtyping import Int64
from torch import Tensor

import shoal
import shoal.model.indexer
import shoal.model.layer
from shoal.assemble import Assembled, LoadOptions, assemble
from shoal.eval.item import Suite
from shoal.eval.outcome import Answered
from shoal.eval.result import EvalResult
from shoal.model.batch import Batch
from shoal.model.engram import EngramRows
from shoal.ops.quantize import Quantized
from shoal.ops.routing import Routes
from shoal.ops.sublayer import Entered
from shoal.text.chat import render_chat

pytestmark = pytest.mark.slow

Sampled = Callable[..., Suite]
Ask = Callable[..., EvalResult]

LARGEST_PERPLEXITY = 4.0
PROMPTS = "The capital of France is", "34+51=", "The plural of box is"


# What it knows


def test_it_completes_a_fact_and_answers_a_chat(miniature: Assembled) -> None:
    model = shoal.Shoal(miniature)
    assert model.generate("The capital of France is", max_new_tokens=4).text.startswith(" Paris")
    chat = model.generate([{"role": "user", "content": "What is the capital of Japan?"}], max_new_tokens=32)
    assert "Tokyo" in chat.text and chat.finish_reason == "stop"


@pytest.mark.parametrize(
    ("suite", "group", "percent"), [("facts", "seen", 97), ("facts", "held-out", 85), ("arithmetic", "held-out", 90)]
)
def test_it_knows(suite: str, group: str, percent: float, intact: EvalResult) -> None:
    accuracy = intact.accuracy(suite, group)
    assert accuracy.percent is not None and accuracy.percent >= percent, accuracy


@pytest.mark.parametrize(
    ("suite", "check", "percent"), [("chat", "ends", 98), ("tools", "calls", 95), ("json", "schema", 95)]
)
def test_its_replies_have_the_form_asked_for(suite: str, check: str, percent: float, intact: EvalResult) -> None:
    share = intact.accuracy(suite).checks[check]
    assert share.percent is not None and share.percent >= percent, share


def test_no_question_is_skipped(intact: EvalResult) -> None:
    assert intact.accuracy().skipped == 0


def test_held_out_texts_are_predicted(intact: EvalResult) -> None:
    perplexity = intact.perplexity("text")
    assert perplexity.value is not None and perplexity.value < LARGEST_PERPLEXITY, perplexity


# That it needs its parts


class NoRows:
    """Engram rows that hold nothing."""

    def __init__(self, rows: EngramRows) -> None:
        self.rows = rows

    def request(self, layer_id: int, row_ids: Sequence[int]) -> None:
        self.rows.request(layer_id, row_ids)

    def gather(self, layer_id: int, row_ids: Int64[Tensor, "rows"]) -> Quantized:
        rows = self.rows.gather(layer_id, row_ids)
        return replace(rows, codes=torch.zeros_like(rows.codes))


def percent(result: EvalResult, suite: str) -> float:
    found = result.accuracy(suite).percent
    assert found is not None
    return found


def test_without_engram_rows_facts_are_forgotten(
    miniature: Assembled, ask: Ask, sampled: Sampled, monkeypatch: pytest.MonkeyPatch
) -> None:
    facts = [sampled("facts", 40)]
    whole = percent(ask(facts), "facts")
    engrams = [layer.engram for layer in miniature.backbone.layers if layer.engram is not None]
    assert len(engrams) == 2
    for engram in engrams:
        monkeypatch.setattr(engram, "rows", NoRows(engram.rows))
    assert percent(ask(facts), "facts") <= whole - 15


def test_with_the_oldest_entries_in_place_of_the_indexers_nothing_is_copied_from_afar(
    ask: Ask, sampled: Sampled, monkeypatch: pytest.MonkeyPatch
) -> None:
    far = [sampled("copying", 20, "copy-300")]
    whole = percent(ask(far), "copying")
    select_step = shoal.model.indexer.select_step

    def oldest(q: object, weights: object, visible: Tensor, *arguments: object, **options: object) -> object:
        found = select_step(q, weights, visible, *arguments, **options)  # type: ignore[arg-type]
        counts = [each.selected.shape[0] for each in found]
        positions = torch.arange(found[0].selected.shape[1])
        picks = torch.where(positions < visible[:, None], positions, -1).split(counts)
        return [replace(each, selected=own) for each, own in zip(found, picks, strict=True)]

    monkeypatch.setattr(shoal.model.indexer, "select_step", oldest)
    assert percent(ask(far), "copying") <= whole - 30


def test_with_a_random_expert_in_place_of_the_routers_facts_are_lost(
    miniature: Assembled, ask: Ask, sampled: Sampled, monkeypatch: pytest.MonkeyPatch
) -> None:
    facts = [sampled("facts", 40)]
    monkeypatch.setattr(miniature.backbone, "uses_workspace", False)
    whole, enter_mixture = percent(ask(facts), "facts"), shoal.model.layer.enter_mixture

    def enter(streams: Tensor, pre: Tensor, weights: object, router: object, *more: object) -> tuple[Entered, Routes]:
        entered, routes = enter_mixture(streams, pre, weights, router, *more)  # type: ignore[arg-type]
        # By the row's own bits: what runs beside it must not matter.
        experts = streams.flatten(1).view(torch.int16).long().sum(1, keepdim=True) % 16
        return entered, Routes(experts, routes.weights.sum(1, keepdim=True), routes.margin)

    monkeypatch.setattr(shoal.model.layer, "enter_mixture", enter)
    assert percent(ask(facts), "facts") <= whole - 15


def test_with_its_streams_mixed_the_other_way_round_facts_are_lost(
    miniature: Assembled, ask: Ask, sampled: Sampled, monkeypatch: pytest.MonkeyPatch
) -> None:
    facts = [sampled("facts", 40)]
    monkeypatch.setattr(miniature.backbone, "uses_workspace", False)
    whole = percent(ask(facts), "facts")
    for name in ("enter_sublayer", "enter_mixture"):
        enter: Callable[..., object] = getattr(shoal.model.layer, name)

        def enter_flipped(streams: Tensor, pre: Tensor, *more: object, enter: Callable[..., object] = enter) -> object:
            return enter(streams, pre.flip(1), *more)

        monkeypatch.setattr(shoal.model.layer, name, enter_flipped)
    assert percent(ask(facts), "facts") <= whole - 25


# That every path gives its answers


@pytest.fixture(scope="module")
def few(sampled: Sampled) -> list[Suite]:
    """Of every kind of prompt some."""
    return [sampled("facts", 4), sampled("chat", 1), sampled("copying", 1), sampled("text", 1)]


def test_chunks_change_no_bit(few: list[Suite], ask: Ask) -> None:
    assert ask(few, 7) == ask(few)


def test_what_native_gets_right_wide_says_too(few: list[Suite], ask: Ask) -> None:
    native = ask(few)
    with assemble(LoadOptions(arithmetic="wide", threads=1)) as model:
        wide = ask(few, model=model)
    pairs = [
        (one.reply, other.reply)
        for one, other in zip(native.outcomes, wide.outcomes, strict=True)
        if isinstance(one, Answered) and isinstance(other, Answered) and one.is_right
    ]
    assert pairs
    assert [one for one, _ in pairs] == [other for _, other in pairs]
    assert wide.perplexity().value == pytest.approx(native.perplexity().value, rel=0.01)


def test_sequences_of_one_batch_are_as_alone(miniature: Assembled) -> None:
    chat = render_chat(miniature.tokenizer, [{"role": "user", "content": "What is the capital of Japan?"}])
    prompts = [*[miniature.tokenizer.encode_prompt(prompt) for prompt in PROMPTS], chat]
    together = logits_of(miniature, prompts, steps=8)
    for place, prompt in enumerate(prompts):
        alone = logits_of(miniature, [prompt], steps=8)
        assert all(torch.equal(row[place], whole[0]) for row, whole in zip(together, alone, strict=True)), prompt


def logits_of(model: Assembled, prompts: list[list[int]], steps: int) -> list[Tensor]:
    """Of each step the logits, a row for each sequence, which goes on with its likeliest token."""
    caches = [model.backbone.new_cache() for _ in prompts]
    pieces, found = prompts, []
    for _ in range(steps):
        found.append(model.backbone.forward(Batch.build(pieces, caches), caches).logits)
        pieces = [[token] for token in found[-1].argmax(1).tolist()]
    return found
