"""A prefix cache without a tree, a budget or pages: copies of sequences by their ids."""

from collections.abc import Callable, Sequence

from shoal.model.cache import SequenceCache

Copy = Callable[[SequenceCache], SequenceCache]


class FakePrefix:
    """Keeps every length asked for; of a prompt of n tokens `marks`, n - 1, and every `stride` tokens."""

    def __init__(self, copy: Copy, stride: int = 2048) -> None:
        self.copy, self.stride = copy, stride
        self.kept: dict[tuple[int, ...], SequenceCache] = {}
        self.hits: list[int] = []

    def worth_keeping(self, num_tokens: int, marks: Sequence[int]) -> Sequence[int]:
        return sorted({*marks, num_tokens - 1, *range(self.stride, num_tokens, self.stride)} - {0})

    def find(self, ids: Sequence[int]) -> tuple[SequenceCache, int] | None:
        found = max(
            (key for key in self.kept if key == tuple(ids[: len(key)]) and len(key) < len(ids)), key=len, default=()
        )
        self.hits.append(len(found))
        return (self.copy(self.kept[found]), len(found)) if found else None

    def keep(self, ids: Sequence[int], cache: SequenceCache, lasting: bool = True) -> None:
        assert cache.length == len(ids), (cache.length, len(ids))
        self.kept[tuple(ids)] = self.copy(cache)

    def evict(self) -> bool:
        return False
