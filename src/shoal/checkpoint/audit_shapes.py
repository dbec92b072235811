"""The audit's checks of dtypes and shapes, decided by the headers of all shards they concern (spec §2.1).

A tensor that is in no shard is the business of a presence check.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import partial

from shoal.checkpoint.audit_check import ModelCheck
from shoal.checkpoint.audit_disk import Disk
from shoal.checkpoint.audit_expected import Expected
from shoal.checkpoint.audit_family import Family
from shoal.checkpoint.audit_outcome import Outcome, judge
from shoal.checkpoint.audit_presence import exactly
from shoal.checkpoint.directory import SCALE, SCALE_DTYPE, WEIGHT
from shoal.checkpoint.header import TensorEntry
from shoal.checkpoint.inventory import TILE, TensorSpec
from shoal.checkpoint.json_object import quoted, shown

_HEADS = (".markov_head.", ".confidence_head.")
_BLOCKED_FAMILIES = (Family.BACKBONE, Family.DRAFT, Family.PROJECTIONS)


def matches(disk: Disk, specs: Iterable[TensorSpec]) -> Outcome:
    """Whether the headers give these dtypes and shapes."""
    specs = list(specs)
    return judge(_differences(disk, specs), _awaited(disk, (spec.name for spec in specs)))


def _differences(disk: Disk, specs: Iterable[TensorSpec]) -> Iterator[str]:
    for spec in specs:
        entry = disk.entry(spec.name)
        if entry is None:
            yield from _lost(disk, spec.name)
        elif (entry.dtype, entry.shape) != (spec.dtype, spec.shape):
            wanted = f"expected {spec.dtype} {shown(spec.shape)}"
            yield f"{quoted(spec.name)} is {entry.dtype} {shown(entry.shape)} in {_place(entry)}, {wanted}"


def _lost(disk: Disk, name: str) -> Iterator[str]:
    """A tensor the index assigns to a shard that is here and does not hold it."""
    if name in disk.shard_of and not disk.awaited(name):
        yield f"{quoted(name)} is not in {quoted(disk.shard_of[name])}, to which the index assigns it"


def _awaited(disk: Disk, names: Iterable[str]) -> Iterator[str]:
    return (shard for name in names for shard in disk.awaited(name))


def _place(entry: TensorEntry) -> str:
    return quoted(entry.path.name)


def _known_shapes(disk: Disk, expected: Expected) -> Outcome:
    return matches(disk, _unscaled(expected, Family.BACKBONE))


def _unscaled(expected: Expected, family: Family) -> Iterator[TensorSpec]:
    """All but the scales, whose shapes the checks of scale blocks judge."""
    return (spec for spec in expected.families[family].values() if spec.dtype != SCALE_DTYPE)


def _projections(disk: Disk, expected: Expected) -> Outcome:
    family = Family.PROJECTIONS
    there = exactly(disk, expected.families[family], disk.families[family] - expected.forbidden_scales)
    shapes = matches(disk, _unscaled(expected, family))
    return judge(there.evidence + shapes.evidence, there.waits_for + shapes.waits_for)


def _table_scales(disk: Disk, expected: Expected) -> Outcome:
    tables = [spec for spec in expected.families[Family.TABLES].values() if spec.dtype != SCALE_DTYPE]
    problems = [*_differences(disk, tables), *_with_pairs(disk, tables, _channel_problem)]
    return judge(problems, _awaited(disk, expected.families[Family.TABLES]))


def _channel_problem(weight: TensorEntry, scale: TensorEntry) -> str | None:
    width = weight.shape[-1:]
    wanted = tuple(-(-channels // TILE) for channels in width)
    if scale.dtype == SCALE_DTYPE and scale.shape[-1:] == wanted:
        return None
    found = f"{quoted(scale.name)} is {scale.dtype} {shown(scale.shape)} in {_place(scale)}"
    return f"{found}, expected {SCALE_DTYPE} and one scale per {TILE} of {shown(width)} channels"


def _row_blocks(disk: Disk, expected: Expected) -> Outcome:
    tables = [spec for spec in expected.families[Family.TABLES].values() if spec.dtype != SCALE_DTYPE]
    problems = _with_pairs(disk, tables, partial(_block_problem, (1, TILE)))
    return judge(problems, _awaited(disk, expected.families[Family.TABLES]))


def _fp8_blocks(disk: Disk, expected: Expected) -> Outcome:
    specs = [spec for family in _BLOCKED_FAMILIES for spec in expected.families[family].values()]
    weights = [spec for spec in specs if spec.dtype == "F8_E4M3"]
    problems = _with_pairs(disk, weights, partial(_scale_problem, expected.fp8_block))
    names = (name for spec in weights for name in (spec.name, _scale_name(spec.name)))
    return judge(problems, _awaited(disk, names))


def _scale_problem(block: tuple[int, int], weight: TensorEntry, scale: TensorEntry) -> str | None:
    if scale.dtype != SCALE_DTYPE:
        return f"{quoted(scale.name)} is {scale.dtype} in {_place(scale)}, expected {SCALE_DTYPE}"
    return _block_problem(block, weight, scale)


def _block_problem(block: tuple[int, int], weight: TensorEntry, scale: TensorEntry) -> str | None:
    rows, columns = block
    if len(weight.shape) == len(block):
        wanted = (-(-weight.shape[0] // rows), -(-weight.shape[1] // columns))
        if scale.shape == wanted:
            return None
    of_weight = f"for a weight of {shown(weight.shape)} in {_place(scale)}"
    return f"{quoted(scale.name)} is {shown(scale.shape)} {of_weight}, expected blocks of {rows}x{columns}"


def _with_pairs(
    disk: Disk, weights: Iterable[TensorSpec], problem_of: Callable[[TensorEntry, TensorEntry], str | None]
) -> Iterator[str]:
    """The problems of the weights whose own header and whose scale's have both arrived."""
    for spec in weights:
        weight, scale = disk.entry(spec.name), disk.entry(_scale_name(spec.name))
        if scale is None:
            yield from _lost(disk, _scale_name(spec.name))
        elif weight is not None and (problem := problem_of(weight, scale)):
            yield problem


def _scale_name(weight_name: str) -> str:
    return weight_name.removesuffix(WEIGHT) + SCALE


def _expert_packing(disk: Disk, expected: Expected) -> Outcome:
    families = (Family.BACKBONE_EXPERTS, Family.DRAFT_EXPERTS)
    return matches(disk, (spec for family in families for spec in expected.families[family].values()))


def _draft_heads(disk: Disk, expected: Expected) -> Outcome:
    return matches(disk, (spec for spec in _unscaled(expected, Family.DRAFT) if _is_head(spec)))


def _draft_rest(disk: Disk, expected: Expected) -> Outcome:
    return matches(disk, (spec for spec in _unscaled(expected, Family.DRAFT) if not _is_head(spec)))


def _is_head(spec: TensorSpec) -> bool:
    return any(head in spec.name for head in _HEADS)


def _vision_shapes(disk: Disk, expected: Expected) -> Outcome:
    return matches(disk, expected.families[Family.VISION].values())


PROJECTIONS = ModelCheck(
    "engram.projections",
    "gate and value projections are on each Engram layer, with their shapes",
    _projections,
)
TABLE_SCALES = ModelCheck(
    "engram.scales",
    "Engram tables are F8_E4M3 of the declared size with one E8M0 scale per 32 channels",
    _table_scales,
)
ROW_BLOCKS = ModelCheck("engram.row-blocks", "Engram scales block 1x32: each row has its own", _row_blocks)
KNOWN_SHAPES = ModelCheck(
    "inventory.shapes", "layers, head, norm and embedding have the config's dtypes and shapes", _known_shapes
)
FP8_BLOCKS = ModelCheck("packing.fp8-blocks", "all other FP8 weights use the dense scale blocks", _fp8_blocks)
EXPERT_PACKING = ModelCheck(
    "experts.packing", "routed experts are FP4 packed in I8 with E8M0 scales 32 wide", _expert_packing
)
DRAFT_HEADS = ModelCheck("dspark.heads", "Markov and confidence heads match the config", _draft_heads)
DRAFT_REST = ModelCheck(
    "dspark.main-proj",
    "main_proj is as wide as the draft needs, the draft layers' other tensors fit",
    _draft_rest,
)
VISION_SHAPES = ModelCheck("vision.shapes", "encoder and aligner have the config's shapes", _vision_shapes)
