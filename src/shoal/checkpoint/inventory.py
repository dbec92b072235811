"""Every tensor a configuration implies: name, stored dtype, shape, class (spec §2.1). Standard library only."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from shoal.checkpoint.header import DTYPE_BITS
from shoal.config.layer_plan import plan_layers
from shoal.config.schema import ModelConfig

TILE = 32
ROUTED, SHARED, ATTENTION, LAYER = "routed experts", "shared experts", "attention", "norms, mixes, routers"
ENGRAM, EMBEDDING, VISION, DRAFT = "Engram", "embedding and head", "vision", "draft"


@dataclass(frozen=True)
class TensorSpec:
    """One tensor as it must be stored. `kind` is the class it is counted under."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    kind: str

    @property
    def nbytes(self) -> int:
        """Bytes as stored."""
        return math.prod(self.shape) * DTYPE_BITS[self.dtype] // 8


class LayerRole(Protocol):
    """What decides a layer's tensors: a `LayerPlan`, or what an audit reads from lists that disagree."""

    @property
    def layer_id(self) -> int: ...
    @property
    def prefix(self) -> str: ...
    @property
    def compress_ratio(self) -> int: ...
    @property
    def engram_index(self) -> int | None: ...
    @property
    def is_draft(self) -> bool: ...
    @property
    def owns_kv(self) -> bool: ...
    @property
    def scores(self) -> bool: ...


def inventory(config: ModelConfig) -> Iterator[TensorSpec]:
    """All tensors: layers, then draft layers, then what stands outside them."""
    for plan in plan_layers(config):
        yield from layer_tensors(config, plan)
    yield from outer_tensors(config)


def outer_tensors(config: ModelConfig) -> Iterator[TensorSpec]:
    """What stands outside the layers: embedding, head and norm, then vision and aligner."""
    yield from _top(config)
    yield from _vision(config)


def layer_tensors(config: ModelConfig, plan: LayerRole) -> Iterator[TensorSpec]:
    """The tensors of one layer, its Engram included."""
    yield from _attention(config, plan)
    yield from _mixture(config, plan)
    if plan.scores:
        yield from _indexer(config, plan)
    if plan.owns_kv:
        yield from _compressor(config, plan)
    if plan.engram_index is not None:
        yield from _engram(config, plan, _engram_rows(config, plan.engram_index))
    if plan.is_draft:
        yield from _draft(config, plan)


def _float8(name: str, rows: int, columns: int, kind: str) -> Iterator[TensorSpec]:
    yield TensorSpec(f"{name}.weight", "F8_E4M3", (rows, columns), kind)
    yield TensorSpec(f"{name}.scale", "F8_E8M0", (-(-rows // TILE), -(-columns // TILE)), kind)


def _float4(name: str, rows: int, columns: int, kind: str) -> Iterator[TensorSpec]:
    yield TensorSpec(f"{name}.weight", "I8", (rows, columns // 2), kind)
    yield TensorSpec(f"{name}.scale", "F8_E8M0", (rows, columns // TILE), kind)


def _attention(c: ModelConfig, plan: LayerRole) -> Iterator[TensorSpec]:
    kind = DRAFT if plan.is_draft else ATTENTION
    name = f"{plan.prefix}.attn"
    yield from _float8(f"{name}.wq_a", c.q_lora_rank, c.dim, kind)
    yield TensorSpec(f"{name}.q_norm.weight", "BF16", (c.q_lora_rank,), kind)
    yield from _float8(f"{name}.wq_b", c.n_heads * c.head_dim, c.q_lora_rank, kind)
    yield from _float8(f"{name}.wkv", c.head_dim, c.dim, kind)
    yield TensorSpec(f"{name}.kv_norm.weight", "BF16", (c.head_dim,), kind)
    yield from _float8(f"{name}.wo_a", c.o_groups * c.o_lora_rank, c.n_heads * c.head_dim // c.o_groups, kind)
    yield from _float8(f"{name}.wo_b", c.dim, c.o_groups * c.o_lora_rank, kind)
    yield TensorSpec(f"{name}.attn_sink", "F32", (c.n_heads,), kind)
    yield TensorSpec(f"{plan.prefix}.attn_norm.weight", "BF16", (c.dim,), kind)


def _mixture(c: ModelConfig, plan: LayerRole) -> Iterator[TensorSpec]:
    kind = DRAFT if plan.is_draft else LAYER
    experts = c.num_draft_experts if plan.is_draft else c.n_routed_experts
    prefix, coefficients = plan.prefix, c.hc_mult * (c.hc_mult + 2)
    yield TensorSpec(f"{prefix}.ffn_norm.weight", "BF16", (c.dim,), kind)
    for part in ("attn", "ffn"):
        yield TensorSpec(f"{prefix}.hc_{part}_fn", "F32", (coefficients, c.hc_mult * c.dim), kind)
        yield TensorSpec(f"{prefix}.hc_{part}_base", "F32", (coefficients,), kind)
        yield TensorSpec(f"{prefix}.hc_{part}_scale", "F32", (3,), kind)
    yield TensorSpec(f"{prefix}.ffn.gate.weight", "BF16", (experts, c.dim), kind)
    yield TensorSpec(f"{prefix}.ffn.gate.bias", "F32", (experts,), kind)
    yield TensorSpec(f"{prefix}.ffn.gate.bias_vl", "F32", (experts,), kind)
    shared = f"{prefix}.ffn.shared_experts"
    shared_kind = DRAFT if plan.is_draft else SHARED
    for name, rows, columns in _expert_matrices(c):
        yield from _float8(f"{shared}.{name}", rows, columns, shared_kind)
    for expert in range(experts):
        for name, rows, columns in _expert_matrices(c):
            yield from _float4(f"{prefix}.ffn.experts.{expert}.{name}", rows, columns, ROUTED)


def _expert_matrices(c: ModelConfig) -> tuple[tuple[str, int, int], ...]:
    return ("w1", c.moe_inter_dim, c.dim), ("w3", c.moe_inter_dim, c.dim), ("w2", c.dim, c.moe_inter_dim)


def _indexer(c: ModelConfig, plan: LayerRole) -> Iterator[TensorSpec]:
    name = f"{plan.prefix}.attn.indexer"
    yield from _float8(f"{name}.wq_b", c.index_n_heads * c.index_head_dim, c.q_lora_rank, ATTENTION)
    yield TensorSpec(f"{name}.weights_proj.weight", "BF16", (c.index_n_heads, c.dim), ATTENTION)


def _compressor(c: ModelConfig, plan: LayerRole) -> Iterator[TensorSpec]:
    name = f"{plan.prefix}.attn"
    yield TensorSpec(f"{name}.indexer.wk.weight", "BF16", (c.index_head_dim, c.head_dim), ATTENTION)
    yield TensorSpec(f"{name}.indexer.k_norm.weight", "BF16", (c.index_head_dim,), ATTENTION)
    yield TensorSpec(f"{name}.compressor.wkv.weight", "BF16", (c.head_dim, c.dim), ATTENTION)
    yield TensorSpec(f"{name}.compressor.norm.weight", "BF16", (c.head_dim,), ATTENTION)
    if plan.compress_ratio > 1:
        yield TensorSpec(f"{name}.compressor.wgate.weight", "BF16", (c.head_dim, c.dim), ATTENTION)


def _engram(c: ModelConfig, plan: LayerRole, rows: int) -> Iterator[TensorSpec]:
    name = f"{plan.prefix}.engram"
    yield TensorSpec(f"{name}.embed.weight", "F8_E4M3", (rows, c.engram_head_dim), ENGRAM)
    yield TensorSpec(f"{name}.embed.scale", "F8_E8M0", (rows, c.engram_head_dim // TILE), ENGRAM)
    yield from _float8(f"{name}.wkv", (c.hc_mult + 1) * c.dim, c.engram_dim, ENGRAM)
    for part in ("q_weight", "k_weight"):
        yield TensorSpec(f"{name}.{part}", "BF16", (c.hc_mult, c.dim), ENGRAM)


def _engram_rows(c: ModelConfig, index: int) -> int:
    # An audit lays out configurations that state too few sizes; the size itself is another check's.
    return c.engram_num_embeddings[index] if index < len(c.engram_num_embeddings) else 0


def _draft(c: ModelConfig, plan: LayerRole) -> Iterator[TensorSpec]:
    name = plan.prefix
    if plan.layer_id == c.n_layers:
        yield from _float8(f"{name}.main_proj", c.dim, len(c.dspark_target_layer_ids) * c.dim, DRAFT)
        yield TensorSpec(f"{name}.main_norm.weight", "BF16", (c.dim,), DRAFT)
    if plan.layer_id == c.num_all_layers - 1:
        rank = c.dspark_markov_rank
        yield TensorSpec(f"{name}.norm.weight", "BF16", (c.dim,), DRAFT)
        yield TensorSpec(f"{name}.markov_head.embed.weight", "BF16", (c.vocab_size, rank), DRAFT)
        yield TensorSpec(f"{name}.markov_head.head.weight", "BF16", (c.vocab_size, rank), DRAFT)
        yield TensorSpec(f"{name}.confidence_head.proj.weight", "BF16", (1, c.dim + rank), DRAFT)


def _top(c: ModelConfig) -> Iterator[TensorSpec]:
    yield TensorSpec("embed.weight", "BF16", (c.vocab_size, c.dim), EMBEDDING)
    yield TensorSpec("head.weight", "BF16", (c.vocab_size, c.dim), EMBEDDING)
    yield TensorSpec("norm.weight", "BF16", (c.dim,), EMBEDDING)


def _vision(c: ModelConfig) -> Iterator[TensorSpec]:
    if c.vision_n_layers == 0:
        return
    d, inter = c.vision_dim, c.vision_inter_dim
    for name in ("image_start", "image_newline", "image_end"):
        yield TensorSpec(name, "BF16", (c.dim,), VISION)
    yield from _biased("vision.patch_embed.proj", d, 3 * c.vision_patch_size**2)
    for block in range(c.vision_n_layers):
        name = f"vision.blocks.{block}"
        yield TensorSpec(f"{name}.norm1.weight", "BF16", (d,), VISION)
        yield TensorSpec(f"{name}.norm2.weight", "BF16", (d,), VISION)
        yield from _biased(f"{name}.attn.wqkv", 3 * d, d)
        yield from _biased(f"{name}.attn.wo", d, d)
        yield TensorSpec(f"{name}.mlp.w1.weight", "BF16", (2 * inter, d), VISION)
        yield TensorSpec(f"{name}.mlp.w2.weight", "BF16", (d, inter), VISION)
    yield TensorSpec("vision.norm.weight", "BF16", (d,), VISION)
    yield from _biased("aligner.w1", c.dim, d * c.vision_downsample_ratio**2)
    yield from _biased("aligner.w2", c.dim, c.dim)


def _biased(name: str, rows: int, columns: int) -> Iterator[TensorSpec]:
    yield TensorSpec(f"{name}.weight", "BF16", (rows, columns), VISION)
    yield TensorSpec(f"{name}.bias", "BF16", (rows,), VISION)
