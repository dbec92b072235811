"""The audit's checks of presence: which tensors there are, by name alone (spec §2.1)."""

import re
from collections.abc import Callable, Collection, Iterator, Set

from shoal.checkpoint.audit_check import ModelCheck
from shoal.checkpoint.audit_disk import Disk
from shoal.checkpoint.audit_expected import Expected
from shoal.checkpoint.audit_family import Family
from shoal.checkpoint.audit_outcome import Outcome, judge
from shoal.checkpoint.json_object import quoted

_ATTENTION_PART = re.compile(r"layers\.(\d{1,9})\.attn\.((?:indexer|compressor)\..+)", re.ASCII)
_OF_REINDEX = frozenset({"indexer.wq_b.weight", "indexer.wq_b.scale", "indexer.weights_proj.weight"})
_OF_FULL = _OF_REINDEX | {
    "indexer.wk.weight",
    "indexer.k_norm.weight",
    "compressor.wkv.weight",
    "compressor.norm.weight",
}
_GATE = "compressor.wgate.weight"


def exactly(disk: Disk, wanted: Collection[str], found: Set[str]) -> Outcome:
    """Whether the tensors `found` are those `wanted`, none missing and none more."""
    missing = (name for name in wanted if name not in found)
    lost = (f"{quoted(name)} is in no shard" for name in missing if not disk.awaited(name))
    extra = [f"{quoted(name)} is in {quoted(disk.shard_of[name])}" for name in sorted(found - set(wanted))]
    unwanted = (f"{problem}, expected no such tensor" for problem in extra)
    # Where no index says what the absent shards hold, they may hold what is missing, or one too many.
    return judge([*lost, *unwanted], () if disk.index else disk.absent)


def _family(family: Family) -> Callable[[Disk, Expected], Outcome]:
    def decide(disk: Disk, expected: Expected) -> Outcome:
        return exactly(disk, expected.families[family], disk.families[family] - expected.forbidden_scales)

    return decide


def _unquantised(disk: Disk, expected: Expected) -> Outcome:
    scales = sorted(disk.shard_of.keys() & expected.forbidden_scales)
    problems = (f"{quoted(name)} is in {quoted(disk.shard_of[name])}, expected no scale" for name in scales)
    return judge(problems, () if disk.index else disk.absent)


def _on_layers(part: str, layers: Callable[[Expected], Iterator[int]]) -> Callable[[Disk, Expected], Outcome]:
    """Whether `attn.<part>` is on exactly these layers."""

    def decide(disk: Disk, expected: Expected) -> Outcome:
        tensors = [part] if part != "indexer.wq_b" else [f"{part}.weight", f"{part}.scale"]
        wanted = {f"layers.{layer}.attn.{tensor}": None for layer in layers(expected) for tensor in tensors}
        ends = tuple(f".attn.{tensor}" for tensor in tensors)
        return exactly(disk, wanted, {name for name in disk.families[Family.BACKBONE] if name.endswith(ends)})

    return decide


def _kv_sources(expected: Expected) -> Iterator[int]:
    yield from expected.config.kv_source_layers


def _gated_sources(expected: Expected) -> Iterator[int]:
    ratios = expected.config.compress_ratios
    for layer in expected.config.kv_source_layers:
        if layer < len(ratios) and ratios[layer] > 1:
            yield layer


def _index_sources(expected: Expected) -> Iterator[int]:
    yield from expected.config.index_source_layers


def _partition(disk: Disk, expected: Expected) -> Outcome:
    return judge(_misfits(disk, expected.config.n_layers), () if disk.index else disk.absent)


def _misfits(disk: Disk, num_layers: int) -> Iterator[str]:
    for layer, found in sorted(_attention_parts(disk).items()):
        # What owns anything of a compressor is meant to be Full.
        role, wanted = ("Full", _OF_FULL) if found - _OF_REINDEX else ("Reindex", _OF_REINDEX)
        for part in sorted(wanted - found):
            name = f"layers.{layer}.attn.{part}"
            if not disk.awaited(name):
                yield f"layer {layer} has parts of a {role} layer, but {quoted(name)} is in no shard"
        if layer >= num_layers:
            yield f"layer {layer} is a {role} layer, expected layers below {num_layers}"


def _attention_parts(disk: Disk) -> dict[int, set[str]]:
    """The indexer's and compressor's tensors of each layer that has any, the gate apart."""
    parts: dict[int, set[str]] = {}
    for name in disk.families[Family.BACKBONE]:
        match = _ATTENTION_PART.fullmatch(name)
        if match and match[2] != _GATE:
            parts.setdefault(int(match[1]), set()).add(match[2])
    return parts


ENGRAM_TABLES = ModelCheck("engram.tables", "Engram tables are on exactly the Engram layers", _family(Family.TABLES))
CSA2_CHECKS = (
    ModelCheck(
        "csa2.compressor-wkv",
        "compressor.wkv is on exactly the KV sources",
        _on_layers("compressor.wkv.weight", _kv_sources),
    ),
    ModelCheck(
        "csa2.compressor-wgate",
        "compressor.wgate is on exactly the KV sources with a ratio above 1",
        _on_layers(_GATE, _gated_sources),
    ),
    ModelCheck(
        "csa2.indexer-wk",
        "indexer.wk is on exactly the KV sources",
        _on_layers("indexer.wk.weight", _kv_sources),
    ),
    ModelCheck(
        "csa2.indexer-wq-b",
        "indexer.wq_b is on exactly the index sources",
        _on_layers("indexer.wq_b", _index_sources),
    ),
    ModelCheck("csa2.partition", "Full, Reindex and neither partition the backbone's layers", _partition),
)
FULL_SET = ModelCheck(
    "inventory.full-set", "every backbone layer has its full set and nothing else", _family(Family.BACKBONE)
)
UNQUANTISED = ModelCheck("inventory.unquantised", "F32 and BF16 tensors are not quantised", _unquantised)
BACKBONE_EXPERTS = ModelCheck(
    "experts.backbone", "every backbone layer has its routed experts", _family(Family.BACKBONE_EXPERTS)
)
DRAFT_EXPERTS = ModelCheck("experts.draft", "every draft layer has its routed experts", _family(Family.DRAFT_EXPERTS))
DRAFT_LAYERS = ModelCheck(
    "dspark.layers",
    "every draft layer has attention and FFN, only the last has the heads",
    _family(Family.DRAFT),
)
VISION_BLOCKS = ModelCheck("vision.blocks", "all vision blocks are there", _family(Family.VISION))
