"""The token history against a list."""

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from shoal.engram.hashing import DEAD
from shoal.model.token_history import TokenHistory

LENGTH = 3


# How many tokens each of up to two cuts takes back. In the same rule as the pass: runs that draw only one
# of two rules are common, and would never cut what they wrote.
CUTS = st.lists(st.integers(0, 6), max_size=2)


class HistoryMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.history, self.twin = TokenHistory(LENGTH), list[int]()

    @rule(ids=st.lists(st.integers(DEAD, 50), max_size=6), cuts=CUTS)
    def run_a_pass_and_cut_it(self, ids: list[int], cuts: list[int]) -> None:
        self.history.extend(np.array(ids, dtype=np.int64))
        start = len(self.twin)
        self.twin += ids
        for taken_back in cuts:
            length = max(start, len(self.twin) - taken_back)
            self.history.truncate(length)
            self.twin = self.twin[:length]
            self.the_last_ids_are_held_oldest_first()

    @rule()
    def save_and_restore(self) -> None:
        restored = TokenHistory(LENGTH)
        restored.load(self.history.ids, len(self.twin))
        self.history = restored

    @invariant()
    def the_last_ids_are_held_oldest_first(self) -> None:
        assert self.history.ids.tolist() == ([DEAD] * LENGTH + self.twin)[-LENGTH:]
        assert self.history.length == len(self.twin)


HistoryMachine.TestCase.settings = settings(max_examples=30, stateful_step_count=12)
TestHistory = HistoryMachine.TestCase


def test_an_earlier_pass_is_not_undone() -> None:
    history = TokenHistory(LENGTH)
    history.extend(np.array([1, 2], dtype=np.int64))
    history.extend(np.array([3], dtype=np.int64))
    with pytest.raises(AssertionError):
        history.truncate(1)


def test_a_model_without_engram_remembers_nothing() -> None:
    history = TokenHistory(0)
    history.extend(np.array([1, 2], dtype=np.int64))
    assert history.ids.shape == (0,) and history.length == 2
