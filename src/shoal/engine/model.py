"""What the engine needs of a model."""

from collections.abc import Callable, Sequence
from typing import Protocol

from shoal.config.schema import ModelConfig
from shoal.model.backbone import ForwardOutput
from shoal.model.batch import Batch
from shoal.model.cache import SequenceCache


class Model(Protocol):
    """A backbone, or what a test puts in its place."""

    @property
    def config(self) -> ModelConfig:
        """The shape, the vocabulary and the context's length."""
        ...

    def new_cache(self, reserved: int = 0) -> SequenceCache:
        """A sequence that has no token yet, with room for `reserved`."""
        ...

    def forward(
        self, batch: Batch, caches: Sequence[SequenceCache], *, on_layer: Callable[[int], None] | None = None
    ) -> ForwardOutput:
        """Run the batch and append it to its sequences' caches; when interrupted, leave them as they were.

        `on_layer` is told how many layers are done, after each.
        """
        ...

    def expect(self, token_ids: Sequence[int], cache: SequenceCache) -> None:
        """Say that these ids follow the sequence next: what their forward needs from the disk may be fetched."""
        ...
