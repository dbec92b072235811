"""The lengths of a prompt at which a snapshot is worth its bytes.

The end of a prompt is kept one token early. A prompt that comes again needs a token to compute, so a snapshot of all
of it would never serve it; and the next turn of a conversation that thinks differs from this prompt in its very last
token (`<think>` becomes `</think>`). One token costs a decode step; the other ways to come back to within a window
of the end cost a pass over up to `window` tokens, which reads most experts once more.
"""

from collections.abc import Iterable

KEPT_EVERY = 2048


def worth_keeping(prompt_length: int, marks: Iterable[int] = ()) -> list[int]:
    """Where to cut a prompt's chunks and keep what is computed by then, ascending: all less than `prompt_length`.

    The end less one token, the `marks` (where a system prompt ends), every `KEPT_EVERY` tokens. The end of a reply
    comes to these.
    """
    last = prompt_length - 1
    lengths = {last, *(mark for mark in marks if mark < last), *range(KEPT_EVERY, last, KEPT_EVERY)}
    return sorted(length for length in lengths if length > 0)


def worth_writing(length: int, prompt_length: int, marks: Iterable[int] = ()) -> bool:
    """Whether what is kept at `length` of a prompt belongs on the disk too.

    A file holds all tokens before it. So of every `KEPT_EVERY` only the doubled lengths are written: all of them
    together are no more than twice the longest, and of a prompt that was cut short at most half is computed again.
    """
    if length == prompt_length - 1 or length in marks:
        return True
    steps, rest = divmod(length, KEPT_EVERY)
    return rest == 0 and steps & (steps - 1) == 0
