import math

import pytest

from shoal.config.schema import ModelConfig
from shoal.engine.request import Request, Room
from shoal.engine.sampling_options import LARGEST_SEED, SamplingOptions
from shoal.errors import OptionError, PromptError


@pytest.mark.parametrize(
    ("option", "value", "found"),
    [
        ("temperature", -0.1, "-0.1"),
        ("temperature", math.nan, "nan"),
        ("temperature", math.inf, "inf"),
        ("top_p", 0.0, "0.0"),
        ("top_p", 1.5, "1.5"),
        ("top_p", math.nan, "nan"),
        ("seed", -1, "-1"),
        ("seed", LARGEST_SEED + 1, "18446744073709551616"),
        ("max_new_tokens", 0, "0"),
    ],
)
def test_an_option_out_of_range_is_named_with_what_was_found(option: str, value: float, found: str) -> None:
    with pytest.raises(OptionError, match=f"`{option}` is {found}, expected"):
        SamplingOptions(**{option: value})


@pytest.mark.parametrize(
    "options",
    [{"temperature": 0.0}, {"temperature": 1e9}, {"top_p": 1e-300}, {"seed": LARGEST_SEED}, {"max_new_tokens": 1}],
)
def test_the_ends_of_the_ranges_are_in_them(options: dict[str, float]) -> None:
    assert SamplingOptions(**options)


def test_the_default_is_greedy_and_fixed() -> None:
    options = SamplingOptions()
    assert (options.temperature, options.top_p, options.seed) == (0.0, 1.0, 0)


def test_an_empty_prompt_is_refused(config: ModelConfig) -> None:
    with pytest.raises(PromptError, match="the prompt is empty"):
        Request(()).check(config, Room(config.context_length))


@pytest.mark.parametrize("token_id", [-1, 1024, 10**30])
def test_an_id_outside_the_vocabulary_is_named_with_its_place(config: ModelConfig, token_id: int) -> None:
    with pytest.raises(PromptError, match=f"token id {token_id} at position 2 .* expected 0 to 1023"):
        Request((0, 1023, token_id)).check(config, Room(config.context_length))


def test_a_prompt_must_leave_room_for_one_token(config: ModelConfig) -> None:
    Request((0, 5, 6)).check(config, Room(4))
    with pytest.raises(PromptError, match=r"has 4 tokens, expected at most 3: the context of 4 must hold"):
        Request((0, 5, 6, 7)).check(config, Room(4))


def test_a_small_kv_cache_sets_the_limit_and_is_named(config: ModelConfig) -> None:
    assert (Room(4, 9).tokens, Room(9, 4).tokens) == (4, 4)
    with pytest.raises(PromptError, match=r"at most 3: the KV cache of 4 tokens \(`--kv-memory`\) must hold"):
        Request((0, 5, 6, 7)).check(config, Room(9, 4))
