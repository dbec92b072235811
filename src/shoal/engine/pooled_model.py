"""A backbone whose sequences have their pages from one pool, as far as it goes."""

from collections.abc import Callable, Sequence

from shoal.config.schema import ModelConfig
from shoal.model.backbone import Backbone, ForwardOutput
from shoal.model.batch import Batch
from shoal.model.cache import SequenceCache
from shoal.model.page_pool import PagePool


class PooledModel:
    """A `Model` over `pool`. Pages are taken as sequences grow: who runs them has counted what they may take."""

    def __init__(self, backbone: Backbone, pool: PagePool) -> None:
        self.backbone, self.pool = backbone, pool

    @property
    def config(self) -> ModelConfig:
        """The backbone's."""
        return self.backbone.config

    def new_cache(self, reserved: int = 0) -> SequenceCache:
        """A sequence that has no token and no page yet, however many tokens it may get."""
        return self.backbone.new_cache(pool=self.pool)

    def forward(
        self, batch: Batch, caches: Sequence[SequenceCache], *, on_layer: Callable[[int], None] | None = None
    ) -> ForwardOutput:
        """The backbone's. Raises `CacheFullError` before anything is computed."""
        return self.backbone.forward(batch, caches, on_layer=on_layer)

    def expect(self, token_ids: Sequence[int], cache: SequenceCache) -> None:
        """The backbone's."""
        self.backbone.expect(token_ids, cache)
