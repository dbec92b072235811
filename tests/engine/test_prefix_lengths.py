"""Where a prompt is cut so that what is computed can be used again."""

import pytest

from shoal.engine.prefix_lengths import KEPT_EVERY, worth_keeping, worth_writing


def test_the_end_is_kept_one_token_early() -> None:
    assert worth_keeping(100) == [99]


@pytest.mark.parametrize("length", [0, 1])
def test_a_prompt_without_a_proper_beginning_has_nothing_to_keep(length: int) -> None:
    assert worth_keeping(length) == []


def test_long_prompts_are_kept_at_even_distances_too() -> None:
    assert worth_keeping(3 * KEPT_EVERY + 2) == [KEPT_EVERY, 2 * KEPT_EVERY, 3 * KEPT_EVERY, 3 * KEPT_EVERY + 1]
    assert worth_keeping(KEPT_EVERY + 1) == [KEPT_EVERY]


def test_marks_within_the_prompt_are_kept_once() -> None:
    assert worth_keeping(10, (4, 4, 9, 10, 11, 0, -1)) == [4, 9]


def test_of_even_distances_the_doubled_ones_are_written() -> None:
    prompt = 9 * KEPT_EVERY + 10
    written = [length for length in worth_keeping(prompt) if worth_writing(length, prompt)]
    assert written == [KEPT_EVERY, 2 * KEPT_EVERY, 4 * KEPT_EVERY, 8 * KEPT_EVERY, prompt - 1]


def test_an_end_or_a_mark_on_an_even_distance_is_written() -> None:
    assert worth_writing(3 * KEPT_EVERY, 3 * KEPT_EVERY + 1)
    assert worth_writing(3 * KEPT_EVERY, 9 * KEPT_EVERY, (3 * KEPT_EVERY,))
    assert not worth_writing(3 * KEPT_EVERY, 9 * KEPT_EVERY)


def test_what_is_written_of_one_prompt_is_less_than_three_times_its_end() -> None:
    prompt = 100 * KEPT_EVERY
    assert sum(length for length in worth_keeping(prompt) if worth_writing(length, prompt)) < 3 * prompt
