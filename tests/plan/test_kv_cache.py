"""What a sequence holds and reads (spec §5, ced.md §4), and that the model's own cache holds as much."""

from hypothesis import given
from hypothesis import strategies as st

from shoal.plan.kv_cache import KVCache
from shoal.plan.stored import Stored


def test_a_token_adds_890_bytes_and_a_sequence_2_9_mb(release: Stored) -> None:
    cache = KVCache(release.config, 1_048_576)
    assert cache.token_nbytes == 890
    assert cache.fixed_nbytes == 43 * 128 * 528
    assert cache.sequence_nbytes == 1_048_576 * 890 + 43 * 128 * 528


def test_rows_have_the_released_sizes(release: Stored) -> None:
    cache = KVCache(release.config, 1)
    assert (cache.ring_row_nbytes, cache.entry_nbytes, cache.key_nbytes) == (528, 288, 68)


def test_an_open_group_is_not_an_entry_yet(release: Stored) -> None:
    sizes = [KVCache(release.config, context).sequence_nbytes for context in (0, 1, 2)]
    assert [size - sizes[0] for size in sizes] == [0, 356, 4 * 356 + 356]


def test_a_token_at_a_million_reads_what_the_specification_derives(release: Stored) -> None:
    context = 1 << 20
    scoring = 170 * context  # layers 2, 8, 14 and 20
    candidates = 4 * 16_384 * 68  # layers 24, 28, 32, 36
    entries, rings = 38 * 512 * 288, 40 * 128 * 528
    assert KVCache(release.config, context).read_nbytes == scoring + candidates + entries + rings


def test_nothing_is_read_before_the_first_token(release: Stored) -> None:
    assert KVCache(release.config, 0).read_nbytes == 0


@given(st.integers(0, 1 << 20), st.integers(0, 1 << 16))
def test_a_longer_context_never_holds_or_reads_less(release: Stored, context: int, more: int) -> None:
    shorter, longer = KVCache(release.config, context), KVCache(release.config, context + more)
    assert shorter.sequence_nbytes <= longer.sequence_nbytes
    assert shorter.read_nbytes <= longer.read_nbytes


def test_the_miniature_s_cache_holds_what_is_planned(miniature: Stored) -> None:
    from shoal.config.layer_plan import plan_layers
    from shoal.model.cache import SequenceCache

    config, planned = miniature.config, KVCache(miniature.config, 1)
    cache = SequenceCache(config, plan_layers(config))
    rings = sum(ring.rows.codes.nbytes + ring.rows.scales.nbytes for ring in cache.rings.values())
    assert rings == config.n_layers * config.window_size * planned.ring_row_nbytes
    for rows, size in ((cache.entries, planned.entry_nbytes), (cache.index_keys, planned.key_nbytes)):
        assert {one.part.code_nbytes + one.part.scale_nbytes for one in rows.values()} == {size}
