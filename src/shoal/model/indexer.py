"""The indexer of Full and Reindex layers: which compressed positions each token reads (spec §4.5).

A layer always scores against its KV source's own keys, in decode as in prefill.
"""

from jaxtyping import BFloat16
from torch import Tensor

from shoal.config.layer_plan import LayerPlan
from shoal.config.schema import ModelConfig
from shoal.model.step import Step, record_nothing
from shoal.ops.arithmetic import Arithmetic
from shoal.ops.index_queries import IndexerWeights, index_queries
from shoal.ops.index_selection import CandidateBlocks, IndexSelection
from shoal.ops.paged_rows import num_rows
from shoal.ops.quantize import Quantized
from shoal.ops.step_selection import IndexedSequence, select_step


class Indexer:
    """Publishes the selected positions of each sequence, and the candidates if its layer is their source."""

    def __init__(self, weights: IndexerWeights, plan: LayerPlan, config: ModelConfig, arithmetic: Arithmetic) -> None:
        assert plan.kv_source is not None, plan
        self.weights, self.plan, self.config, self.arithmetic = weights, plan, config, arithmetic
        self.kv_source = plan.kv_source
        self.scale = config.index_head_dim**-0.5 * config.index_n_heads**-0.5
        blocks = CandidateBlocks(config.candidate_block_size, config.candidate_topk_blocks)
        self.candidate_blocks = blocks if plan.is_candidate_source else None

    def select(self, x: BFloat16[Tensor, "tokens dim"], qr: Quantized, step: Step) -> None:
        """Score, and publish into `step.selected` (and `step.candidates`)."""
        q, weights = index_queries(qr, x, self.weights, step.yarn_rotation, self.scale, self.arithmetic)
        source, sequences = self.plan.candidate_source, []
        for number, span, cache in step.sequences():
            candidates = None if source is None else step.candidates[number]
            sequences.append(IndexedSequence(span.count, cache.index_keys[self.kv_source], candidates))
        visible = (step.positions + 1) // self.plan.compress_ratio
        selections = select_step(
            *(q, weights, visible, sequences, self.config.index_topk, self.arithmetic, self.candidate_blocks),
            wants_scores=step.record is not record_nothing,
        )
        for number, (found, one) in enumerate(zip(selections, sequences, strict=True)):
            self._publish(number, found, num_rows(one.keys), step)

    def _publish(self, number: int, found: IndexSelection, positions: int, step: Step) -> None:
        if found.scores is not None:
            step.record(f"L{self.plan.layer_id}.index_score", found.scores)
        if found.candidates is not None:
            step.candidates[number] = found.candidates
            step.record(f"L{self.plan.layer_id}.candidates", found.candidates)
        step.selected[number] = found.selected
        step.record(f"L{self.plan.layer_id}.topk", found.selected[:, :positions])
