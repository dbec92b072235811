"""The prefix cache of an assembled model: what it takes of the memory, and that it outlives the process's model."""

import random
from contextlib import ExitStack
from pathlib import Path

import pytest

from shoal.assemble import LoadOptions, assemble
from shoal.engine.engine import Engine
from shoal.engine.request import Request
from shoal.engine.sampling_options import SamplingOptions
from shoal.errors import OptionError

MEMORY = 3 << 30


def test_a_prompt_is_known_after_a_restart(tmp_path: Path) -> None:
    answers = []
    for cached in (False, True):
        options = LoadOptions(threads=1, memory=MEMORY, prefix_memory=None, prefix_directory=tmp_path)
        with assemble(options) as model:
            ids = tuple(model.tokenizer.encode_prompt("The capital of France is"))
            ticket = model.engine.submit(Request(ids, SamplingOptions(max_new_tokens=3)))
            answers.append(list(ticket)[-1])
            assert ticket.cached_tokens == (len(ids) - 1 if cached else 0)
            assert any("prefix cache: 96.00 MiB; 32.00 GiB on the disk" in line for line in model.places())
            assert model.prefix is not None and model.prefix.limit == MEMORY // 32
            assert model.budget.memory == MEMORY
    assert answers[0].token_id == answers[1].token_id


def test_without_options_nothing_is_kept() -> None:
    with assemble(LoadOptions(threads=1)) as model:
        assert model.prefix is None and model.engine.prefix is None
        assert not any("prefix" in line for line in model.places())


def test_a_cache_that_leaves_nothing_is_refused() -> None:
    with pytest.raises(OptionError, match="`prefix_memory` is 3,221,225,472 bytes, expected less than"):
        assemble(LoadOptions(threads=1, memory=MEMORY, prefix_memory=MEMORY))


def test_a_directory_that_cannot_be_used_is_refused_before_anything_is_loaded(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    told = list[int]()
    with pytest.raises(OptionError, match="cannot keep prefixes"):
        assemble(
            LoadOptions(
                threads=1,
                prefix_memory=None,
                prefix_directory=tmp_path / "file",
                progress=lambda done, total: told.append(done),
            )
        )
    assert not told


@pytest.mark.parametrize("restarts", [False, True])
def test_the_first_token_of_a_prompt_that_is_known_takes_at_most_two_decode_steps(
    tmp_path: Path, restarts: bool
) -> None:
    options = LoadOptions(
        threads=1, memory=MEMORY, prefill_chunk=64, prefix_memory=None, prefix_directory=tmp_path if restarts else None
    )
    rng = random.Random(1)
    with ExitStack() as stack:
        model = stack.enter_context(assemble(options))
        # Longer than a window, and than several chunks; no length of which is a multiple of anything.
        request = Request(tuple(rng.randrange(300, model.config.vocab_size) for _ in range(331)))
        first, steps, tokens = first_token(model.engine, request)
        assert steps >= 331 // 64 and tokens == 331
        if restarts:
            stack.close()
            model = stack.enter_context(assemble(options))
        # Counted, not timed: a decode step is one forward of one token.
        again, steps, tokens = first_token(model.engine, request)
        assert again == first and steps <= 2 and tokens <= 2


def first_token(engine: Engine, request: Request) -> tuple[int | None, int, int]:
    """The id, and the forwards and tokens that it took."""
    before = engine.metrics()
    stream = engine.stream(request)
    token_id = next(stream).token_id
    after = engine.metrics()
    stream.close()
    return token_id, after.steps - before.steps, after.computed_tokens - before.computed_tokens
