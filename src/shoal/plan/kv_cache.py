"""What sequences remember, in bytes, and what a decoded token reads of it (spec §5, §4.5)."""

from dataclasses import dataclass

from shoal.config.layer_plan import LayerPlan, plan_layers
from shoal.config.schema import ModelConfig
from shoal.plan.page_layout import lay_out_page

_Q8_GROUP, _Q4C_GROUP, _Q4I_GROUP = 32, 16, 32  # values that share a scale byte (spec §3.1)


@dataclass(frozen=True)
class KVCache:
    """Sizes of the caches of sequences of `context` tokens."""

    config: ModelConfig
    context: int

    @property
    def ring_row_nbytes(self) -> int:
        """One position of a window ring: E4M3 codes and their scales."""
        return self.config.head_dim + self.config.head_dim // _Q8_GROUP

    @property
    def entry_nbytes(self) -> int:
        """One compressed entry: two E2M1 codes a byte, and their scales."""
        return self.config.head_dim // 2 + self.config.head_dim // _Q4C_GROUP

    @property
    def key_nbytes(self) -> int:
        """One index key."""
        return self.config.index_head_dim // 2 + self.config.index_head_dim // _Q4I_GROUP

    @property
    def token_nbytes(self) -> float:
        """Bytes that each token adds: 890 in the release."""
        return sum((self.entry_nbytes + self.key_nbytes) / plan.compress_ratio for plan in self._sources)

    @property
    def fixed_nbytes(self) -> int:
        """Bytes of a sequence of any length: its window rings, those of the draft included."""
        return self.config.num_all_layers * self.config.window_size * self.ring_row_nbytes

    @property
    def page_nbytes(self) -> int:
        """Bytes of a page, in which entries and keys are held: 227,840 for 256 tokens of the release."""
        return lay_out_page(self.config).nbytes

    @property
    def sequence_nbytes(self) -> int:
        """Bytes of a sequence of `context` tokens, its last page whole."""
        layout = lay_out_page(self.config)
        return self.fixed_nbytes + layout.pages_for(self.context) * layout.nbytes

    @property
    def read_nbytes(self) -> int:
        """Bytes that the token after `context` others reads: rings, index keys and selected entries."""
        config, backbone = self.config, self._backbone
        rings = len(backbone) * min(self.context, config.window_size) * self.ring_row_nbytes
        keys = sum(self._scored(plan) for plan in backbone if plan.scores)
        reading = [plan for plan in backbone if plan.compress_ratio]
        selected = sum(min(config.index_topk, self._positions(plan)) for plan in reading)
        return rings + keys * self.key_nbytes + selected * self.entry_nbytes

    @property
    def _backbone(self) -> list[LayerPlan]:
        return [plan for plan in plan_layers(self.config) if not plan.is_draft]

    @property
    def _sources(self) -> list[LayerPlan]:
        return [plan for plan in self._backbone if plan.owns_kv]

    def _positions(self, plan: LayerPlan) -> int:
        return self.context // plan.compress_ratio

    def _scored(self, plan: LayerPlan) -> int:
        candidates = self.config.candidate_topk_blocks * self.config.candidate_block_size
        restricted = plan.candidate_source is not None
        return min(candidates, self._positions(plan)) if restricted else self._positions(plan)
