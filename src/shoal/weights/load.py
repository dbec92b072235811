"""Fills the backbone from a checkpoint (spec §2). Dense weights stay packed; experts and tables stay in the shards."""

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from shoal.checkpoint.direct_file import Notice
from shoal.checkpoint.inventory import TensorSpec
from shoal.checkpoint.shards import Checkpoint
from shoal.config.layer_plan import LayerPlan, plan_layers
from shoal.config.schema import ModelConfig
from shoal.engram.layout import check_rows, derive_layout
from shoal.engram.token_map import TokenMap
from shoal.model.attention import Attention, AttentionWeights
from shoal.model.backbone import Backbone, BackboneWeights, EngramAddresses, RopeFrequencies
from shoal.model.compressor import Compressor, CompressorWeights
from shoal.model.engram import Engram, EngramRows
from shoal.model.indexer import Indexer
from shoal.model.layer import Layer
from shoal.model.moe import Experts, MoE, MoEWeights
from shoal.ops.arithmetic import Arithmetic
from shoal.ops.attention_projections import InputProjections, OutputProjections
from shoal.ops.engram_memory import EngramWeights
from shoal.ops.index_queries import IndexerWeights
from shoal.ops.latents import LatentWeights
from shoal.ops.mixture import ExpertWeights
from shoal.ops.rope import Yarn, rope_frequencies
from shoal.ops.routing import Router
from shoal.ops.sublayer import EntryWeights
from shoal.ops.wide import Wide
from shoal.weights.engram_tables import MappedEngramRows
from shoal.weights.experts import MappedExperts
from shoal.weights.names import expected_tensors, is_backbone, is_left_in_shards
from shoal.weights.reader import WeightReader
from shoal.weights.report import LoadReport

TOKENIZER_FILE = "tokenizer.json"
# Of the dense weights in the page cache: more, and copying them is faster than the disk.
MOSTLY_CACHED = 0.8
TotalProgress = Callable[[int, int], None]
"""Takes the bytes read so far and the bytes to read."""


@dataclass(frozen=True)
class LoadedBackbone:
    """The model, and what loading it did."""

    backbone: Backbone
    report: LoadReport


def load_backbone(
    config: ModelConfig,
    checkpoint: Checkpoint,
    *,
    arithmetic: Arithmetic | None = None,
    token_map: TokenMap | None = None,
    experts: Experts | None = None,
    engram_rows: EngramRows | None = None,
    progress: TotalProgress | None = None,
    notice: Notice | None = None,
    through_page_cache: bool | None = False,
) -> LoadedBackbone:
    """The backbone of `checkpoint` under `arithmetic` (wide unless given), its stores mapped unless given.

    The token map comes from the checkpoint's own tokenizer unless given. Dense weights come past the page cache unless
    told otherwise, with `through_page_cache` None through it where it holds most of them, as after a restart; `notice`
    hears where they cannot. Raises TensorError naming what is missing, unexpected or of
    another shape, EngramError when table sizes disagree.
    """
    started = time.perf_counter()
    expected = expected_tensors(config, checkpoint)
    if config.has_engram:
        check_rows(config)
    plans = plan_layers(config)
    dense = _dense_names(expected)
    count = counting(progress, sum(checkpoint.nbytes(name) for name in dense))
    if through_page_cache is None:
        through_page_cache = checkpoint.cached_share(dense) >= MOSTLY_CACHED
    with WeightReader(checkpoint, count, notice, through_page_cache=through_page_cache) as reader:
        # Before anything else, for the token map takes seconds too.
        reader.expect(dense)
        builder = _Builder(
            config,
            plans,
            reader,
            arithmetic or Wide(),
            experts or MappedExperts(checkpoint, plans),
            engram_rows or MappedEngramRows(checkpoint, plans),
        )
        backbone = builder.backbone(_addresses(config, checkpoint, token_map))
    return LoadedBackbone(backbone, _report(expected, checkpoint, reader, time.perf_counter() - started))


def _addresses(config: ModelConfig, checkpoint: Checkpoint, token_map: TokenMap | None) -> EngramAddresses | None:
    if not config.has_engram:
        return None
    if token_map is None:
        token_map = TokenMap.load(checkpoint.directory / TOKENIZER_FILE, config, None)
    return EngramAddresses(derive_layout(config), token_map)


def _dense_names(expected: dict[str, TensorSpec]) -> list[str]:
    """What the backbone holds in memory."""
    return [spec.name for spec in expected.values() if is_backbone(spec) and not is_left_in_shards(spec)]


def counting(progress: TotalProgress | None, total: int) -> Callable[[int], None] | None:
    """What takes the bytes just read and tells `progress` of their sum."""
    if progress is None:
        return None
    done = 0

    def count(nbytes: int) -> None:
        nonlocal done
        done += nbytes
        progress(done, total)

    return count


def _report(
    expected: dict[str, TensorSpec], checkpoint: Checkpoint, reader: WeightReader, seconds: float
) -> LoadReport:
    in_memory: Counter[str] = Counter()
    left: Counter[str] = Counter()
    for name, nbytes in reader.read.items():
        in_memory[expected[name].kind] += nbytes
    remaining = [spec for spec in expected.values() if is_left_in_shards(spec)]
    for spec in remaining:
        left[spec.kind] += checkpoint.nbytes(spec.name)
    ignored = len(expected) - len(reader.read) - len(remaining)
    return LoadReport(len(reader.read), len(remaining), ignored, dict(in_memory), dict(left), seconds)


@dataclass(frozen=True)
class _Builder:
    config: ModelConfig
    plans: tuple[LayerPlan, ...]
    reader: WeightReader
    arithmetic: Arithmetic
    experts: Experts
    engram_rows: EngramRows

    def backbone(self, addresses: EngramAddresses | None) -> Backbone:
        tensor = self.reader.tensor
        weights = BackboneWeights(tensor("embed.weight"), tensor("norm.weight"), tensor("head.weight"))
        frequencies = self._frequencies()
        layers = [self._layer(plan, frequencies) for plan in self.plans if not plan.is_draft]
        return Backbone(
            self.config, self.plans, weights, layers, frequencies, addresses, self.engram_rows, self.arithmetic
        )

    def _frequencies(self) -> RopeFrequencies:
        c = self.config
        yarn = Yarn(float(c.rope_factor), c.original_seq_len, float(c.beta_fast), float(c.beta_slow))
        return RopeFrequencies(
            rope_frequencies(float(c.rope_theta), c.rope_head_dim, None),
            rope_frequencies(float(c.compress_rope_theta), c.rope_head_dim, yarn),
        )

    def _layer(self, plan: LayerPlan, frequencies: RopeFrequencies) -> Layer:
        return Layer(
            self._entry(plan, "attn"),
            self._entry(plan, "ffn"),
            self._attention(plan, frequencies),
            self._moe(plan),
            self._engram(plan) if plan.engram_index is not None else None,
            plan,
            self.config,
            self.arithmetic,
        )

    def _entry(self, plan: LayerPlan, sublayer: str) -> EntryWeights:
        tensor, name = self.reader.tensor, plan.prefix
        parts = {part: tensor(f"{name}.hc_{sublayer}_{part}") for part in ("fn", "base", "scale")}
        return EntryWeights(**parts, norm=tensor(f"{name}.{sublayer}_norm.weight"))

    def _attention(self, plan: LayerPlan, frequencies: RopeFrequencies) -> Attention:
        name, tensor, float8 = f"{plan.prefix}.attn", self.reader.tensor, self.reader.float8
        input_projections = InputProjections(
            wq_a=float8(f"{name}.wq_a"),
            q_norm=tensor(f"{name}.q_norm.weight"),
            wq_b=float8(f"{name}.wq_b"),
            wkv=float8(f"{name}.wkv"),
            kv_norm=tensor(f"{name}.kv_norm.weight"),
        )
        output_projections = OutputProjections(float8(f"{name}.wo_a"), float8(f"{name}.wo_b"), self.config.o_groups)
        weights = AttentionWeights(input_projections, output_projections, tensor(f"{name}.attn_sink"))
        compressor = self._compressor(plan, frequencies) if plan.owns_kv else None
        indexer = self._indexer(plan) if plan.scores else None
        return Attention(weights, compressor, indexer, plan, self.config, self.arithmetic)

    def _compressor(self, plan: LayerPlan, frequencies: RopeFrequencies) -> Compressor:
        name, tensor = f"{plan.prefix}.attn", self.reader.tensor
        weights = CompressorWeights(
            tensor(f"{name}.compressor.wkv.weight"),
            tensor(f"{name}.compressor.wgate.weight") if plan.compress_ratio > 1 else None,
            LatentWeights(
                tensor(f"{name}.compressor.norm.weight"),
                tensor(f"{name}.indexer.wk.weight"),
                tensor(f"{name}.indexer.k_norm.weight"),
            ),
        )
        return Compressor(weights, plan, self.config, frequencies.yarn, self.arithmetic)

    def _indexer(self, plan: LayerPlan) -> Indexer:
        name = f"{plan.prefix}.attn.indexer"
        weights = IndexerWeights(self.reader.float8(f"{name}.wq_b"), self.reader.tensor(f"{name}.weights_proj.weight"))
        return Indexer(weights, plan, self.config, self.arithmetic)

    def _moe(self, plan: LayerPlan) -> MoE:
        name, tensor = f"{plan.prefix}.ffn", self.reader.tensor
        shared = {part: self.reader.float8(f"{name}.shared_experts.{part}") for part in ("w1", "w2", "w3")}
        gate = {part: tensor(f"{name}.gate.{part}") for part in ("bias", "bias_vl")}
        c = self.config
        active = c.num_active_draft_experts if plan.is_draft else c.n_activated_experts
        router = Router(tensor(f"{name}.gate.weight"), **gate, active=active, scale=float(c.route_scale))
        weights = MoEWeights(router, ExpertWeights(**shared))
        return MoE(weights, self.experts, plan, self.config, self.arithmetic)

    def _engram(self, plan: LayerPlan) -> Engram:
        name = f"{plan.prefix}.engram"
        q_weight, k_weight = self.reader.tensor(f"{name}.q_weight"), self.reader.tensor(f"{name}.k_weight")
        weights = EngramWeights(self.reader.float8(f"{name}.wkv"), q_weight, k_weight)
        return Engram(weights, self.engram_rows, plan, self.config, self.arithmetic)
