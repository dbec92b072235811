"""One configuration, whichever file it came from. Fields keep the flat file's spelling (spec §1.1).

Nothing has a default but what only the nested file can say: a guessed size is a wrong model.
"""

from bisect import bisect_right
from dataclasses import MISSING, dataclass, fields

Number = int | float
"""A JSON number in the file's own type, so that writing it back gives the same text."""


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """The 64 keys of the flat file, in its order, then the 12 that only the nested file states.

    Reading a file checks types and ranges only; `verify` checks that the values fit each other.
    """

    vocab_size: int
    dim: int
    moe_inter_dim: int
    n_layers: int
    n_mtp_layers: int
    dspark_block_size: int  # 0: no draft
    dspark_noise_token_id: int
    dspark_target_layer_ids: tuple[int, ...]
    dspark_markov_rank: int
    dspark_n_routed_experts: int  # 0: the backbone's
    dspark_n_activated_experts: int  # 0: the backbone's
    n_heads: int
    n_routed_experts: int
    n_shared_experts: int
    n_activated_experts: int
    score_func: str
    route_scale: Number
    swiglu_limit: Number  # 0: no clamp
    q_lora_rank: int
    head_dim: int
    rope_head_dim: int
    norm_eps: Number
    o_groups: int
    o_lora_rank: int
    window_size: int
    kv_source_layers: tuple[int, ...]
    index_source_layers: tuple[int, ...]
    original_seq_len: int  # 0: no YaRN
    rope_theta: Number
    rope_factor: Number
    beta_fast: Number
    beta_slow: Number
    index_n_heads: int
    index_head_dim: int
    index_topk: int
    candidate_source_layer: int  # negative: no candidate restriction
    candidate_topk_blocks: int
    candidate_block_size: int
    hc_mult: int
    hc_sinkhorn_iters: int
    hc_eps: Number
    engram_layer_ids: tuple[int, ...]
    engram_vocab_size: int
    engram_num_embeddings: tuple[int, ...]
    engram_max_ngram_size: int
    engram_pad_id: int
    engram_compressed_vocab_size: int
    dtype: str  # of dense weights, "fp8"; what the nested file calls `dtype` is `storage_dtype`
    expert_dtype: str
    compress_rope_theta: Number
    compress_ratios: tuple[int, ...]  # backbone, then draft layers
    vision_n_layers: int  # 0: no vision
    vision_dim: int
    vision_n_heads: int
    vision_inter_dim: int
    vision_patch_size: int
    vision_downsample_ratio: int
    vision_max_n_token: int
    vision_min_pixels: int
    vision_max_wh_ratio: Number | None  # null in the file: no limit
    image_token_id: int
    engram_n_heads: int
    engram_head_dim: int
    vision_rope_theta: Number

    num_key_value_heads: int | None = None
    rope_type: str | None = None
    max_position_embeddings: int | None = None
    norm_topk_prob: bool | None = None
    topk_method: str | None = None
    hidden_act: str | None = None
    storage_dtype: str | None = None
    bos_token_id: int | None = None
    eos_token_id: int | None = None
    pad_token_id: int | None = None
    weight_block_size: tuple[int, ...] | None = None
    scale_fmt: str | None = None

    @property
    def num_all_layers(self) -> int:
        """Backbone and draft layers."""
        return self.n_layers + self.n_mtp_layers

    @property
    def context_length(self) -> int:
        """Tokens: `max_position_embeddings`, or the range YaRN stretches to where the file does not say."""
        if self.max_position_embeddings is not None:
            return self.max_position_embeddings
        return int(self.original_seq_len * self.rope_factor)

    @property
    def has_engram(self) -> bool:
        """Whether any layer reads an Engram table."""
        return bool(self.engram_layer_ids)

    @property
    def num_engram_columns(self) -> int:
        """Rows read per position and table: one per n-gram length from 2 and head (spec §6.1)."""
        return (self.engram_max_ngram_size - 1) * self.engram_n_heads

    @property
    def engram_dim(self) -> int:
        """Width of a position's rows of one table, concatenated."""
        return self.num_engram_columns * self.engram_head_dim

    @property
    def has_draft(self) -> bool:
        """Whether there is a draft model to speculate with."""
        return self.n_mtp_layers > 0 and self.dspark_block_size > 0

    @property
    def num_draft_experts(self) -> int:
        """Routed experts of a draft layer."""
        return self.dspark_n_routed_experts or self.n_routed_experts

    @property
    def num_active_draft_experts(self) -> int:
        """Routed experts a draft layer runs per token."""
        return self.dspark_n_activated_experts or self.n_activated_experts

    @property
    def has_candidates(self) -> bool:
        """Whether a candidate source restricts the index sources after it (spec §4.5)."""
        return self.candidate_source_layer >= 0

    @property
    def has_vision(self) -> bool:
        """Whether the model reads images."""
        return self.vision_n_layers > 0

    def kv_source_of(self, layer_id: int) -> int | None:
        """The last KV source at or before a layer (spec §1.2); None before the first."""
        return _last_at_or_before(self.kv_source_layers, layer_id)

    def index_source_of(self, layer_id: int) -> int | None:
        """The last index source at or before a layer (spec §1.2); None before the first."""
        return _last_at_or_before(self.index_source_layers, layer_id)

    def as_reference_dict(self) -> dict[str, object]:
        """The flat file's 64 keys in its order and types: tuples as lists, integers as integers."""
        values = {name: getattr(self, name) for name in REQUIRED_FIELDS}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}

    def differs_from(self, other: "ModelConfig") -> dict[str, tuple[object, object]]:
        """The fields that differ: name to (here, there). 10000 and 10000.0 are the same number."""
        names = [field.name for field in fields(self)]
        pairs = {name: (getattr(self, name), getattr(other, name)) for name in names}
        return {name: (mine, theirs) for name, (mine, theirs) in pairs.items() if mine != theirs}

    def verify(self) -> list[str]:
        """One sentence for each way in which the values contradict each other; empty when they agree."""
        from shoal.config.checks import verify  # checks reads this module

        return verify(self)


REQUIRED_FIELDS = tuple(field.name for field in fields(ModelConfig) if field.default is MISSING)
"""The 64 flat keys. Either layout must state every one of them, spelled its own way."""

NESTED_ONLY_FIELDS = tuple(field.name for field in fields(ModelConfig) if field.default is None)
"""The 12 fields the released flat file leaves out."""


def _last_at_or_before(ascending: tuple[int, ...], layer_id: int) -> int | None:
    place = bisect_right(ascending, layer_id)
    return ascending[place - 1] if place else None
