"""What the values of each tensor are drawn from, so that a forward neither dies nor explodes.

Projections have a spread of `gain / √inputs`; what writes into the residual streams is kept small. Norm weights are
about 1, biases and sinks about 0. The gains are those of the built-in miniature, in round numbers.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from shoal.checkpoint.directory import SCALE, WEIGHT
from shoal.checkpoint.inventory import TILE, VISION, TensorSpec

FLOATS = ("BF16", "F32")


@dataclass(frozen=True)
class Distribution:
    """A mean and a standard deviation: of the values themselves or, for packed codes, of codes times scales."""

    mean: float
    spread: float


_GAINS = {
    "attn.wq_a": 1.4,
    "attn.wq_b": 1.5,
    "attn.wkv": 1.2,
    "attn.wo_a": 1.5,
    "attn.wo_b": 0.25,
    "indexer.wq_b": 1.5,
    "compressor.wgate": 1.5,
    "engram.wkv": 0.45,
    "gate": 2.5,
    "w1": 1.8,
    "w3": 1.8,
    "w2": 0.1,
    "head": 5.0,
    "markov_head.head": 2.0,
}
"""By the end of the name without `.weight`, the longest that fits; else, and in the vision encoder, 1."""

_FIXED = {
    "norm.weight": Distribution(1.0, 0.15),
    "norm1.weight": Distribution(1.0, 0.15),
    "norm2.weight": Distribution(1.0, 0.15),
    "engram.q_weight": Distribution(1.0, 0.3),
    "engram.k_weight": Distribution(1.0, 0.3),
    "engram.embed": Distribution(0.0, 1.0),
    "markov_head.embed.weight": Distribution(0.0, 0.5),
    "embed.weight": Distribution(0.0, 1.0),
    "image_start": Distribution(0.0, 1.0),
    "image_newline": Distribution(0.0, 1.0),
    "image_end": Distribution(0.0, 1.0),
    "attn_sink": Distribution(0.0, 0.5),
    "bias": Distribution(0.0, 0.1),
    "bias_vl": Distribution(0.0, 0.1),
    "hc_attn_base": Distribution(0.0, 0.5),
    "hc_ffn_base": Distribution(0.0, 0.5),
    "hc_attn_scale": Distribution(0.8, 0.1),
    "hc_ffn_scale": Distribution(0.8, 0.1),
}
"""By the end of the name; the longest that fits."""


def distribution_of(spec: TensorSpec) -> Distribution:
    """Of a float tensor, or of the weight that a `.scale` belongs to."""
    is_float = spec.dtype in FLOATS
    name = spec.name if is_float else spec.name.removesuffix(SCALE)
    if ending := _longest_ending(name, _FIXED):
        return _FIXED[ending]
    ending = None if spec.kind == VISION else _longest_ending(name.removesuffix(WEIGHT), _GAINS)
    num_inputs = spec.shape[-1] if is_float else spec.shape[-1] * TILE
    return Distribution(0.0, (_GAINS[ending] if ending else 1.0) * num_inputs**-0.5)


def _longest_ending(name: str, endings: Iterable[str]) -> str | None:
    """`q_norm.weight` ends in the noun `norm.weight`, as `compressor.norm.weight` does."""
    fitting = [ending for ending in endings if name == ending or name.endswith((f".{ending}", f"_{ending}"))]
    return max(fitting, key=len, default=None)
