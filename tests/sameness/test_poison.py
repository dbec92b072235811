"""Memory that holds nothing valid is never read: filling it with 0xFF before every forward changes no bit."""

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from shoal.model.cache import SequenceCache
from shoal.ops.quantize import Quantized

# Single tokens into an empty ring, short chunks, one that wraps it, and a prompt longer than the window.
CUTS = ([1, 1, 2, 29, 1, 3], [33, 1, 3], [29, 8], [37])


def fill(rows: Quantized) -> None:
    rows.codes.fill_(0xFF)
    rows.scales.fill_(0xFF)


def poison(cache: SequenceCache) -> None:
    """0xFF, or NaN, where nothing valid is: unwritten slots, spare room, what only undoing reads."""
    for ring in cache.rings.values():
        ring.rows.codes[ring.length :] = 0xFF
        ring.rows.scales[ring.length :] = 0xFF
        if ring._replaced is not None:
            fill(ring._replaced().rows)
    for rows in (*cache.entries.values(), *cache.index_keys.values()):
        for number in range(cache.num_pages):
            fill(rows.page(number)[slice(max(rows.count - number * rows.part.rows, 0), None)])
    for page_id in set(range(len(cache.pool._memory))) - set(cache.page_ids):
        cache.pool.memory(page_id).fill_(0xFF)
    for group in cache.open_groups.values():
        if group._pass_values is not group.values:
            group._pass_values.fill_(torch.nan)
            group._pass_gates.fill_(torch.nan)


@pytest.fixture
def poisoned(driver: Any) -> Iterator[Any]:
    """The driver, poisoning every cache and every fresh allocation."""

    def before_forward(caches: Sequence[SequenceCache]) -> None:
        for cache in caches:
            poison(cache)

    deterministic = torch.are_deterministic_algorithms_enabled()
    driver.before_forward = before_forward
    # With this on, torch fills what it allocates uninitialised with NaN and the largest integers.
    torch.use_deterministic_algorithms(True, warn_only=False)
    yield driver
    torch.use_deterministic_algorithms(deterministic)
    driver.before_forward = lambda caches: None


def test_poisoned_memory_changes_nothing(driver: Any, request: pytest.FixtureRequest) -> None:
    wanted = driver.whole(37)
    request.getfixturevalue("poisoned")
    assert torch.utils.deterministic.fill_uninitialized_memory and torch.empty(3).isnan().all()
    for run, sizes in zip(driver.lockstep([driver.prompt(cut) for cut in CUTS]), CUTS, strict=True):
        assert run.differences(wanted) == [], sizes


def test_poisoned_memory_changes_nothing_after_a_cut(driver: Any, request: pytest.FixtureRequest) -> None:
    wanted = driver.whole(37)
    starts = (1, 30, 31)
    caches = [driver.copy_of(driver.whole(start).cache) for start in starts]
    request.getfixturevalue("poisoned")
    driver.advance([[*driver.ids[start : start + 2], 7, 7, 7] for start in starts], caches)
    for cache, start in zip(caches, starts, strict=True):
        cache.truncate(start + 2)
    runs = driver.lockstep([[driver.ids[start + 2 : 37]] for start in starts], caches)
    assert [run.differences(wanted, start + 2) for run, start in zip(runs, starts, strict=True)] == [[]] * 3


def test_the_poison_is_where_a_wrong_read_would_find_it(driver: Any) -> None:
    cache = driver.copy_of(driver.whole(1).cache)
    poison(cache)
    ring = cache.rings[2]
    assert ring.rows.codes[1:].eq(0xFF).all() and not ring.read().isnan().any()
    ring.length += 1
    assert ring.read().isnan().any()


def test_a_row_that_sees_no_compressed_position_is_finite(poisoned: Any) -> None:
    recorded: dict[str, Tensor] = {}
    (logits,) = poisoned.advance([poisoned.ids[:1]], [poisoned.backbone.new_cache()], recorded.__setitem__)
    # One token completes no group of two.
    assert recorded["L2.topk"].shape == recorded["L4.topk"].shape == (1, 0)
    assert all(tensor.isfinite().all() for name, tensor in recorded.items() if name.endswith("_out"))
    assert logits.isfinite().all()
