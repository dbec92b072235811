"""Token sequences that share their beginnings, some with a value: a radix tree, exact to the token."""

from collections.abc import Iterator, Sequence
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.int32]
Value = TypeVar("Value")


def as_ids(token_ids: Sequence[int]) -> Ids:
    """The ids as a tree takes them."""
    return np.asarray(token_ids, dtype=np.int32)


class Node(Generic[Value]):
    """The sequence of `length` tokens that the edges from the root spell; `value` is None where nothing is kept."""

    __slots__ = ("children", "edge", "length", "parent", "value")

    def __init__(self, parent: "Node[Value] | None", edge: Ids, value: Value | None = None) -> None:
        self.parent, self.edge, self.value = parent, edge, value
        self.length: int = len(edge) + (parent.length if parent else 0)
        self.children: dict[int, Node[Value]] = {}

    def ids(self) -> Ids:
        """The whole sequence."""
        edges, node = [self.edge], self.parent
        while node is not None:
            edges.append(node.edge)
            node = node.parent
        return np.concatenate(edges[::-1])


class PrefixTree(Generic[Value]):
    """Every node but the root has a value or at least two children, so there are fewer than twice as many as values."""

    def __init__(self) -> None:
        self._root: Node[Value] = Node(None, as_ids(()))

    def along(self, ids: Ids) -> list[Node[Value]]:
        """The nodes with a value that `ids` begin with or are, shortest first."""
        return [node for node, shared in self._walk(ids) if shared == len(node.edge) and node.value is not None]

    def put(self, ids: Ids, value: Value) -> Node[Value]:
        """Give the sequence `ids` this value, instead of one that it had."""
        node, shared = self._walk(ids)[-1]
        if shared < len(node.edge):
            node = self._split(node, shared)
        if node.length < len(ids):
            child = Node(node, ids[node.length :].copy())
            node.children[int(child.edge[0])] = child
            node = child
        node.value = value
        return node

    def remove(self, node: Node[Value]) -> None:
        """Forget the value of `node`, and the tokens that led only there."""
        node.value = None
        while node.parent is not None and node.value is None and not node.children:
            del node.parent.children[int(node.edge[0])]
            node = node.parent
        if node.parent is not None and node.value is None and len(node.children) == 1:
            self._join(node)

    def __iter__(self) -> Iterator[Node[Value]]:
        """Every node that has a value."""
        nodes = [self._root]
        while nodes:
            node = nodes.pop()
            nodes += node.children.values()
            if node.value is not None:
                yield node

    def _walk(self, ids: Ids) -> list[tuple[Node[Value], int]]:
        """The nodes from the root on, and how many tokens of each one's edge `ids` share: all, but for the last."""
        node, path = self._root, [(self._root, 0)]
        while node.length < len(ids) and (child := node.children.get(int(ids[node.length]))) is not None:
            shared = _shared(child.edge, ids[node.length :])
            path.append((child, shared))
            if shared < len(child.edge):
                break
            node = child
        return path

    def _split(self, node: Node[Value], count: int) -> Node[Value]:
        """A node of its own for the first `count` tokens of the edge of `node`."""
        assert node.parent is not None
        upper: Node[Value] = Node(node.parent, node.edge[:count].copy())
        node.parent.children[int(node.edge[0])] = upper
        upper.children[int(node.edge[count])] = node
        node.parent, node.edge = upper, node.edge[count:].copy()
        return upper

    def _join(self, node: Node[Value]) -> None:
        """Put the only child of `node` in its place."""
        assert node.parent is not None
        (child,) = node.children.values()
        node.parent.children[int(node.edge[0])] = child
        child.parent, child.edge = node.parent, np.concatenate((node.edge, child.edge))


def _shared(edge: Ids, ids: Ids) -> int:
    count = min(len(edge), len(ids))
    differs = edge[:count] != ids[:count]
    first = int(differs.argmax()) if count else 0
    return first if count and differs[first] else count
