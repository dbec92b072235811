"""The released shards of a configuration: which tensor lies where, and the header's bytes (spec §2.2).

Nothing counts shards beforehand: their number follows from the layers. Standard library only.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from shoal.checkpoint.header import LENGTH_NBYTES
from shoal.checkpoint.index import SHARD_SUFFIX
from shoal.checkpoint.inventory import ENGRAM, TensorSpec, layer_tensors, outer_tensors
from shoal.config.layer_plan import plan_layers
from shoal.config.schema import ModelConfig

ALIGNMENT = 8
_DTYPE_ORDER = ("F32", "BF16", "F8_E8M0", "F8_E4M3", "I8")
_ENCODER = ("vision.", "aligner.")
_OUTPUT = ("norm.weight", "head.weight")


@dataclass(frozen=True)
class PlacedTensor:
    """A tensor and its bytes: `start` to `end`, half-open, relative to the payload."""

    spec: TensorSpec
    start: int
    end: int


@dataclass(frozen=True)
class ShardLayout:
    """One shard: its file name, and its tensors in the order of their bytes, without gaps from byte 0."""

    file_name: str
    tensors: tuple[PlacedTensor, ...]

    @property
    def payload_nbytes(self) -> int:
        """Bytes after the header."""
        return self.tensors[-1].end


def lay_out(config: ModelConfig) -> list[ShardLayout]:
    """The shards of the release: encoder, embedding, a backbone layer each, head, a draft layer each, and
    the Engram of a layer each. Raises ConfigError when the lists of layers disagree.
    """
    shards = [specs for specs in _shards(config) if specs]
    names = [f"model-{number:05}-of-{len(shards):05}{SHARD_SUFFIX}" for number in range(1, len(shards) + 1)]
    return [ShardLayout(name, _place(specs)) for name, specs in zip(names, shards, strict=True)]


def header_bytes(shard: ShardLayout) -> bytes:
    """All that stands before the payload: the length, and the JSON, padded with spaces to `ALIGNMENT`."""
    members = {
        tensor.spec.name: {
            "dtype": tensor.spec.dtype,
            "shape": tensor.spec.shape,
            "data_offsets": (tensor.start, tensor.end),
        }
        for tensor in shard.tensors
    }
    blob = json.dumps(members, separators=(",", ":")).encode()
    blob += b" " * (-len(blob) % ALIGNMENT)
    return len(blob).to_bytes(LENGTH_NBYTES, "little") + blob


def _shards(config: ModelConfig) -> Iterator[list[TensorSpec]]:
    outer = list(outer_tensors(config))
    layers = [(plan, list(layer_tensors(config, plan))) for plan in plan_layers(config)]
    without_engram = [(plan, [spec for spec in specs if spec.kind != ENGRAM]) for plan, specs in layers]
    yield [spec for spec in outer if spec.name.startswith(_ENCODER)]
    yield [spec for spec in outer if not spec.name.startswith(_ENCODER) and spec.name not in _OUTPUT]
    yield from (specs for plan, specs in without_engram if not plan.is_draft)
    yield [spec for spec in outer if spec.name in _OUTPUT]
    yield from (specs for plan, specs in without_engram if plan.is_draft)
    yield from ([spec for spec in specs if spec.kind == ENGRAM] for _, specs in layers)


def _place(specs: Iterable[TensorSpec]) -> tuple[PlacedTensor, ...]:
    placed, start = [], 0
    for spec in sorted(specs, key=_place_key):
        placed.append(PlacedTensor(spec, start, start + spec.nbytes))
        start += spec.nbytes
    return tuple(placed)


def _place_key(spec: TensorSpec) -> tuple[int, int, str]:
    """By dtype, then by name; but the table opens its shard, before its scales.

    Of an Engram shard only these two places are published; the rest follows the order of all others.
    """
    table = ("engram.embed.weight", "engram.embed.scale")
    first = next((place for place, end in enumerate(table) if spec.name.endswith(end)), len(table))
    return first, _DTYPE_ORDER.index(spec.dtype), spec.name
