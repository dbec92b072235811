"""Sequences in one batch give the bits they give alone."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

# (first id, first chunk, second chunk): other texts, at other positions, bringing other numbers of tokens.
MEMBER = st.tuples(st.sampled_from([0, 100, 250]), st.sampled_from([1, 2, 9, 33]), st.sampled_from([1, 2, 5]))


@settings(max_examples=3)
@given(st.lists(MEMBER, min_size=2, max_size=5), st.booleans())
def test_sequences_in_one_batch_are_each_alone(
    driver: Any, members: list[tuple[int, int, int]], one_joins_late: bool
) -> None:
    members = members[:3] if driver.is_slow else members
    sequences = [driver.prompt(sizes, start) for start, *sizes in members]
    if one_joins_late:
        # Its only chunk runs beside the others' second ones.
        start, first, second = members[0]
        caches = [driver.backbone.new_cache() for _ in sequences]
        driver.advance([chunks[0] for chunks in sequences[1:]], caches[1:])
        late = driver.prompt([first + second], start)
        runs = driver.lockstep([late, *([chunks[1]] for chunks in sequences[1:])], caches)
    else:
        runs = driver.lockstep(sequences)
    for run, (start, first, second) in zip(runs, members, strict=True):
        alone = driver.whole(start + first + second, start)
        assert run.differences(alone, first + second - run.logits.shape[0]) == []


def test_the_order_in_a_batch_changes_nothing(driver: Any) -> None:
    prompts = [driver.prompt([count], start) for start, count in ((0, 5), (100, 33), (250, 1))]
    forward, backward = driver.lockstep(prompts), driver.lockstep(prompts[::-1])
    assert [a.differences(b) for a, b in zip(forward, backward[::-1], strict=True)] == [[], [], []]
