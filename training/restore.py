"""The trained weights of a checkpoint, back in float32: what is stored is a fixed point of its rounding."""

import torch

from shoal.checkpoint.inventory import TensorSpec, inventory
from shoal.checkpoint.shards import Checkpoint
from shoal.config.schema import ModelConfig
from shoal.formats.float4 import decode_e2m1, unpack_e2m1
from shoal.formats.float8 import decode_e4m3, decode_e8m0
from training.export import parameter_of
from training.fake_quantize import TILE
from training.weights import Weights

_WEIGHT = ".weight"


def restore(config: ModelConfig, checkpoint: Checkpoint) -> Weights:
    """The weights whose export is `checkpoint`."""
    weights = Weights(config, 0)
    with torch.no_grad():
        for spec in inventory(config):
            place = None if spec.name.endswith((".scale", ".bias_vl")) else parameter_of(config, spec)
            if place is None:
                continue
            name, index = place
            target = weights.gate_bias if name == "gate_bias" else weights.get_parameter(name)
            target[index] = _decoded(checkpoint, spec)
    return weights


def _decoded(checkpoint: Checkpoint, spec: TensorSpec) -> torch.Tensor:
    stored = checkpoint.read(spec.name)
    if spec.dtype in ("F32", "BF16"):
        return stored.float()
    scales = decode_e8m0(checkpoint.read(spec.name.removesuffix(_WEIGHT) + ".scale")).float()
    values = decode_e2m1(unpack_e2m1(stored)) if spec.dtype == "I8" else decode_e4m3(stored)
    rows = values.shape[0] // scales.shape[0]
    return values * scales.repeat_interleave(rows, 0).repeat_interleave(TILE, 1)
