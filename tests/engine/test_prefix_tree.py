"""The tree against a dictionary of tuples."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from shoal.engine.prefix_tree import Node, PrefixTree, as_ids

# Few tokens, so that sequences meet, part, and begin with one another.
SEQUENCES = st.lists(st.integers(0, 2), max_size=8).map(tuple)


class TreeAndTwin(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.tree: PrefixTree[int] = PrefixTree()
        self.twin: dict[tuple[int, ...], int] = {}
        self.nodes: dict[tuple[int, ...], Node[int]] = {}

    kept = Bundle("kept")

    @rule(target=kept, ids=SEQUENCES, value=st.integers(0, 99))
    def put(self, ids: tuple[int, ...], value: int) -> tuple[int, ...]:
        node = self.tree.put(as_ids(ids), value)
        assert self.nodes.setdefault(ids, node) is node
        self.twin[ids] = value
        return ids

    @rule(ids=consumes(kept))
    def remove(self, ids: tuple[int, ...]) -> None:
        if ids in self.twin:
            self.tree.remove(self.nodes.pop(ids))
            del self.twin[ids]

    @rule(ids=SEQUENCES)
    def walk(self, ids: tuple[int, ...]) -> None:
        found = [(tuple(node.ids().tolist()), node.value) for node in self.tree.along(as_ids(ids))]
        beginnings = [ids[:count] for count in range(len(ids) + 1)]
        assert found == [(beginning, self.twin[beginning]) for beginning in beginnings if beginning in self.twin]

    @invariant()
    def it_holds_what_the_twin_holds(self) -> None:
        held = {tuple(node.ids().tolist()): node for node in self.tree}
        assert {ids: node.value for ids, node in held.items()} == self.twin
        assert all(len(ids) == node.length for ids, node in held.items())

    @invariant()
    def no_node_is_there_for_nothing(self) -> None:
        nodes = [self.tree._root]
        while nodes:
            node = nodes.pop()
            nodes += node.children.values()
            assert node is self.tree._root or node.value is not None or len(node.children) > 1
            assert all(child.parent is node and child.edge[0] == first for first, child in node.children.items())


TreeAndTwin.TestCase.settings = settings(max_examples=20, stateful_step_count=25, deadline=None)
TestTree = TreeAndTwin.TestCase
