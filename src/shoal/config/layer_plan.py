"""What each layer does, decided once from the configuration (spec §1.2).

Forward reads the plan, never a layer number.
"""

from dataclasses import dataclass
from enum import Enum

from shoal.config.layer_checks import verify_layers
from shoal.config.schema import ModelConfig
from shoal.errors import ConfigError


class Mode(Enum):
    """Which compressed positions a layer's attention reads besides its window."""

    SWA = "SWA"
    """None: window only."""
    FULL = "Full"
    """Its own: it compresses, and scores with keys of its own."""
    REINDEX = "Reindex"
    """An earlier layer's KV and keys, scored with queries of its own."""
    REUSE = "Reuse"
    """An earlier layer's KV, at the positions an earlier layer selected."""


@dataclass(frozen=True, kw_only=True)
class LayerPlan:
    """One layer's place in the model. Sources are layer ids, a layer that is its own source included."""

    layer_id: int  # draft layers go on counting after the backbone
    prefix: str  # of its tensors' names: "layers.3", "mtp.0"
    mode: Mode
    compress_ratio: int
    kv_source: int | None  # None in SWA layers only
    index_source: int | None  # None in SWA layers only
    is_candidate_source: bool
    candidate_source: int | None  # set on the index sources that select within another layer's candidates
    engram_index: int | None  # position in `engram_layer_ids`
    is_draft: bool
    is_draft_target: bool  # the draft reads this layer's input

    @property
    def owns_kv(self) -> bool:
        """Whether it compresses: holds `attn.compressor` and the index keys."""
        return self.mode is Mode.FULL

    @property
    def scores(self) -> bool:
        """Whether it runs an indexer."""
        return self.mode in (Mode.FULL, Mode.REINDEX)

    @property
    def uses_yarn(self) -> bool:
        """Base `compress_rope_theta` with YaRN, or else base `rope_theta` without (spec §4.3)."""
        return self.compress_ratio > 0


def plan_layers(config: ModelConfig) -> tuple[LayerPlan, ...]:
    """A plan per layer: backbone, then draft. `ConfigError` when the lists of layers disagree."""
    problems = verify_layers(config)
    if problems:
        raise ConfigError(f"the lists of layers disagree: {'; '.join(problems[:5])}")
    engram_indices = {layer: index for index, layer in enumerate(config.engram_layer_ids)}
    return tuple(_plan(config, layer, engram_indices.get(layer)) for layer in range(config.num_all_layers))


def _plan(config: ModelConfig, layer_id: int, engram_index: int | None) -> LayerPlan:
    is_draft = layer_id >= config.n_layers
    ratio = config.compress_ratios[layer_id]
    mode = _mode(config, layer_id)
    return LayerPlan(
        layer_id=layer_id,
        prefix=f"mtp.{layer_id - config.n_layers}" if is_draft else f"layers.{layer_id}",
        mode=mode,
        compress_ratio=ratio,
        kv_source=config.kv_source_of(layer_id) if ratio else None,
        index_source=config.index_source_of(layer_id) if ratio else None,
        is_candidate_source=layer_id == config.candidate_source_layer,
        candidate_source=_candidate_source(config, layer_id, mode),
        engram_index=engram_index,
        is_draft=is_draft,
        is_draft_target=config.n_layers - len(config.dspark_target_layer_ids) <= layer_id < config.n_layers,
    )


def _mode(config: ModelConfig, layer_id: int) -> Mode:
    if config.compress_ratios[layer_id] == 0:
        return Mode.SWA
    if config.kv_source_of(layer_id) == layer_id:
        return Mode.FULL
    return Mode.REINDEX if config.index_source_of(layer_id) == layer_id else Mode.REUSE


def _candidate_source(config: ModelConfig, layer_id: int, mode: Mode) -> int | None:
    # The source itself selects over everything visible (spec §4.5).
    restricted = config.has_candidates and layer_id > config.candidate_source_layer and mode is Mode.REINDEX
    return config.candidate_source_layer if restricted else None
