"""One sequence through the model, every internal kept: what a port is compared with."""

from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from torch import Tensor

from shoal.assemble import LoadOptions, assemble
from shoal.errors import OptionError, PromptError
from shoal.model.backbone import Backbone
from shoal.model.batch import Batch
from shoal.tracing.cache_tensors import cache_tensors
from shoal.tracing.recording import Recording

Progress = Callable[[int, int], None]
"""Takes the layers done so far and the layers to do, over all chunks."""


def trace(
    checkpoint: str | Path | None = None,
    *,
    ids: Sequence[int],
    arithmetic: str = "wide",
    chunks: Sequence[int] | None = None,
    only: Sequence[str] | None = None,
) -> dict[str, Tensor]:
    """Logits, every internal and the cache of one run over `ids`, by the names of `trace_backbone`.

    `checkpoint` is a directory, the built-in miniature where None. `arithmetic` is `wide`, `release` or `native`.
    Raises OptionError for chunks that do not add up, PromptError for ids the model cannot take, and what `assemble`
    raises.
    """
    check_chunks(chunks, len(ids))
    options = LoadOptions(None if checkpoint is None else Path(checkpoint), arithmetic=arithmetic)
    with assemble(options) as model:
        return trace_backbone(model.backbone, ids, chunks=chunks, only=only)


def trace_backbone(
    backbone: Backbone,
    ids: Sequence[int],
    *,
    chunks: Sequence[int] | None = None,
    only: Sequence[str] | None = None,
    progress: Progress | None = None,
) -> dict[str, Tensor]:
    """Logits, every internal and the cache after one run over `ids`, fed in pieces of `chunks` tokens.

    Row r of a tensor is token r. `input_ids` int32 [n], `logits` float32 [n, vocab], `final.normed`, `main_hidden`;
    per layer `L{i}.` `engram.hash_ids`, `engram.stream_in`, `engram.stream_out`, `attn_in`, `index_score`,
    `candidates`, `topk`, `attn_out`, `ffn_in`, `router.indices`, `router.weights`, `router.margin`, `ffn_out`,
    `stream_out`, `pre_mix_out`, `L0.stream_in`; `cache.L{i}.` the names of `cache_tensors`. `topk` holds compressed
    positions, ascending, −1 where there are fewer. Only names that match a pattern of `only` are kept.
    """
    _check_ids(ids, backbone)
    sizes = check_chunks(chunks, len(ids))
    record = Recording(only, _layer_counter(len(sizes) * len(backbone.layers), progress))
    record("input_ids", torch.tensor(ids, dtype=torch.int64))
    all_rows = record.wants("logits") or record.wants("final.normed")
    cache, start = backbone.new_cache(), 0
    for size in sizes:
        batch = Batch.build([list(ids[start : start + size])], [cache], logits="all" if all_rows else "last")
        record("logits", backbone.forward(batch, [cache], record).logits)
        start += size
    for name, value in cache_tensors(cache):
        record(name, value)
    return record.tensors()


def check_chunks(chunks: Sequence[int] | None, count: int) -> list[int]:
    """The sizes of the pieces `count` tokens are fed in: `chunks`, or one piece. OptionError if they do not add up."""
    if chunks is None:
        return [count]
    if any(size < 1 for size in chunks):
        raise OptionError(f"`chunks` holds a piece of {min(chunks)} tokens, expected pieces of at least 1")
    if sum(chunks) != count:
        raise OptionError(f"`chunks` add up to {sum(chunks)} tokens, expected the prompt's {count}")
    return list(chunks)


def _check_ids(ids: Sequence[int], backbone: Backbone) -> None:
    vocabulary, longest = backbone.config.vocab_size, backbone.config.context_length
    if not ids:
        raise PromptError("the prompt is empty, expected at least one token id")
    if len(ids) > longest:
        raise PromptError(f"the prompt has {len(ids)} tokens, expected at most the {longest} of the model's context")
    for position, token_id in enumerate(ids):
        if not 0 <= token_id < vocabulary:
            raise PromptError(
                f"token id {token_id} at position {position} is outside the vocabulary, expected 0 to {vocabulary - 1}"
            )


def _layer_counter(total: int, progress: Progress | None) -> Callable[[str], None] | None:
    if progress is None:
        return None
    done = 0

    def count(name: str) -> None:
        nonlocal done
        if name.endswith(".pre_mix_out"):
            done += 1
            progress(done, total)

    return count
