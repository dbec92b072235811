"""What a run may take of the memory."""

from dataclasses import replace
from typing import Any

import pytest

from shoal.checkpoint.inventory import ROUTED
from shoal.errors import OptionError
from shoal.plan.activations import Activations
from shoal.plan.budget import Budget, plan_budget
from shoal.plan.kv_cache import KVCache
from shoal.plan.least_memory import Wishes, context_within
from shoal.plan.size import GIB, MIB, parse_size
from shoal.plan.stored import ENGRAM_TABLES, Stored

ACTIVATIONS = Activations(MIB // 2, (2048, 1024, 512, 256, 128, 64))


def budget(stored: Stored, usable: int = 0, **wishes: Any) -> Budget:
    return plan_budget(stored, Wishes(**wishes), usable, ACTIVATIONS)


def total(found: Budget) -> int:
    parts = found.dense, found.program, found.activations, found.kv, found.experts or 0, found.engram or 0
    return sum(parts)


@pytest.mark.parametrize("gibibytes", [11, 12, 14, 24, 64, 128, 256])
def test_the_classes_together_are_the_budget_while_experts_do_not_all_fit(release: Stored, gibibytes: int) -> None:
    found = budget(release, memory=gibibytes * GIB)
    assert found.memory == total(found) == gibibytes * GIB
    assert found.experts is not None and found.experts >= 6 * release.expert_nbytes


def test_more_memory_is_never_less_for_any_class(release: Stored) -> None:
    found = [budget(release, memory=gibibytes * GIB) for gibibytes in range(11, 280, 6)]
    for name in ("activations", "kv", "experts", "engram", "context", "chunk"):
        values = [getattr(each, name) for each in found]
        assert values == sorted(values), name


def test_experts_that_all_fit_are_the_page_caches_and_rows_get_the_rest(release: Stored) -> None:
    found = budget(release, memory=400 * GIB)
    assert found.experts is None
    assert found.engram is not None and total(found) + release.nbytes[ROUTED] == 400 * GIB
    assert budget(release, memory=600 * GIB).engram == release.nbytes[ENGRAM_TABLES]


@pytest.mark.parametrize("gibibytes", [11, 14, 64, 256])
def test_more_sequences_are_within_the_budget_too(release: Stored, gibibytes: int) -> None:
    found = budget(release, memory=gibibytes * GIB, sequences=8)
    assert found.memory == total(found) == gibibytes * GIB and found.context >= 4096
    assert found.context == context_within(release.config, found.kv)
    # Eight can run together even then.
    assert found.kv >= 7 * KVCache(release.config, 1).fixed_nbytes + KVCache(release.config, 4096).sequence_nbytes


def test_a_cache_for_eight_is_never_more_than_eight_whole_contexts(release: Stored) -> None:
    whole = KVCache(release.config, release.config.context_length).sequence_nbytes
    assert budget(release, memory=600 * GIB, sequences=8).kv == 8 * whole
    assert budget(release, memory=600 * GIB).kv == whole


def test_no_total_takes_what_is_free_less_a_margin(release: Stored) -> None:
    found = budget(release, usable=100 * GIB)
    assert found.memory == total(found) == 95 * GIB


def test_no_total_and_little_free_is_tried_with_the_least(release: Stored) -> None:
    found = budget(release, usable=GIB)
    assert found.experts == 6 * release.expert_nbytes
    assert (found.context, found.chunk) == (4096, 64)


def test_what_is_given_is_kept(release: Stored) -> None:
    found = budget(release, memory=20 * GIB, experts=3 * GIB, engram=GIB, kv=64 * MIB, chunk=100)
    assert (found.experts, found.engram, found.kv, found.chunk) == (3 * GIB, GIB, 64 * MIB, 100)
    assert found.activations == 100 * ACTIVATIONS.token_nbytes


def test_resident_tables_are_counted(release: Stored) -> None:
    with pytest.raises(OptionError, match=r"the Engram rows take 188\.83 GiB where"):
        budget(release, memory=100 * GIB, resident_engram=True)
    found = budget(release, memory=230 * GIB, resident_engram=True)
    assert found.engram is None and total(found) + release.nbytes[ENGRAM_TABLES] == 230 * GIB


@pytest.mark.parametrize(
    ("wishes", "name", "hint"),
    [
        ({"memory": 9 * GIB}, "the dense weights", "no option makes these smaller"),
        ({"memory": 10 * GIB, "kv": 2 * GIB}, "the KV cache", "--kv-memory"),
        ({"memory": 10 * GIB, "chunk": 4096}, "the activations of a chunk", "--prefill-chunk"),
        ({"memory": 11 * GIB, "engram": 5 * GIB}, "the Engram rows", "--engram-memory"),
        ({"memory": 11 * GIB, "experts": 5 * GIB}, "the routed experts", "--expert-memory"),
    ],
)
def test_what_does_not_fit_is_named_with_the_smallest_that_would(
    release: Stored, wishes: dict[str, int], name: str, hint: str
) -> None:
    with pytest.raises(OptionError, match=f"does not fit into .*: {name}") as caught:
        budget(release, **wishes)
    assert caught.value.hint is not None and hint in caught.value.hint
    smallest = parse_size(caught.value.message.rpartition("would do is ")[2])
    assert budget(release, **{**wishes, "memory": smallest}).memory == smallest


def test_the_smallest_that_is_named_is_the_smallest(release: Stored) -> None:
    wishes = {"chunk": 64, "kv": 64 * MIB}
    with pytest.raises(OptionError) as caught:
        budget(release, memory=GIB, **wishes)
    smallest = parse_size(caught.value.message.rpartition("would do is ")[2])
    budget(release, memory=smallest, **wishes)
    with pytest.raises(OptionError):
        budget(release, memory=smallest - 32 * MIB, **wishes)


def test_a_kv_cache_of_no_token_is_refused(release: Stored) -> None:
    with pytest.raises(OptionError, match="`--kv-memory` of 1,000 bytes holds no token, wanted at least"):
        budget(release, memory=20 * GIB, kv=1000)


@pytest.mark.parametrize("tokens", [1, 5, 4096, 100_001])
def test_the_context_is_the_longest_that_fits(release: Stored, tokens: int) -> None:
    nbytes = KVCache(release.config, tokens).sequence_nbytes
    found = context_within(release.config, nbytes)
    assert found >= tokens and KVCache(release.config, found + 1).sequence_nbytes > nbytes
    assert context_within(release.config, 1 << 60) == release.config.context_length


def test_a_model_without_tables_gets_no_rows(release: Stored) -> None:
    without = replace(release, nbytes={**release.nbytes, ENGRAM_TABLES: 0})
    assert budget(without, memory=400 * GIB).engram == 0
