"""Which configuration a preset makes of the one it is given: fewer layers, fewer experts, shorter Engram tables.

Whatever is cut, the result keeps every rule of `ModelConfig.verify`, and its declared Engram rows are the derived ones.
"""

from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path

from shoal.config.engram_rows import check_rows, derive_primes
from shoal.config.layer_plan import LayerPlan, plan_layers
from shoal.config.schema import ModelConfig
from shoal.errors import ConfigError, OptionError

DATA = Path(__file__).parent.parent / "data"
MINIATURE, RELEASE = DATA / "miniature", DATA / "release"
SLIM_EXPERTS, FEW_LAYERS = 10, 4
ENGRAM_START = 16_000
"""Where reduced presets start the search for primes, a thousandth of the release: 0.1 GiB a table."""


class Preset(Enum):
    """A kind of synthetic checkpoint."""

    MINIATURE = "miniature"
    """The geometry of the built-in miniature, with random values."""
    SPARSE = "sparse"
    """Everything the configuration implies at full size, as holes: every payload byte reads as zero."""
    SLIM = "slim"
    """All layers, draft included, at full width with few experts and short Engram tables; no vision."""
    LAYERS = "layers"
    """A few whole layers with all their experts and short Engram tables; no draft, no vision."""

    @property
    def is_reduced(self) -> bool:
        """Whether it makes a smaller model of the configuration it is given."""
        return self in (Preset.SLIM, Preset.LAYERS)

    @property
    def source(self) -> Path:
        """The directory of its configuration unless another one is given."""
        return MINIATURE if self is Preset.MINIATURE else RELEASE


@dataclass(frozen=True)
class Reduction:
    """What to make of a configuration. Raises `OptionError` for a value out of range or a preset that cuts nothing.

    `experts` and `layers` None are the preset's own: 10 experts for slim, 4 layers for layers, else all.
    """

    preset: Preset
    experts: int | None = None
    layers: int | None = None

    def __post_init__(self) -> None:
        for name, value in (("experts", self.experts), ("layers", self.layers)):
            if value is not None and value < 1:
                raise OptionError(f"`{name}` is {value}, expected 1 or more")
            if value is not None and not self.preset.is_reduced:
                raise OptionError(f"`{name}` is {value} with the preset `{self.preset.value}`, which cuts nothing")

    def apply(self, config: ModelConfig) -> tuple[ModelConfig, tuple[int, ...]]:
        """The configuration to write, and the backbone layers of `config` that it keeps.

        Raises `ConfigError` or `EngramError` when either contradicts itself, `OptionError` when there is less to keep
        than asked for.
        """
        _verify(config, "the config")
        kept = tuple(range(config.n_layers))
        if not self.preset.is_reduced:
            return config, kept
        config = without_vision(config)
        num_layers = self.layers or config.n_layers
        if self.preset is Preset.LAYERS:
            config, num_layers = without_draft(config), self.layers or min(FEW_LAYERS, config.n_layers)
        kept = choose_layers(config, num_layers)
        config = with_experts(keep_layers(config, kept), self._num_experts(config))
        config = with_engram_start(config, min(ENGRAM_START, config.engram_vocab_size))
        _verify(config, "the reduced config")
        return config, kept

    def _num_experts(self, config: ModelConfig) -> int:
        if self.experts is not None:
            return self.experts
        few = max(SLIM_EXPERTS, config.n_activated_experts)
        return min(few, config.n_routed_experts) if self.preset is Preset.SLIM else config.n_routed_experts


def choose_layers(config: ModelConfig, count: int) -> tuple[int, ...]:
    """The `count` backbone layers to keep, ascending: one of each kind, first seen first, then the first of the rest.

    A kind is a mode, a ratio and whether there is an Engram. In the release: 0 to 3, then 14, 20, 21, 24, then 4, …
    A layer is only taken after its sources, so any beginning of that list is a model.
    """
    plans = [plan for plan in plan_layers(config) if not plan.is_draft]
    if count > len(plans):
        raise OptionError(f"`layers` is {count}, expected at most the {len(plans)} of the config")
    first_of_kind = {_kind(plan): plan for plan in reversed(plans)}
    firsts = sorted(first_of_kind.values(), key=lambda plan: plan.layer_id)
    order: dict[int, None] = {}
    for plan in [*firsts, *plans]:
        needed = (plan.kv_source, plan.index_source, plan.layer_id)
        order |= dict.fromkeys(layer for layer in needed if layer is not None and layer not in order)
    return tuple(sorted(list(order)[:count]))


def _kind(plan: LayerPlan) -> tuple[object, ...]:
    return plan.mode, plan.compress_ratio, plan.engram_index is not None


def keep_layers(config: ModelConfig, kept: tuple[int, ...]) -> ModelConfig:
    """The model of these backbone layers, renumbered from 0; its draft layers read the last of them."""
    renumbered = {old: new for new, old in enumerate(kept)}

    def surviving(layers: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(renumbered[layer] for layer in layers if layer in renumbered)

    ratios = config.compress_ratios
    num_targets = min(len(config.dspark_target_layer_ids), len(kept))
    return replace(
        config,
        n_layers=len(kept),
        compress_ratios=(*(ratios[layer] for layer in kept), *ratios[config.n_layers :]),
        kv_source_layers=surviving(config.kv_source_layers),
        index_source_layers=surviving(config.index_source_layers),
        candidate_source_layer=renumbered.get(config.candidate_source_layer, -1),
        dspark_target_layer_ids=tuple(range(len(kept) - num_targets, len(kept))),
        engram_layer_ids=surviving(config.engram_layer_ids),
        engram_num_embeddings=tuple(
            rows
            for layer, rows in zip(config.engram_layer_ids, config.engram_num_embeddings, strict=True)
            if layer in renumbered
        ),
    )


def with_experts(config: ModelConfig, count: int) -> ModelConfig:
    """With `count` routed experts in a backbone layer and at most as many in a draft layer."""
    active = config.n_activated_experts
    if config.has_draft:
        active = max(active, config.num_active_draft_experts)
    if not active <= count <= config.n_routed_experts:
        wanted = f"{active} (active for a token) to {config.n_routed_experts}"
        raise OptionError(f"`experts` is {count}, expected {wanted}")
    return replace(config, n_routed_experts=count, dspark_n_routed_experts=min(config.dspark_n_routed_experts, count))


def without_draft(config: ModelConfig) -> ModelConfig:
    """Without draft layers."""
    return replace(
        config,
        n_mtp_layers=0,
        dspark_block_size=0,
        dspark_target_layer_ids=(),
        compress_ratios=config.compress_ratios[: config.n_layers],
    )


def without_vision(config: ModelConfig) -> ModelConfig:
    """Without the vision encoder and its aligner."""
    return replace(config, vision_n_layers=0)


def with_engram_start(config: ModelConfig, start: int) -> ModelConfig:
    """With Engram tables whose primes are searched from `start`, and the rows that follow from them (spec §6.1)."""
    config = replace(config, engram_vocab_size=start)
    rows = tuple(sum(map(sum, primes)) for primes in derive_primes(config))
    return replace(config, engram_num_embeddings=rows)


def _verify(config: ModelConfig, what: str) -> None:
    if problems := config.verify():
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        raise ConfigError(f"{what} contradicts itself: {problems[0]}{more}")
    if config.has_engram:
        check_rows(config)
