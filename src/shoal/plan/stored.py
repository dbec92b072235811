"""The bytes of a checkpoint by where they live, exact from the inventory (spec §2.3)."""

import math
from collections import Counter
from dataclasses import dataclass

from shoal.checkpoint.inventory import (
    ATTENTION,
    EMBEDDING,
    ENGRAM,
    LAYER,
    ROUTED,
    SHARED,
    TensorSpec,
    inventory,
)
from shoal.config.schema import ModelConfig

HEAD, EMBEDDING_TABLE = "head", "embedding table"
ENGRAM_PROJECTIONS, ENGRAM_TABLES = "Engram projections", "Engram tables"
DRAFT_LAYERS = "draft layers"

READ_PER_TOKEN = (ATTENTION, SHARED, HEAD, ENGRAM_PROJECTIONS, LAYER)
"""Dense classes whose every byte a decoded token reads."""
DENSE = (*READ_PER_TOKEN, EMBEDDING_TABLE)
"""Always in memory, packed as stored. A token reads one row of the embedding table, which counts as nothing."""


@dataclass(frozen=True)
class Stored:
    """Bytes and parameters by class, for one configuration. An FP4 byte holds two parameters; scales are none."""

    config: ModelConfig
    num_tensors: int
    nbytes: dict[str, int]
    parameters: dict[str, int]

    @property
    def total(self) -> int:
        """Bytes of all tensors."""
        return sum(self.nbytes.values())

    @property
    def dense(self) -> int:
        """Bytes that are always in memory."""
        return sum(self.nbytes.get(kind, 0) for kind in DENSE)

    @property
    def num_experts(self) -> int:
        """Routed experts of all backbone layers."""
        return self.config.n_layers * self.config.n_routed_experts

    @property
    def expert_nbytes(self) -> int:
        """Bytes of one routed expert, codes and scales."""
        return self.nbytes[ROUTED] // self.num_experts

    @property
    def num_engram_rows(self) -> int:
        """Rows of all Engram tables."""
        return sum(self.config.engram_num_embeddings)

    @property
    def engram_row_nbytes(self) -> int:
        """Bytes of one Engram row, codes and scales; 0 where there is no table."""
        return self.nbytes.get(ENGRAM_TABLES, 0) // max(1, self.num_engram_rows)

    @property
    def active_parameters(self) -> int:
        """Parameters that multiply one token's activations in the layers; the head, needed once a prompt, is none."""
        config, layers = self.config, (ATTENTION, SHARED, ENGRAM_PROJECTIONS, LAYER)
        routed = self.parameters[ROUTED] * config.n_activated_experts // config.n_routed_experts
        return routed + sum(self.parameters.get(kind, 0) for kind in layers)


def count_stored(config: ModelConfig) -> Stored:
    """Every tensor the configuration implies, counted. Raises `ConfigError` when its lists of layers disagree."""
    nbytes: Counter[str] = Counter()
    parameters: Counter[str] = Counter()
    num_tensors = 0
    for spec in inventory(config):
        kind = _kind(spec)
        num_tensors += 1
        nbytes[kind] += spec.nbytes
        parameters[kind] += _parameters(spec)
    return Stored(config, num_tensors, dict(nbytes), dict(parameters))


def _kind(spec: TensorSpec) -> str:
    if spec.name.startswith("mtp."):
        return DRAFT_LAYERS
    if spec.kind == ENGRAM:
        return ENGRAM_TABLES if ".embed." in spec.name else ENGRAM_PROJECTIONS
    if spec.kind == EMBEDDING:
        return EMBEDDING_TABLE if spec.name.startswith("embed.") else HEAD
    return spec.kind


def _parameters(spec: TensorSpec) -> int:
    if spec.dtype == "F8_E8M0":
        return 0
    count = math.prod(spec.shape)
    return 2 * count if spec.dtype == "I8" else count
