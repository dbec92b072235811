from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.engine.answer import Answer, Timings
from shoal.engine.events import TokenEvent
from shoal.engine.logprobs import TokenLogprobs
from shoal.text.tokenizer import Tokenizer

PROMPT = (0, 5)


def events(token_ids: list[int], *, stop: bool = False) -> Iterator[TokenEvent]:
    last = len(token_ids) - 1
    for place, token_id in enumerate(token_ids):
        yield TokenEvent(token_id, "length" if place == last and not stop else None, 0.5)
    if stop:
        yield TokenEvent(None, "stop", 0.25)


@given(st.lists(st.integers(3, 1023), min_size=1, max_size=12), st.booleans())
def test_the_pieces_are_the_text_of_the_ids(tokenizer: Tokenizer, token_ids: list[int], stop: bool) -> None:
    answer = Answer(events(token_ids, stop=stop), tokenizer, PROMPT)
    text = "".join(answer)
    completion = answer.completion
    assert text == completion.text == tokenizer.decode(token_ids)
    assert (completion.token_ids, completion.prompt_ids) == (tuple(token_ids), PROMPT)
    assert completion.finish_reason == ("stop" if stop else "length")


def test_a_character_comes_whole_or_as_a_replacement_at_the_end(tokenizer: Tokenizer) -> None:
    euro = tokenizer.encode("€")
    assert len(euro) > 1
    assert list(Answer(events(euro), tokenizer, PROMPT)) == [*[""] * (len(euro) - 1), "€"]
    assert list(Answer(events(euro[:-1], stop=True), tokenizer, PROMPT))[-1] == "\ufffd"


def test_prefill_and_decode_are_timed_apart(tokenizer: Tokenizer) -> None:
    answer = Answer(events([7, 8, 9], stop=True), tokenizer, PROMPT)
    list(answer)
    assert answer.completion.timings == Timings(0.5, 1.25, 3)
    assert answer.completion.timings.seconds_per_step == pytest.approx(1.25 / 3)


def test_one_step_has_no_decode(tokenizer: Tokenizer) -> None:
    answer = Answer(events([7]), tokenizer, PROMPT)
    list(answer)
    assert answer.completion.timings == Timings(0.5, 0, 0)
    assert answer.completion.timings.seconds_per_step is None


def test_an_answer_not_read_to_its_end_is_interrupted(tokenizer: Tokenizer) -> None:
    answer = Answer(events([7, 8]), tokenizer, PROMPT)
    assert answer.completion.timings.prefill_seconds is None
    piece = next(answer)
    completion = answer.completion
    assert (completion.text, completion.token_ids, completion.finish_reason) == (piece, (7,), "interrupted")


def test_a_stop_string_ends_the_answer_before_it_and_asks_for_nothing_more(tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode("one two three four")
    given = events(ids)
    answer = Answer(given, tokenizer, PROMPT, ("e t",))
    assert "".join(answer) == "one two thre"[: "one two three".index("e t")]
    assert answer.completion.finish_reason == "stop"
    assert len(answer.completion.token_ids) < len(ids) and next(given, None) is not None


def test_what_might_have_been_a_stop_string_comes_at_the_end(tokenizer: Tokenizer) -> None:
    answer = Answer(events(tokenizer.encode("one tw")), tokenizer, PROMPT, ("two",))
    assert "".join(answer) == answer.completion.text == "one tw"
    assert answer.completion.finish_reason == "length"


def test_logprobs_are_kept_one_a_token_and_left_out_where_nobody_asked(tokenizer: Tokenizer) -> None:
    told = TokenLogprobs(-0.5, ((7, -0.5),))
    answer = Answer(iter([TokenEvent(7, "length", 0.5, told)]), tokenizer, PROMPT)
    list(answer)
    assert answer.completion.logprobs == (told,)
    plain = Answer(events([7]), tokenizer, PROMPT)
    list(plain)
    assert "logprobs" not in plain.completion.as_dict()
