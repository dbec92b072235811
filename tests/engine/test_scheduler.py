from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from shoal.engine.kv_room import ByteRoom
from shoal.engine.scheduler import RESERVE_TOKENS, Plan, Scheduler, share


@dataclass(eq=False)
class Work:
    """A sequence of which only numbers are known."""

    number: int
    num_known: int
    most_tokens: int
    cut: int = 0
    length: int = 0
    is_held_back: bool = False

    @property
    def chunk_end(self) -> int:
        return self.cut if self.length < self.cut < self.num_known else self.num_known


def begin(work: Work) -> bool:
    return not work.is_held_back


def feed(plan: Plan[Work]) -> None:
    """A forward that gives a token to everyone who has fed all that is known."""
    for work in plan.preempted:
        work.length = 0
    for work, count in plan.chunks:
        work.length += count
        if work.length == work.num_known:
            work.num_known += 1


def scheduler(room: ByteRoom | None = None, running: int = 4, chunk: int = 64) -> Scheduler[Work]:
    return Scheduler(room or ByteRoom(), running, chunk)


def pages(count: int) -> ByteRoom:
    """Room for `count` pages of 8 tokens and 10 bytes, without rings."""
    return ByteRoom(count * 10, 10, 0, 8)


@given(st.integers(1, 64), st.lists(st.integers(1, 100), max_size=8))
def test_shares_are_fair(tokens: int, wanted: list[int]) -> None:
    given_out = share(tokens, wanted)
    assert sum(given_out) == min(tokens, sum(wanted))
    assert all(0 <= mine <= most for mine, most in zip(given_out, wanted, strict=True))
    if wanted:
        assert given_out[0] >= min(wanted[0], (tokens + 1) // 2)
    others = sorted(zip(wanted, given_out, strict=True))
    for most, mine in others[:-1]:
        # Who got less than the half's equal share was done with that.
        assert mine == most or mine >= (tokens // 2) // max(1, len(wanted) - 1)


@pytest.mark.parametrize(
    ("tokens", "wanted", "shares"),
    [
        (64, [1000], [64]),
        (64, [1000, 10], [54, 10]),
        (64, [1000, 1000], [32, 32]),
        (64, [1000, 10, 1000], [32, 10, 22]),
        (64, [4, 1000], [4, 60]),
        (1, [5, 5], [1, 0]),
        (2, [5, 9, 5], [1, 0, 1]),
        (64, [], []),
    ],
)
def test_half_is_the_oldest_ones_and_what_nobody_else_wants(tokens: int, wanted: list[int], shares: list[int]) -> None:
    assert share(tokens, wanted) == shares


def test_a_short_prompt_behind_a_long_one_is_read_in_the_next_step() -> None:
    it = scheduler()
    it.add(Work(0, 10_000, 20_000))
    it.admit(begin)
    feed(it.plan())
    it.add(Work(1, 20, 30))
    it.admit(begin)
    assert [(work.number, count) for work, count in it.plan().chunks] == [(0, 44), (1, 20)]


def test_sequences_that_decode_are_fed_before_prompts_and_leave_them_one_token_at_least() -> None:
    it = scheduler(chunk=2)
    for number in range(3):
        it.add(Work(number, 1, 9))
    it.add(Work(3, 100, 200))
    it.admit(begin)
    assert [(work.number, count) for work, count in it.plan().chunks] == [(0, 1), (1, 1), (2, 1), (3, 1)]


def test_a_chunk_ends_at_a_cut() -> None:
    it = scheduler()
    it.add(Work(0, 100, 200, cut=10))
    it.admit(begin)
    counts = []
    for _ in range(3):
        plan = it.plan()
        counts += [count for _, count in plan.chunks]
        feed(plan)
    assert counts == [10, 64, 26]


def test_who_does_not_fit_waits_and_holds_up_those_behind() -> None:
    it = scheduler(pages(4))
    for number, tokens in enumerate((24, 16, 4)):
        it.add(Work(number, tokens, tokens))
    it.admit(begin)
    assert [work.number for work in it.running] == [0]
    it.remove(it.running[0])
    it.admit(begin)
    assert [work.number for work in it.running] == [1, 2]


def test_who_is_held_back_lets_others_pass_and_keeps_its_place() -> None:
    it = scheduler()
    works = [Work(0, 5, 9, is_held_back=True), Work(1, 5, 9)]
    for work in works:
        it.add(work)
    it.admit(begin)
    assert (it.running, it.waiting) == ([works[1]], [works[0]])
    works[0].is_held_back = False
    it.admit(begin)
    assert it.running == works


def test_the_youngest_is_preempted_when_the_room_is_used_up_and_waits_in_its_old_place() -> None:
    it = scheduler(pages(5))
    old, young, third = Work(0, 20, 24), Work(1, 8, 16), Work(2, 8, 40)
    for work in (old, young, third):
        it.add(work)
    it.admit(begin)
    assert (it.running, it.waiting) == ([old, young], [third])
    old.length, old.num_known, old.most_tokens = 24, 25, 40  # as if more than its reserve were wanted
    plan = it.plan()
    assert (list(plan.preempted), [work for work, _ in plan.chunks]) == ([young], [old])
    assert it.waiting == [young, third] and it.room.used_nbytes == 50


class Requests(RuleBasedStateMachine):
    """Requests come, are fed, say something, are cancelled; a list of live ones is the twin."""

    @initialize(
        page_tokens=st.sampled_from([1, 4, 16]),
        page_count=st.integers(1, 40),
        running=st.integers(1, 4),
        chunk=st.integers(1, 40),
    )
    def begin_engine(self, page_tokens: int, page_count: int, running: int, chunk: int) -> None:
        self.room = ByteRoom(page_count * 10 + running * 7, 10, 7, page_tokens)
        self.scheduler: Scheduler[Work] = Scheduler(self.room, running, chunk)
        self.live: list[Work] = []
        self.count = 0

    def holding(self, work: Work) -> int:
        return self.scheduler._held[work.number]

    @rule(tokens=st.integers(1, 200), more=st.integers(1, 400), cut=st.integers(0, 100), held=st.booleans())
    def submit(self, tokens: int, more: int, cut: int, held: bool) -> None:
        longest = self.room.longest
        assert longest is not None
        if tokens >= longest:
            return  # refused by `Request.check`
        work = Work(self.count, tokens, min(tokens + more, longest), cut, is_held_back=held and bool(self.live))
        self.count += 1
        self.live.append(work)
        self.scheduler.add(work)

    @precondition(lambda self: self.live)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        work = self.live.pop(data.draw(st.integers(0, len(self.live) - 1)))
        self.scheduler.remove(work)

    @rule()
    def step(self) -> None:
        if not any(work in self.live and not work.is_held_back for work in self.scheduler.waiting):
            for work in self.live:
                work.is_held_back = False
        waited = list(self.scheduler.waiting)
        self.scheduler.admit(begin)
        ready = [work for work in waited if not work.is_held_back]
        admitted = [work for work in ready if work in self.scheduler.running]
        assert admitted == ready[: len(admitted)]  # nobody who may run was passed
        before = list(self.scheduler.running)
        if not before:
            assert not ready
            return
        plan = self.scheduler.plan()
        self.check(plan, before)
        feed(plan)
        for work in [work for work, _ in plan.chunks if work.num_known > work.most_tokens]:
            self.scheduler.remove(work)
            self.live.remove(work)

    def check(self, plan: Plan[Work], before: list[Work]) -> None:
        fed = {work.number: count for work, count in plan.chunks}
        assert before[0] not in plan.preempted and plan.chunks
        assert [work for work in before if work not in plan.preempted] == self.scheduler.running
        assert list(plan.preempted) == before[len(before) - len(plan.preempted) :][::-1]
        prompts = [work for work in before if work.num_known - work.length > 1]
        left = max(1, self.scheduler.chunk_tokens - (len(before) - len(prompts)))
        assert sum(fed.get(work.number, 0) for work in prompts) <= left
        for work in self.scheduler.running:
            count = fed.get(work.number, 0)
            assert work.length + count <= min(work.chunk_end, self.holding(work))
            assert count == 1 or work in prompts

    @invariant()
    def the_books_are_right(self) -> None:
        if not hasattr(self, "scheduler"):
            return
        waiting, running = self.scheduler.waiting, self.scheduler.running
        assert sorted([*waiting, *running], key=id) == sorted(self.live, key=id)
        for group in (waiting, running):
            assert [work.number for work in group] == sorted(work.number for work in group)
        assert len(running) <= self.scheduler.max_running
        held = sum(self.holding(work) for work in running) // self.room.page_tokens
        assert self.room.used_nbytes == held * 10 + len(running) * 7 <= (self.room.nbytes or 0)
        assert set(self.scheduler._held) == {work.number for work in running}

    def teardown(self) -> None:
        """All that is left ends, in no more steps than there are tokens to feed one by one, each computed anew by
        everyone older."""
        if not hasattr(self, "scheduler"):
            return
        steps = sum(work.most_tokens for work in self.live) * (len(self.live) + 1) + len(self.live)
        while self.live:
            self.step()
            steps -= 1
            assert steps >= 0, "no progress"
        assert self.room.used_nbytes == 0


Requests.TestCase.settings = settings(max_examples=40, stateful_step_count=30)
TestRequests = Requests.TestCase


def test_what_is_admitted_has_room_for_a_part_of_its_answer() -> None:
    it = scheduler(pages(100))
    it.add(Work(0, 8, 10_000))
    it.admit(begin)
    assert it.room.used_nbytes == 10 * (8 + RESERVE_TOKENS) // 8
