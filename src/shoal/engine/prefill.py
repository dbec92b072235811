"""How many tokens of a prompt are read at once: more read each expert for more rows, and need more memory."""

from shoal.config.schema import ModelConfig

LARGEST_CHUNK, SMALLEST_CHUNK = 2048, 64
# Of what is free: the rest is the page cache's, which holds the experts.
SHARE_OF_MEMORY = 0.25
BFLOAT16, FLOAT32 = 2, 4


def activation_nbytes(config: ModelConfig) -> int:
    """Bytes that one token of a chunk needs at the widest place of a layer, generously.

    Streams before and after a sublayer, queries and heads' outputs, the outputs of its experts, and what lies between.
    """
    streams = 3 * config.hc_mult * config.dim * BFLOAT16
    heads = 3 * config.n_heads * config.head_dim * BFLOAT16
    experts = (config.n_activated_experts + 1) * (config.dim + 4 * config.moe_inter_dim) * BFLOAT16
    selected = config.window_size + config.index_topk
    return streams + heads + experts + 4 * config.dim * FLOAT32 + 8 * selected


def chunk_tokens(config: ModelConfig, usable: int) -> int:
    """The largest power of two from 64 to 2,048 whose tokens take at most a quarter of `usable` bytes."""
    chunk = LARGEST_CHUNK
    while chunk > SMALLEST_CHUNK and chunk * activation_nbytes(config) > SHARE_OF_MEMORY * usable:
        chunk //= 2
    return chunk
