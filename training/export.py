"""`python -m training.export CORPUS STATE OUT`: a trained state as a checkpoint in the release's layout.

What is not trained yet, the draft layers and the encoder of images, has its place and holds zeros.
"""

import argparse
import shutil
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor

from shoal.checkpoint.index import INDEX_NAME
from shoal.checkpoint.inventory import DRAFT, VISION, TensorSpec
from shoal.checkpoint.shard_layout import header_bytes, lay_out
from shoal.config.schema import ModelConfig
from shoal.formats.float4 import encode_e2m1, pack_e2m1
from shoal.formats.float8 import E8M0_BIAS, encode_e4m3
from shoal.synth.config_files import FLAT_NAME, ConfigSource, config_files
from shoal.synth.replacement import ensure
from shoal.synth.shard_writer import ShardWriter
from shoal.synth.synthesis import TOKENIZER_NAMES, index_bytes
from training import fake_quantize as fq
from training.geometry import geometry
from training.train import STATE
from training.weights import Weights

_LAYER = {
    "attn_norm.weight": "attn_norm",
    "ffn_norm.weight": "ffn_norm",
    "attn.q_norm.weight": "q_norm",
    "attn.kv_norm.weight": "kv_norm",
    "attn.attn_sink": "attn_sink",
    "ffn.gate.weight": "gate",
    "attn.indexer.weights_proj.weight": "index_weights",
    "attn.indexer.wk.weight": "index_wk",
    "attn.indexer.k_norm.weight": "index_k_norm",
    "attn.compressor.wkv.weight": "compressor_wkv",
    "attn.compressor.wgate.weight": "compressor_wgate",
    "attn.compressor.norm.weight": "compressor_norm",
    "engram.q_weight": "engram_q",
    "engram.k_weight": "engram_k",
    "attn.indexer.wq_b": "index_wq_b",
    "engram.wkv": "engram_wkv",
    **{f"attn.{name}": name for name in ("wq_a", "wq_b", "wkv", "wo_a", "wo_b")},
    **{f"ffn.shared_experts.{name}": f"shared_{name}" for name in ("w1", "w3", "w2")},
    **{f"hc_{part}_{name}": f"hc_{part}_{name}" for part in ("attn", "ffn") for name in ("fn", "base", "scale")},
}
_TOP = {"embed.weight": "embed", "head.weight": "head", "norm.weight": "norm"}


Place = tuple[str, tuple[int, ...]]
"""A parameter, and which of those stacked in it."""


class TrainedPayload:
    """The bytes of every tensor: trained ones from `weights`, all others zero."""

    def __init__(self, weights: Weights) -> None:
        self.weights = weights

    def portions(self, spec: TensorSpec) -> Iterator[memoryview]:
        """The tensor's bytes as stored, row-major."""
        place = parameter_of(self.weights.config, spec)
        if place is None:
            yield memoryview(bytes(spec.nbytes))
            return
        name, index = place
        value = self.weights.gate_bias if name == "gate_bias" else self.weights.get_parameter(name)
        stored = encoded(value.detach()[index], spec)
        assert tuple(stored.shape) == spec.shape, (spec, stored.shape)
        yield stored.contiguous().view(torch.uint8).numpy().reshape(-1).data


def parameter_of(config: ModelConfig, spec: TensorSpec) -> Place | None:
    """Where a tensor, codes or scales, is trained; None for draft and vision."""
    if spec.kind in (DRAFT, VISION) or spec.name.startswith("mtp."):
        return None
    if spec.name in _TOP:
        return _TOP[spec.name], ()
    _, number, rest = spec.name.split(".", 2)
    layer = int(number)
    if rest in ("ffn.gate.bias", "ffn.gate.bias_vl"):
        return "gate_bias", (layer,)
    base = rest if rest in _LAYER else rest.removesuffix(".weight").removesuffix(".scale")
    if base == "engram.embed":
        return f"table_{config.engram_layer_ids.index(layer)}", ()
    if base.startswith("ffn.experts."):
        _, _, expert, matrix = base.split(".")
        return f"expert_{matrix}", (layer, int(expert))
    name = _LAYER[base]
    return name, (_layers_with(config, name).index(layer),)


def _layers_with(config: ModelConfig, name: str) -> tuple[int, ...]:
    """The layers stacked in a parameter, in its order."""
    if name.startswith("engram"):
        return config.engram_layer_ids
    if name in ("index_wq_b", "index_weights"):
        return config.index_source_layers
    if name == "compressor_wgate":
        return tuple(layer for layer in config.kv_source_layers if config.compress_ratios[layer] > 1)
    if name.startswith(("index", "compressor")):
        return config.kv_source_layers
    return tuple(range(config.n_layers))


def encoded(value: Tensor, spec: TensorSpec) -> Tensor:
    """The values in the stored dtype; of a quantised weight the codes or the scales, as `spec` names."""
    if spec.dtype == "F32":
        return value
    if spec.dtype == "BF16":
        return value.to(torch.bfloat16)
    is_table = ".embed." in spec.name
    if ".experts." in spec.name or is_table:
        groups, scales = fq.scaled_groups(value, fq.E4M3_MAX if is_table else fq.E2M1_MAX)
        if spec.dtype == "F8_E8M0":
            return _exponents(scales)[..., 0]
        return encode_e4m3(groups.flatten(-2)) if is_table else pack_e2m1(encode_e2m1(groups.flatten(-2)))
    tiles, scales = fq.scaled_tiles(value)
    if spec.dtype == "F8_E8M0":
        return _exponents(scales)[:, 0, :, 0]
    return encode_e4m3(tiles.flatten(-4, -3).flatten(-2))


def _exponents(powers: Tensor) -> Tensor:
    return (powers.log2().round() + E8M0_BIAS).to(torch.uint8)


def export(weights: Weights, tokenizer: Path, out: Path) -> int:
    """Write the checkpoint into the new directory `out`; the bytes of its files."""
    config: ModelConfig = weights.config
    (out / FLAT_NAME).parent.mkdir(parents=True)
    nested = {"architectures": ["DeepseekV41ForCausalLM"], "model_type": "deepseek_v41"}
    for name, content in config_files(config, ConfigSource(config, nested)).items():
        ensure(out / name, content)
    for name in TOKENIZER_NAMES:
        shutil.copyfile(tokenizer / name, out / name)
    shards = lay_out(config)
    writer = ShardWriter(out, TrainedPayload(weights))
    for shard in shards:
        writer.write(shard, header_bytes(shard), lambda _: None)
    ensure(out / INDEX_NAME, index_bytes(shards))
    return sum(file.stat().st_size for file in out.rglob("*") if file.is_file())


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m training.export", description=__doc__)
    parser.add_argument("corpus", type=Path, help="the directory with tokenizer.json")
    parser.add_argument("state", type=Path, help="the directory of the training's state")
    parser.add_argument("out", type=Path, help="a directory that is not there yet")
    arguments = parser.parse_args()
    weights = Weights(geometry(arguments.corpus / "tokenizer.json"), 0)
    weights.load_state_dict(torch.load(arguments.state / STATE, weights_only=True)["weights"])
    print(f"{export(weights, arguments.corpus, arguments.out):,} bytes")


if __name__ == "__main__":
    main()
