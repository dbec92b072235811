from shoal.engine.metrics import Histogram, Meter


def test_a_value_counts_under_the_first_bound_that_is_not_below_it() -> None:
    meter = Meter()
    for sequences in (1, 2, 3, 4, 5000):
        meter.step(sequences, 0, 0.0)
    found = meter.snapshot(0, 0, 0, None).step_sequences
    assert (found.counts[:3], found.counts[-1], found.total, found.count) == ((1, 1, 2), 1, 5010.0, 5)


def test_a_snapshot_does_not_change() -> None:
    meter = Meter()
    meter.end("stop")
    before = meter.snapshot(1, 2, 3, 4)
    meter.end("stop")
    meter.step(1, 1, 1.0)
    assert (before.ended, before.steps, before.step_tokens.count) == ({"stop": 1}, 0, 0)
    assert (before.waiting, before.running, before.kv_used_nbytes, before.kv_total_nbytes) == (1, 2, 3, 4)
    assert isinstance(before.first_token_seconds, Histogram)
