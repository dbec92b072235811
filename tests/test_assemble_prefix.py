"""The prefix cache of an assembled model: what it takes of the memory, and that it outlives the process's model."""

from pathlib import Path

import pytest

from shoal.assemble import LoadOptions, assemble
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
