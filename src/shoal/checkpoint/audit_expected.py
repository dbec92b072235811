"""What a configuration demands of a checkpoint, even one whose values contradict each other.

Each check judges its own fact: a wrong list of layers must not keep the others from being compared.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from shoal.checkpoint.audit_family import Family, family_of
from shoal.checkpoint.directory import SCALE, WEIGHT
from shoal.checkpoint.inventory import TILE, TensorSpec, layer_tensors, outer_tensors
from shoal.config.schema import ModelConfig
from shoal.errors import ConfigError

MOST_TENSORS = 1_000_000
_UNQUANTISED = ("BF16", "F32")
_MOST_A_LAYER = 64
_PARTS_OF_AN_EXPERT = 6


@dataclass(frozen=True)
class StatedRole:
    """A layer's role as the lists state it; `LayerPlan` is the same of lists that agree."""

    layer_id: int
    prefix: str
    compress_ratio: int
    engram_index: int | None
    is_draft: bool
    owns_kv: bool
    scores: bool


@dataclass(frozen=True)
class Expected:
    """The tensors of `config`; `fp8_block` is rows and columns that share a scale in dense FP8 weights."""

    config: ModelConfig
    fp8_block: tuple[int, int] = (TILE, TILE)

    @cached_property
    def families(self) -> Mapping[Family, Mapping[str, TensorSpec]]:
        """Every tensor by family and name. Raises ConfigError for sizes no model has."""
        _check_size(self.config)
        families: dict[Family, dict[str, TensorSpec]] = {family: {} for family in Family}
        for spec in _specs(self.config):
            families[family_of(spec.name)][spec.name] = spec
        return families

    @cached_property
    def names(self) -> frozenset[str]:
        """Every tensor's name."""
        return frozenset(name for specs in self.families.values() for name in specs)

    @cached_property
    def forbidden_scales(self) -> frozenset[str]:
        """Names that a scale of an unquantised tensor would have."""
        specs = (spec for family in self.families.values() for spec in family.values())
        return frozenset(spec.name.removesuffix(WEIGHT) + SCALE for spec in specs if spec.dtype in _UNQUANTISED)


def _specs(config: ModelConfig) -> Iterator[TensorSpec]:
    for layer_id in range(config.num_all_layers):
        yield from layer_tensors(config, _role(config, layer_id))
    yield from outer_tensors(config)


def _role(config: ModelConfig, layer_id: int) -> StatedRole:
    is_draft = layer_id >= config.n_layers
    ratios, engram = config.compress_ratios, config.engram_layer_ids
    return StatedRole(
        layer_id=layer_id,
        prefix=f"mtp.{layer_id - config.n_layers}" if is_draft else f"layers.{layer_id}",
        compress_ratio=ratios[layer_id] if layer_id < len(ratios) else 0,
        engram_index=engram.index(layer_id) if layer_id in engram and not is_draft else None,
        is_draft=is_draft,
        owns_kv=layer_id in config.kv_source_layers and not is_draft,
        scores=layer_id in config.index_source_layers and not is_draft,
    )


def _check_size(config: ModelConfig) -> None:
    """Looked at before anything is laid out: a hostile count would fill the memory."""
    experts = config.n_layers * config.n_routed_experts + config.n_mtp_layers * config.num_draft_experts
    layers = config.num_all_layers + config.vision_n_layers
    most = experts * _PARTS_OF_AN_EXPERT + layers * _MOST_A_LAYER
    lists = (config.kv_source_layers, config.index_source_layers, config.engram_layer_ids)
    most += layers * sum(len(layer_ids) for layer_ids in lists) // _MOST_A_LAYER
    if most > MOST_TENSORS:
        sizes = f"{config.num_all_layers:,} layers with {config.n_routed_experts:,} routed experts"
        raise ConfigError(f"{sizes} would be more than {MOST_TENSORS:,} tensors, wanted the sizes of a model")
