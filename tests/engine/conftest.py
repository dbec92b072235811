"""A model that says what it is told to, so that the engine is tested without arithmetic."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
import torch

from miniature import MINI
from shoal.config.layer_plan import plan_layers
from shoal.config.layouts import load_config
from shoal.config.schema import ModelConfig
from shoal.model.backbone import ForwardOutput
from shoal.model.batch import Batch
from shoal.model.cache import SequenceCache
from shoal.text.tokenizer import Tokenizer


class ScriptedModel:
    """Gives what a script says, one a forward, as the logits of every row that is wanted.

    An integer is the id whose logit is largest, a list gives one for each row; an exception is raised, a function is
    called first and gives what to say. Forwards are kept in `chunks`, of each sequence (first position, ids).
    """

    def __init__(self, config: ModelConfig, script: Sequence[object]) -> None:
        self.config, self.script = config, list(script)
        self.plans = plan_layers(config)
        self.steps: list[list[tuple[int, list[int]]]] = []
        self.expected: list[tuple[int, list[int]]] = []

    @property
    def chunks(self) -> list[tuple[int, list[int]]]:
        return [chunk for step in self.steps for chunk in step]

    def new_cache(self, reserved: int = 0) -> SequenceCache:
        return SequenceCache(self.config, self.plans)

    def expect(self, token_ids: Sequence[int], cache: SequenceCache) -> None:
        self.expected.append((cache.length, list(token_ids)))

    def forward(
        self, batch: Batch, caches: Sequence[SequenceCache], *, on_layer: Callable[[int], None] | None = None
    ) -> ForwardOutput:
        self.steps.append([(span.position, batch.token_ids[span.rows].tolist()) for span in batch.spans])
        says = self.says(batch, caches)
        for done in range(1, self.config.n_layers + 1):
            if on_layer is not None:
                on_layer(done)
        for span, cache in zip(batch.spans, caches, strict=True):
            cache.commit(span.count)
        logits = torch.zeros(len(batch.logit_rows), self.config.vocab_size)
        for row in range(len(logits)):
            said = says[row] if isinstance(says, list) else says
            if isinstance(said, int):
                logits[row, said] = 1.0
            else:
                logits[row] = said
        return ForwardOutput(logits, torch.zeros(len(batch.token_ids), 0, dtype=torch.bfloat16))

    def says(self, batch: Batch, caches: Sequence[SequenceCache]) -> object:
        says = self.script.pop(0)
        if callable(says):
            says = says(batch, caches)
        if isinstance(says, BaseException):
            raise says
        return says


class CountingModel(ScriptedModel):
    """After a sequence's token `t` at position `p` it says `1 + (31·t + 17·p) mod (vocabulary − 1)`, whatever else is
    in the batch; id 1 comes now and then, so answers end."""

    def says(self, batch: Batch, caches: Sequence[SequenceCache]) -> object:
        ends = set(batch.logit_rows.tolist())
        rows = [(span.end - 1, span.position + span.count - 1) for span in batch.spans if span.end - 1 in ends]
        return [follower(int(batch.token_ids[row]), at, self.config.vocab_size) for row, at in rows]


def follower(token_id: int, position: int, vocab_size: int) -> int:
    """What `CountingModel` says."""
    return 1 + (31 * token_id + 17 * position) % (vocab_size - 1)


ScriptModel = Callable[..., ScriptedModel]


@pytest.fixture(scope="session")
def config() -> ModelConfig:
    return load_config(MINI)


@pytest.fixture(scope="session")
def tokenizer() -> Tokenizer:
    return Tokenizer.load(MINI)


@pytest.fixture
def script_model(config: ModelConfig) -> ScriptModel:
    def make(*script: object, context: int = 2048) -> ScriptedModel:
        return ScriptedModel(replace(config, max_position_embeddings=context), script)

    return make


@pytest.fixture
def counting_model(config: ModelConfig) -> CountingModel:
    return CountingModel(config, [])
