"""A model that says what it is told to, so that an evaluation is tested without arithmetic."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from miniature import MINI
from shoal.config.layer_plan import plan_layers
from shoal.config.layouts import load_config
from shoal.config.schema import ModelConfig
from shoal.engine.engine import Engine
from shoal.eval.item import Item
from shoal.eval.item_line import read_item
from shoal.model.backbone import ForwardOutput
from shoal.model.batch import Batch
from shoal.model.cache import SequenceCache
from shoal.text.tokenizer import Tokenizer


class SayingModel:
    """Answers the prompts with `replies`, one each, and ends them. A text's tokens it cannot tell apart."""

    def __init__(self, config: ModelConfig, replies: Sequence[list[int]]) -> None:
        self.config, self.plans, self.replies = config, plan_layers(config), list(replies)
        self.left: list[int] = []
        self.steps = 0

    def new_cache(self, reserved: int = 0) -> SequenceCache:
        self.left = [*self.replies.pop(0), 1] if self.replies else [1]
        return SequenceCache(self.config, self.plans)

    def expect(self, token_ids: Sequence[int], cache: SequenceCache) -> None:
        pass

    def forward(
        self, batch: Batch, caches: Sequence[SequenceCache], *, on_layer: Callable[[int], None] | None = None
    ) -> ForwardOutput:
        self.steps += 1
        logits = torch.zeros(len(batch.logit_rows), self.config.vocab_size)
        if len(logits) == 1:
            logits[0, self.left.pop(0)] = 1.0
        caches[0].commit(len(batch.token_ids))
        return ForwardOutput(logits, torch.zeros(len(batch.token_ids), 0, dtype=torch.bfloat16))


@pytest.fixture(scope="session")
def tokenizer() -> Tokenizer:
    return Tokenizer.load(MINI)


@pytest.fixture
def saying(tokenizer: Tokenizer) -> Callable[..., Engine]:
    """An engine whose model gives these replies; markers in them are markers."""

    def make(*replies: str, context: int = 2048) -> Engine:
        config = replace(load_config(MINI), max_position_embeddings=context)
        return Engine(SayingModel(config, [tokenizer.encode_with_markers(reply) for reply in replies]), 1)

    return make


@pytest.fixture
def item() -> Callable[..., Item]:
    """An item from its JSON fields; its group is `g`."""

    def make(**fields: Any) -> Item:
        return read_item(json.dumps({"group": "g", **fields}).encode(), "items.jsonl:1", 1)

    return make


@pytest.fixture
def write_items(tmp_path: Path) -> Callable[..., Path]:
    """A file of these objects, a line each."""

    def write(*objects: object) -> Path:
        file = tmp_path / "items.jsonl"
        file.write_text("".join(json.dumps(one) + "\n" for one in objects), encoding="utf-8")
        return file

    return write
