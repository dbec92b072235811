"""The built-in miniature, and samples of the built-in suites: a minute on one core, the same items always."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import pytest

from shoal.assemble import Assembled, LoadOptions, assemble
from shoal.engine.engine import Engine
from shoal.eval.item import Suite
from shoal.eval.result import EvalResult
from shoal.eval.run import run
from shoal.eval.suites import load_suites

Sampled = Callable[..., Suite]
Ask = Callable[..., EvalResult]


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
    """What the miniature answers, as it is at the moment, its prompts read `chunk` tokens at once."""

    def answers(suites: Sequence[Suite], chunk: int | None = None) -> EvalResult:
        engine = miniature.engine
        return run(Engine(engine.model, engine.eos_id, chunk or engine.chunk_tokens), miniature.tokenizer, suites)

    return answers


@pytest.fixture(scope="session")
def intact(ask: Ask, sampled: Sampled) -> EvalResult:
    """Everything it is asked with nothing damaged."""
    return ask(
        [
            sampled("facts", 60, "seen"),
            sampled("facts", 40, "held-out"),
            sampled("arithmetic", 40, "held-out"),
            sampled("chat", 12),
            sampled("tools", 20, "call"),
            sampled("json", 12, "valid"),
            sampled("text", 12),
        ]
    )
