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
    """Gives the logits rows of a script, one a forward; a script's integer is the id whose logit is largest.

    Forwards are kept in `chunks` as (first position, ids); an exception in the script is raised.
    """

    def __init__(self, config: ModelConfig, script: Sequence[object]) -> None:
        self.config, self.script = config, list(script)
        self.plans = plan_layers(config)
        self.chunks: list[tuple[int, list[int]]] = []
        self.expected: list[tuple[int, list[int]]] = []

    def new_cache(self, reserved: int = 0) -> SequenceCache:
        return SequenceCache(self.config, self.plans, reserved)

    def expect(self, token_ids: Sequence[int], cache: SequenceCache) -> None:
        self.expected.append((cache.length, list(token_ids)))

    def forward(
        self, batch: Batch, caches: Sequence[SequenceCache], *, on_layer: Callable[[int], None] | None = None
    ) -> ForwardOutput:
        self.chunks.append((batch.spans[0].position, batch.token_ids.tolist()))
        says = self.script.pop(0)
        if isinstance(says, BaseException):
            raise says
        logits = torch.zeros(1, self.config.vocab_size)
        if isinstance(says, int):
            logits[0, says] = 1.0
        else:
            logits[0] = says
        caches[0].commit(len(batch.token_ids))
        for done in range(1, self.config.n_layers + 1):
            if on_layer is not None:
                on_layer(done)
        return ForwardOutput(logits, torch.zeros(len(batch.token_ids), 0, dtype=torch.bfloat16))


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
