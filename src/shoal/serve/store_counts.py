"""What the stores of experts, Engram rows and prefixes have read and kept, as figures for `/metrics`."""

from collections.abc import Callable

from shoal.assemble import Assembled


def store_counts(assembled: Assembled) -> Callable[[], dict[str, float]]:
    """The figures by name, as they are whenever it is called; none of a store that keeps none."""
    experts, engram, prefix, pool = assembled.expert_store, assembled.engram_store, assembled.prefix, assembled.pool

    def counts() -> dict[str, float]:
        found: dict[str, float] = {}
        if (of_experts := experts.statistics) is not None:
            found |= {"expert_hits": of_experts.hits, "expert_misses": of_experts.misses}
            found |= {"expert_read_nbytes": of_experts.read_nbytes, "expert_stall_seconds": of_experts.stall_seconds}
            found |= {"expert_hit_rate": of_experts.hit_rate or 0.0}
        if engram is not None:
            of_rows = engram.statistics
            found |= {"engram_rows": of_rows.rows, "engram_hits": of_rows.hits}
            found |= {"engram_read_nbytes": of_rows.nbytes_read, "engram_stall_seconds": of_rows.stall_seconds}
        if prefix is not None:
            of_prefixes = prefix.statistics()
            found |= {"prefix_lookups": of_prefixes.lookups, "prefix_hits": of_prefixes.hits}
            found |= {"prefix_saved_tokens": of_prefixes.saved_tokens, "prefix_evicted": of_prefixes.evicted}
            found |= {"prefix_snapshots": of_prefixes.snapshots, "prefix_nbytes": of_prefixes.nbytes}
        return found | {"kv_pages_used": pool.num_used}

    return counts
