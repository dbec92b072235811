import hashlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.config.schema import ModelConfig
from shoal.engram.hashing import DEAD, Int64Array, empty_history, hash_rows, next_history
from shoal.engram.layout import EngramLayout, LayerTables, derive_layout
from shoal.engram.token_map import TokenMap

PAD = 2
RELEASED = LayerTables(
    layer_id=1,
    primes=((601, 607), (613, 617), (619, 631)),
    multipliers=(76632096046245, 4839876093313, 35959672319349, 73987337458391),
)
TOKENS = st.lists(st.integers(DEAD, 99091), max_size=24)


def _rows(layout: EngramLayout, ids: Int64Array, pad: int = PAD) -> Int64Array:
    """All layers of one fresh sequence: int64 [tokens, layers, columns]."""
    history = empty_history(layout.history_length)
    return np.stack([hash_rows(layer, history, ids, pad=pad) for layer in layout.layers], axis=1)


def _slowly(layer: LayerTables, ids: list[int], position: int) -> list[int]:
    """Spec §6.2 as it is written, one position at a time, in unbounded integers."""
    terms, blocked = [], False
    for lookback, multiplier in enumerate(layer.multipliers):
        blocked = blocked or position < lookback or ids[position - lookback] == DEAD
        terms.append((PAD if blocked else ids[position - lookback]) * multiplier)
    rows, rho, offset = [], terms[0], 0
    for term, heads in zip(terms[1:], layer.primes, strict=True):
        rho ^= term
        for prime in heads:
            rows.append(rho % prime + offset)
            offset += prime
    return rows


@pytest.mark.parametrize("name", ["0_3", "last8", "france", "bos_france", "chat_france", "first16", "long_mod"])
def test_release_sequences_hash_to_the_golden_rows(
    release_config: ModelConfig, release_map: TokenMap, release_golden: dict[str, Any], name: str
) -> None:
    golden = release_golden["sequences"][name]
    rows = _rows(derive_layout(release_config), release_map.compress(golden["token_ids"]), release_map.pad)
    assert hashlib.sha256(rows.astype("<i8").tobytes()).hexdigest() == golden["sha256"]
    assert rows.tolist() == golden.get("hash_ids", rows.tolist())
    assert rows.min(axis=(0, 2)).tolist() == golden["min"]
    assert rows.max(axis=(0, 2)).tolist() == golden["max"]


def test_full_size_sequences_hash_to_the_golden_rows(
    release_config: ModelConfig, full_size_golden: dict[str, Any]
) -> None:
    layout, cases = derive_layout(release_config), full_size_golden["hash_cases_identity_map"]
    for ids, golden in zip(cases["ids"], cases["full"], strict=True):
        assert _rows(layout, np.array(ids)).tolist() == golden


def test_masked_positions_hash_to_the_golden_rows(
    release_config: ModelConfig, full_size_golden: dict[str, Any]
) -> None:
    layout, cases = derive_layout(release_config), full_size_golden["hash_cases_identity_map"]
    first, second = (np.array(ids) for ids in cases["ids"])
    first[cases["mask_row0_false_at"]] = DEAD
    assert _rows(layout, first).tolist() == cases["masked"][0]
    assert _rows(layout, second).tolist() == cases["masked"][1]


def test_single_steps_hash_to_the_golden_rows(release_config: ModelConfig, full_size_golden: dict[str, Any]) -> None:
    layout, cases = derive_layout(release_config), full_size_golden["hash_cases_identity_map"]
    for sequence, ids in enumerate(np.array(cases["ids"])):
        history = next_history(empty_history(3), ids[:7])
        for step in range(5):
            token = ids[7 + step : 8 + step]
            rows = np.stack([hash_rows(layer, history, token, pad=PAD) for layer in layout.layers], axis=1)
            assert rows.tolist() == cases["split_7_then_1_each"][step][sequence]
            history = next_history(history, token)


@pytest.mark.parametrize(
    ("layer", "history", "expected"),
    [
        (0, [5], {0: 5412672, 1: 18319159, 2: 35492627, -1: 372009279}),
        (0, [5, 7, 11, 13], {0: 4449004, -1: 369904649}),
        (1, [5, 7, 11, 13, 17], {0: 2607190, -1: 381201812}),
    ],
)
def test_the_vectors_of_the_specification_are_met(
    release_config: ModelConfig, layer: int, history: list[int], expected: dict[int, int]
) -> None:
    last = _rows(derive_layout(release_config), np.array(history))[-1, layer]
    assert {column: int(last[column]) for column in expected} == expected


@given(TOKENS)
def test_rows_are_those_of_the_formula_in_unbounded_integers(ids: list[int]) -> None:
    rows = hash_rows(RELEASED, empty_history(3), np.array(ids, dtype=np.int64), pad=PAD)
    assert rows.tolist() == [_slowly(RELEASED, ids, position) for position in range(len(ids))]


@given(TOKENS, st.lists(st.integers(0, 24), max_size=6))
def test_any_cut_into_chunks_gives_the_rows_of_the_whole(ids: list[int], cuts: list[int]) -> None:
    whole = np.array(ids, dtype=np.int64)
    history, pieces = empty_history(3), []
    for chunk in np.split(whole, sorted(min(cut, len(ids)) for cut in cuts)):
        pieces.append(hash_rows(RELEASED, history, chunk, pad=PAD))
        history = next_history(history, chunk)
    assert np.array_equal(np.concatenate(pieces), hash_rows(RELEASED, empty_history(3), whole, pad=PAD))


@given(TOKENS, TOKENS, TOKENS)
def test_rolling_back_to_a_prefix_leaves_no_trace(prefix: list[int], rejected: list[int], after: list[int]) -> None:
    kept = next_history(empty_history(3), np.array(prefix, dtype=np.int64))
    snapshot = kept.copy()
    hash_rows(RELEASED, kept, np.array(rejected, dtype=np.int64), pad=PAD)
    next_history(kept, np.array(rejected, dtype=np.int64))
    assert np.array_equal(kept, snapshot)
    rows = hash_rows(RELEASED, kept, np.array(after, dtype=np.int64), pad=PAD)
    whole = hash_rows(RELEASED, empty_history(3), np.array(prefix + after, dtype=np.int64), pad=PAD)
    assert np.array_equal(rows, whole[len(prefix) :])


@given(TOKENS, st.integers(0, 99091), st.integers(0, 99091))
def test_nothing_before_an_image_reaches_past_it(before: list[int], token: int, follower: int) -> None:
    with_text = np.array([*before, token, DEAD, follower], dtype=np.int64)
    alone = np.array([DEAD, follower], dtype=np.int64)
    rows = hash_rows(RELEASED, empty_history(3), with_text, pad=PAD)
    assert np.array_equal(rows[-2:], hash_rows(RELEASED, empty_history(3), alone, pad=PAD))


@given(TOKENS)
def test_every_row_lies_in_its_column(ids: list[int]) -> None:
    rows = hash_rows(RELEASED, empty_history(3), np.array(ids, dtype=np.int64), pad=PAD)
    starts = np.array(RELEASED.offsets)
    assert ((rows >= starts) & (rows < starts + np.array(RELEASED.buckets))).all()


def test_no_tokens_give_no_rows() -> None:
    nothing = np.empty(0, dtype=np.int64)
    assert hash_rows(RELEASED, empty_history(3), nothing, pad=PAD).shape == (0, 6)
    assert next_history(empty_history(3), nothing).tolist() == [DEAD] * 3
