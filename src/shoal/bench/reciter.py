"""A model that costs next to nothing: it recites a text, so that what is around a model can be measured."""

from collections.abc import Callable, Sequence

import torch

from shoal.config.layer_plan import plan_layers
from shoal.config.schema import ModelConfig
from shoal.model.backbone import ForwardOutput
from shoal.model.batch import Batch
from shoal.model.cache import SequenceCache


class Reciter:
    """The likeliest id at position p of any sequence is `ids[p mod len(ids)]`."""

    def __init__(self, config: ModelConfig, ids: Sequence[int]) -> None:
        self.config, self.ids, self._plans = config, ids, plan_layers(config)

    def new_cache(self, reserved: int = 0) -> SequenceCache:
        """A real one, of which nothing but the length is used."""
        return SequenceCache(self.config, self._plans)

    def expect(self, token_ids: Sequence[int], cache: SequenceCache) -> None:
        """Nothing is to be fetched."""

    def forward(
        self, batch: Batch, caches: Sequence[SequenceCache], *, on_layer: Callable[[int], None] | None = None
    ) -> ForwardOutput:
        """One row of logits for each sequence whose next id is wanted."""
        for done in range(self.config.n_layers if on_layer is not None else 0):
            assert on_layer is not None
            on_layer(done + 1)
        wanted = set(batch.logit_rows.tolist())
        lengths = [span.position + span.count for span in batch.spans if span.end - 1 in wanted]
        for span, cache in zip(batch.spans, caches, strict=True):
            cache.commit(span.count)
        logits = torch.zeros(len(lengths), self.config.vocab_size)
        for row, length in enumerate(lengths):
            logits[row, self.ids[length % len(self.ids)]] = 1.0
        return ForwardOutput(logits, torch.zeros(len(batch.token_ids), 0, dtype=torch.bfloat16))
