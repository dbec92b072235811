"""Reads are as few as pages allow, and every tensor is found in them, wherever the headers put it."""

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.checkpoint.extents import find_extents
from shoal.checkpoint.header import TensorEntry

SIZES = 3 * 4096, 700, 1, 4096, 9000, 33


def entries(gaps: list[int], files: list[str], order: list[int]) -> list[TensorEntry]:
    ends, found = dict.fromkeys(files, 0), dict[int, TensorEntry]()
    for i, gap, file in zip(order, gaps, files, strict=True):
        start = ends[file] + gap
        ends[file] = start + SIZES[i]
        found[i] = TensorEntry(f"t{i}", "I8", (SIZES[i],), start, ends[file], Path(file))
    return [found[i] for i in range(len(SIZES))]


PLACED = st.builds(
    entries,
    st.lists(st.integers(0, 20_000), min_size=6, max_size=6),
    st.lists(st.sampled_from("ab"), min_size=6, max_size=6),
    st.permutations(range(6)),
)


@given(placed=PLACED)
def test_every_tensor_is_in_a_read_at_its_place(placed: list[TensorEntry]) -> None:
    found = find_extents(placed)
    # Reads fill the slot end to end, in whole pages.
    assert [extent.place for extent in found.extents] == [
        sum(extent.nbytes for extent in found.extents[:i]) for i in range(len(found.extents))
    ]
    assert all(extent.start % 4096 == extent.nbytes % 4096 == 0 for extent in found.extents)
    for entry in placed:
        place = found.places[entry.name]
        (extent,) = [each for each in found.extents if each.place <= place < each.place + each.nbytes]
        assert (extent.path, extent.start + place - extent.place) == (entry.path, entry.start)
        assert place - extent.place + entry.nbytes <= extent.wanted <= extent.nbytes


@given(placed=PLACED)
def test_no_page_is_read_twice_and_no_two_reads_touch(placed: list[TensorEntry]) -> None:
    spans = sorted((extent.path, extent.start, extent.start + extent.nbytes) for extent in find_extents(placed).extents)
    for (path, _, end), (other, start, _) in pairwise(spans):
        assert path != other or end < start


@pytest.mark.parametrize(("gap", "reads"), [(0, 1), (4000, 1), (3 * 4096, 2)])
def test_neighbours_are_read_together(gap: int, reads: int) -> None:
    placed = entries([5, 0, 0, gap, 0, 0], list("aaaaaa"), list(range(6)))
    assert len(find_extents(placed).extents) == reads
