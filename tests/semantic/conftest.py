"""The built-in miniature, and samples of the built-in suites, the same items always."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from shoal.assemble import Assembled, LoadOptions, assemble
from shoal.engine.engine import Engine
from shoal.eval.item import Passage, Suite
from shoal.eval.outcome import Outcome
from shoal.eval.result import EvalResult
from shoal.eval.run import run
from shoal.eval.suites import load_suites

Sampled = Callable[..., Suite]
Ask = Callable[..., EvalResult]
TOGETHER = 8


@pytest.fixture(scope="session")
def miniature() -> Iterator[Assembled]:
    with assemble(LoadOptions(threads=1)) as model:
        yield model


@pytest.fixture(scope="session")
def sampled() -> Sampled:
    """At most `limit` items of a suite, or of one of its groups, spread evenly."""

    def choose(name: str, limit: int | None = None, group: str | None = None) -> Suite:
        (suite,) = load_suites([name])
        return replace(suite, items=[item for item in suite.items if group in (None, item.group)]).sample(limit)

    return choose


@pytest.fixture(scope="session")
def ask(miniature: Assembled) -> Ask:
    """What a model, the miniature unless another is given, answers as it is now, reading `chunk` tokens at once."""

    def answers(suites: Sequence[Suite], chunk: int | None = None, model: Assembled = miniature) -> EvalResult:
        given = model.engine
        engine = Engine(given.model, given.eos_id, chunk or given.chunk_tokens, max_running=TOGETHER)
        return EvalResult(tuple(outcome for suite in suites for outcome in outcomes_of(engine, model, suite)))

    return answers


def outcomes_of(engine: Engine, model: Assembled, suite: Suite) -> Iterator[Outcome]:
    """Questions several in one forward, which changes no bit and takes half the time of one after another.

    Each is read by a thread of its own, which runs the steps too: none goes on once its answer is settled.
    """
    if any(isinstance(item, Passage) for item in suite.items):
        yield from run(engine, model.tokenizer, [suite]).outcomes
        return
    alone = [replace(suite, items=[item]) for item in suite.items]
    with ThreadPoolExecutor(TOGETHER) as readers:
        for result in readers.map(lambda one: run(engine, model.tokenizer, [one]), alone):
            yield from result.outcomes


@pytest.fixture(scope="session")
def intact(ask: Ask, sampled: Sampled) -> EvalResult:
    """Everything it is asked with nothing damaged."""
    return ask(
        [
            sampled("facts", 120, "seen"),
            sampled("facts", 40, "held-out"),
            sampled("arithmetic", 40, "held-out"),
            sampled("chat", 12),
            sampled("tools", 20, "call"),
            sampled("json", 60, "valid"),
            sampled("text"),
        ]
    )
