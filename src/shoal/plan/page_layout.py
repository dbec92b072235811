"""How a page of the KV cache is laid out: what every KV source stores of the same consecutive tokens (spec §5b)."""

from collections.abc import Mapping
from dataclasses import dataclass

from shoal.config.layer_plan import plan_layers
from shoal.config.schema import ModelConfig

PAGE_TOKENS = 256
ALIGNMENT = 64
_Q4C_GROUP, _Q4I_GROUP = 16, 32  # values that share a scale byte (spec §3.1)


@dataclass(frozen=True)
class PageRows:
    """`rows` rows of one kind: their codes from `codes_at` on, their scales from `scales_at` on, `*_nbytes` a row."""

    rows: int
    dim: int
    code_nbytes: int
    scale_nbytes: int
    codes_at: int
    scales_at: int

    @property
    def shift(self) -> int:
        """Row r of a sequence is in its page r >> shift."""
        return self.rows.bit_length() - 1

    @property
    def end(self) -> int:
        """Where what follows may start."""
        return _aligned(self.scales_at + self.rows * self.scale_nbytes)


@dataclass(frozen=True)
class PageLayout:
    """`tokens` tokens, whose entries and index keys lie by KV source; `nbytes` in all."""

    tokens: int
    entries: Mapping[int, PageRows]
    index_keys: Mapping[int, PageRows]
    nbytes: int

    def pages_for(self, tokens: int) -> int:
        """How many pages a sequence of `tokens` tokens takes."""
        return -(-tokens // self.tokens)


def lay_out_page(config: ModelConfig, tokens: int = PAGE_TOKENS) -> PageLayout:
    """The layout for a power of two of tokens, a multiple of every ratio. Every part starts at a cache line."""
    entries, keys, start = {}, {}, 0
    for plan in plan_layers(config):
        if plan.is_draft or not plan.owns_kv:
            continue
        rows = tokens // plan.compress_ratio
        assert rows * plan.compress_ratio == tokens and rows.bit_count() == 1, (tokens, plan.compress_ratio)
        entries[plan.layer_id] = entry = _rows(rows, config.head_dim, _Q4C_GROUP, start)
        keys[plan.layer_id] = key = _rows(rows, config.index_head_dim, _Q4I_GROUP, entry.end)
        start = key.end
    return PageLayout(tokens, entries, keys, start)


def _rows(rows: int, dim: int, group: int, start: int) -> PageRows:
    # Two E2M1 codes a byte.
    return PageRows(rows, dim, dim // 2, dim // group, start, _aligned(start + rows * dim // 2))


def _aligned(offset: int) -> int:
    return -(-offset // ALIGNMENT) * ALIGNMENT
