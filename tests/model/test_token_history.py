"""The token history against a list."""

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from shoal.engram.hashing import DEAD
from shoal.model.token_history import TokenHistory

LENGTH = 3


class HistoryMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.history, self.twin, self.pass_start = TokenHistory(LENGTH), list[int](), 0

    @rule(ids=st.lists(st.integers(DEAD, 50), max_size=6))
    def extend(self, ids: list[int]) -> None:
        self.history.extend(np.array(ids, dtype=np.int64))
        self.pass_start = len(self.twin)
        self.twin += ids

    @rule(share=st.floats(0, 1))
    def cut_inside_the_last_pass(self, share: float) -> None:
        length = self.pass_start + round(share * (len(self.twin) - self.pass_start))
        self.history.truncate(length)
        self.twin = self.twin[:length]

    @rule()
    def save_and_restore(self) -> None:
        restored = TokenHistory(LENGTH)
        restored.load(self.history.ids, len(self.twin))
        self.history, self.pass_start = restored, len(self.twin)

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
