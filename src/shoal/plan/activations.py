"""How many tokens of a prompt are read at once: more read each expert for more rows, and need more memory."""

from dataclasses import dataclass

from shoal.config.schema import ModelConfig

CHUNKS = (2048, 1024, 512, 256, 128, 64)
BFLOAT16, FLOAT32 = 2, 4


@dataclass(frozen=True)
class Activations:
    """Bytes of one token of a chunk, and the chunks to choose from, the largest first."""

    token_nbytes: int
    chunks: tuple[int, ...]


def activations(config: ModelConfig) -> Activations:
    """What a planner needs to choose how many tokens of a prompt are read at once."""
    return Activations(activation_nbytes(config), CHUNKS)


def activation_nbytes(config: ModelConfig) -> int:
    """Bytes that one token of a chunk needs at the widest place of a layer, generously.

    Streams before and after a sublayer, queries and heads' outputs, the outputs of its experts, and what lies between.
    """
    streams = 3 * config.hc_mult * config.dim * BFLOAT16
    heads = 3 * config.n_heads * config.head_dim * BFLOAT16
    experts = (config.n_activated_experts + 1) * (config.dim + 4 * config.moe_inter_dim) * BFLOAT16
    selected = config.window_size + config.index_topk
    return streams + heads + experts + 4 * config.dim * FLOAT32 + 8 * selected
