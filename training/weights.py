"""What is trained: every tensor of the backbone as float32, layers of one shape stacked into one parameter."""

import math

import torch
from torch import Tensor, nn

from shoal.config.schema import ModelConfig
from training import fake_quantize as fq

# How each parameter is stored; what is not named is float32.
FLOAT8 = (
    "wq_a", "wq_b", "wkv", "wo_a", "wo_b", "shared_w1", "shared_w3", "shared_w2", "index_wq_b", "engram_wkv",
)  # fmt: skip
FLOAT4 = ("expert_w1", "expert_w3", "expert_w2")
BFLOAT16 = (
    "embed", "head", "norm", "q_norm", "kv_norm", "attn_norm", "ffn_norm", "gate", "index_weights", "index_wk",
    "index_k_norm", "compressor_wkv", "compressor_wgate", "compressor_norm", "engram_q", "engram_k",
)  # fmt: skip
TABLES = ("table_0", "table_1")


class Weights(nn.Module):
    """The parameters, and the router's selection bias, which no gradient reaches."""

    gate_bias: Tensor

    def __init__(self, config: ModelConfig, seed: int) -> None:
        super().__init__()
        self.config = config
        generator = torch.Generator().manual_seed(seed)
        for name, shape in shapes(config).items():
            self.register_parameter(name, nn.Parameter(_initial(name, shape, generator)))
        self.register_buffer("gate_bias", torch.zeros(config.n_layers, config.n_routed_experts))

    def stored(self) -> dict[str, Tensor]:
        """Every parameter as the checkpoint will hold it, straight through."""
        return stored(dict(self.named_parameters()))


def stored(parameters: dict[str, Tensor]) -> dict[str, Tensor]:
    """Parameters by name as the checkpoint will hold them, straight through."""
    return {name: rounding_of(name)(value) for name, value in parameters.items()}


def rounding_of(name: str):  # type: ignore[no-untyped-def]
    """The rounding of the format a parameter is stored in."""
    if name in FLOAT8:
        return fq.e4m3_tiles
    if name in FLOAT4:
        return fq.e2m1_rows
    if name in TABLES:
        return fq.e4m3_rows
    if name in BFLOAT16:
        return fq.bfloat16
    return lambda value: value


def shapes(c: ModelConfig) -> dict[str, tuple[int, ...]]:
    """The shape of every parameter, by name; the first axis counts the layers that have it."""
    layers, sources, indexers = c.n_layers, len(c.kv_source_layers), len(c.index_source_layers)
    gated = sum(c.compress_ratios[layer] > 1 for layer in c.kv_source_layers)
    coefficients, streams = c.hc_mult * (c.hc_mult + 2), c.hc_mult * c.dim
    widths, engrams = c.n_heads * c.head_dim, len(c.engram_layer_ids)
    tables = {f"table_{n}": (rows, c.engram_head_dim) for n, rows in enumerate(c.engram_num_embeddings)}
    return {
        "embed": (c.vocab_size, c.dim),
        "head": (c.vocab_size, c.dim),
        "norm": (c.dim,),
        "attn_norm": (layers, c.dim),
        "ffn_norm": (layers, c.dim),
        "wq_a": (layers, c.q_lora_rank, c.dim),
        "q_norm": (layers, c.q_lora_rank),
        "wq_b": (layers, widths, c.q_lora_rank),
        "wkv": (layers, c.head_dim, c.dim),
        "kv_norm": (layers, c.head_dim),
        "wo_a": (layers, c.o_groups * c.o_lora_rank, widths // c.o_groups),
        "wo_b": (layers, c.dim, c.o_groups * c.o_lora_rank),
        "attn_sink": (layers, c.n_heads),
        **{f"hc_{part}_fn": (layers, coefficients, streams) for part in ("attn", "ffn")},
        **{f"hc_{part}_base": (layers, coefficients) for part in ("attn", "ffn")},
        **{f"hc_{part}_scale": (layers, 3) for part in ("attn", "ffn")},
        "gate": (layers, c.n_routed_experts, c.dim),
        **{f"expert_{w}": (layers, c.n_routed_experts, *shape) for w, shape in _expert(c).items()},
        **{f"shared_{w}": (layers, *shape) for w, shape in _expert(c).items()},
        "index_wq_b": (indexers, c.index_n_heads * c.index_head_dim, c.q_lora_rank),
        "index_weights": (indexers, c.index_n_heads, c.dim),
        "index_wk": (sources, c.index_head_dim, c.head_dim),
        "index_k_norm": (sources, c.index_head_dim),
        "compressor_wkv": (sources, c.head_dim, c.dim),
        "compressor_norm": (sources, c.head_dim),
        "compressor_wgate": (gated, c.head_dim, c.dim),
        "engram_wkv": (engrams, (c.hc_mult + 1) * c.dim, c.engram_dim),
        "engram_q": (engrams, c.hc_mult, c.dim),
        "engram_k": (engrams, c.hc_mult, c.dim),
        **tables,
    }


def _expert(c: ModelConfig) -> dict[str, tuple[int, int]]:
    return {"w1": (c.moe_inter_dim, c.dim), "w3": (c.moe_inter_dim, c.dim), "w2": (c.dim, c.moe_inter_dim)}


def _initial(name: str, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """Where training starts: norms at one, streams mixed nearly apart, projections of unit gain."""
    if "norm" in name or name in ("engram_q", "engram_k"):
        return torch.ones(shape)
    if name == "attn_sink":
        return torch.zeros(shape)
    if name.endswith("_scale"):
        return torch.full(shape, 0.5)
    noise = torch.randn(shape, generator=generator)
    if name.endswith("_base"):
        return _initial_mix(noise)
    if name in ("embed", "head", *TABLES):
        return noise * (0.5 if name == "embed" else 0.02)
    gain = 0.3 if name in ("wo_b", "expert_w2", "shared_w2", "engram_wkv") else 1.0
    return noise * gain / math.sqrt(shape[-1])


def _initial_mix(noise: Tensor) -> Tensor:
    """Pre and post coefficients that tell the streams apart, and a combination near the identity."""
    streams = 4
    base = noise * 0.5
    base[:, 2 * streams :] += 3.0 * torch.eye(streams).flatten()
    return base
