"""A sequence's cache as plain tensors, laid out as the released code keeps it."""

from collections.abc import Iterator

from torch import Tensor

from shoal.model.cache import SequenceCache


def cache_tensors(cache: SequenceCache) -> Iterator[tuple[str, Tensor]]:
    """(name, tensor) of everything attention remembers, one at a time.

    `window_kv` bf16 [window, head_dim] in slot order, slot = position mod window; `compress_kv` and `index_k` bf16
    [positions, dim]; `kv_state` and `score_state` float32 [ratio, head_dim], slot = position mod ratio. What was never
    written, or belongs to a finished group, is zero.
    """
    for layer, ring in cache.rings.items():
        yield f"cache.L{layer}.window_kv", ring.rows.dequantize()
    for layer, rows in cache.entries.items():
        yield f"cache.L{layer}.compress_kv", rows.read()
        yield f"cache.L{layer}.index_k", cache.index_keys[layer].read()
    for layer, group in cache.open_groups.items():
        yield f"cache.L{layer}.kv_state", _slots(group.values, group.ratio)
        yield f"cache.L{layer}.score_state", _slots(group.gates, group.ratio)


def _slots(rows: Tensor, ratio: int) -> Tensor:
    slots = rows.new_zeros((ratio, rows.shape[1]))
    slots[: rows.shape[0]] = rows
    return slots
