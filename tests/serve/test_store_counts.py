"""What `/metrics` says of the stores."""

from shoal.assemble import LoadOptions, assemble
from shoal.engine.request import Request
from shoal.engine.sampling_options import SamplingOptions
from shoal.serve.store_counts import store_counts


def test_prefixes_and_pages_are_counted_as_they_are_now() -> None:
    with assemble(LoadOptions(prefix_memory=1 << 24)) as assembled:
        counts = store_counts(assembled)
        assert counts()["prefix_lookups"] == counts()["kv_pages_used"] == 0
        for _ in range(2):
            for _ in assembled.engine.stream(Request(tuple(range(3, 40)), SamplingOptions(max_new_tokens=2))):
                pass
        found = counts()
        assert (found["prefix_lookups"], found["prefix_hits"]) == (2, 1)
        assert found["prefix_saved_tokens"] == 36 and found["prefix_snapshots"] > 0 and found["prefix_nbytes"] > 0
        assert found["kv_pages_used"] >= 1


def test_a_server_that_keeps_no_prefix_says_nothing_of_them() -> None:
    with assemble(LoadOptions()) as assembled:
        assert not [name for name in store_counts(assembled)() if name.startswith("prefix")]
