"""The open group against a list of all tokens."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from torch import Tensor

from shoal.model.open_group import OpenGroup

UNDOABLE = 6


def tokens(numbers: list[int]) -> Tensor:
    return torch.tensor(numbers, dtype=torch.float32)[:, None].repeat(1, 3)


def grouped(numbers: list[int], ratio: int) -> Tensor:
    return tokens(numbers).unflatten(0, (len(numbers) // ratio, ratio))


# How many tokens each of up to two cuts takes back. In the same rule as the pass: runs that draw only one
# of two rules are common, and would never cut what they wrote.
CUTS = st.lists(st.integers(0, 6), max_size=2)


class GroupMachine(RuleBasedStateMachine):
    """The twin is the list of all tokens; gates are the values negated."""

    ratio = 2

    def __init__(self) -> None:
        super().__init__()
        self.group, self.twin = OpenGroup(self.ratio, 3, UNDOABLE), list[int]()
        self.written = 0

    def open_tokens(self) -> list[int]:
        return self.twin[len(self.twin) // self.ratio * self.ratio :]

    @rule(count=st.integers(0, 9), cuts=CUTS)
    def extend_and_cut(self, count: int, cuts: list[int]) -> None:
        fresh = list(range(self.written, self.written + count))
        self.written += count
        together = self.open_tokens() + fresh
        wanted = grouped(together[: len(together) // self.ratio * self.ratio], self.ratio)
        values, gates = self.group.extend(tokens(fresh), -tokens(fresh))
        assert torch.equal(values, wanted) and torch.equal(gates, -wanted)
        start = len(self.twin)
        self.twin += fresh
        for taken_back in cuts:
            length = max(start, len(self.twin) - taken_back)
            if count > UNDOABLE and taken_back:
                length = start
            self.group.truncate(length)
            self.twin = self.twin[:length]
            self.the_tokens_of_the_unfinished_group_are_held()

    @rule()
    def save_and_restore(self) -> None:
        restored = OpenGroup(self.ratio, 3, UNDOABLE)
        restored.load(self.group.state(), len(self.twin))
        self.group = restored

    @invariant()
    def the_tokens_of_the_unfinished_group_are_held(self) -> None:
        assert self.group.length == len(self.twin)
        assert torch.equal(self.group.values, tokens(self.open_tokens()))
        assert torch.equal(self.group.gates, -tokens(self.open_tokens()))


class GroupOfFourMachine(GroupMachine):
    ratio = 4


for machine in (GroupMachine, GroupOfFourMachine):
    machine.TestCase.settings = settings(max_examples=25, stateful_step_count=12)
TestGroupOfTwo = GroupMachine.TestCase
TestGroupOfFour = GroupOfFourMachine.TestCase


@given(st.lists(st.integers(0, 9), max_size=8), st.integers(1, 5))
def test_groups_do_not_depend_on_the_chunks(sizes: list[int], ratio: int) -> None:
    group, numbers, found = OpenGroup(ratio, 3, UNDOABLE), list(range(sum(sizes))), []
    for chunk in torch.split(tokens(numbers), sizes) if sizes else ():
        found.append(group.extend(chunk, chunk)[0])
    complete = len(numbers) // ratio * ratio
    together = torch.cat(found) if found else torch.zeros(0, ratio, 3)
    assert torch.equal(together, grouped(numbers[:complete], ratio))


def test_a_long_pass_is_not_kept() -> None:
    group, chunk = OpenGroup(2, 3, UNDOABLE), tokens(list(range(UNDOABLE + 2)))
    group.extend(tokens([0]), tokens([0]))
    group.extend(chunk, chunk)
    held = (group.values, group.gates, group._pass_values, group._pass_gates)
    assert sum(rows.untyped_storage().nbytes() for rows in held) == group.nbytes <= 4 * 2 * chunk[0].nbytes


def test_an_earlier_pass_is_not_undone() -> None:
    group = OpenGroup(2, 3, UNDOABLE)
    group.extend(tokens([0, 1, 2]), tokens([0, 1, 2]))
    group.extend(tokens([3]), tokens([3]))
    with pytest.raises(AssertionError):
        group.truncate(1)
