"""A reply in pieces is the reply that is parsed at once."""

from hypothesis import given
from hypothesis import strategies as st

from shoal.text.reply import parse_reply
from shoal.text.reply_stream import ReplyStream

PARTS = ("</think>", "<think>", "\n\n", "<｜DSML｜ calls>", "<", "a", "é", " b")


def streamed(pieces: list[str], *, thinking: bool, ended: bool = True) -> tuple[str, str]:
    stream = ReplyStream(thinking=thinking)
    found = [piece for text in pieces for piece in stream.push(text)] + [*stream.finish(ended=ended)]
    reasoning = "".join(piece.text for piece in found if piece.kind == "reasoning")
    return reasoning, "".join(piece.text for piece in found if piece.kind == "content")


@given(st.lists(st.sampled_from(PARTS)), st.booleans(), st.booleans())
def test_one_character_at_a_time_is_the_same_as_at_once(parts: list[str], thinking: bool, ended: bool) -> None:
    text = "".join(parts)
    whole = parse_reply(text, thinking=thinking, ended=ended)
    assert streamed([*text], thinking=thinking, ended=ended) == (whole.reasoning or "", whole.content)


def test_reasoning_is_known_as_such_while_it_comes() -> None:
    stream = ReplyStream(thinking=True)
    assert [piece.kind for piece in stream.push("Let me see. ")] == ["reasoning"]
    assert [piece.kind for piece in stream.push("</think>Paris ")] == ["content"]
