"""The replies a server gave, as the ids that the model chose: a client sends text back, and text has many spellings.

A reply is known by the ids it followed and by what a renderer makes of it; where both come again its own ids stand in
the prompt, so that a prefix cache finds all of it. Nothing else can: ids are never taken from another conversation.
"""

import hashlib
import threading
from array import array
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

MOST_TURNS, MOST_IDS = 4096, 4_000_000


@dataclass(frozen=True)
class Span:
    """An assistant's part of a rendered prompt: its text, and where the markers are that the renderer wrote in it."""

    text: str
    markers: tuple[tuple[int, int], ...]


class Prefix:
    """A digest of the ids so far, that goes on with them."""

    def __init__(self) -> None:
        self._digest = hashlib.sha256()

    def extend(self, ids: Sequence[int]) -> None:
        """These follow."""
        self._digest.update(array("q", ids).tobytes())

    def key(self, span: Span) -> bytes:
        """Names `span` behind these ids."""
        digest = self._digest.copy()
        digest.update(repr(span).encode("utf-8", "surrogatepass"))
        return digest.digest()


class Turns:
    """Of the latest replies, within `MOST_TURNS` and `most_ids` altogether. Any thread may use it."""

    def __init__(self, most_ids: int = MOST_IDS) -> None:
        self._most_ids = most_ids
        self._known: OrderedDict[bytes, tuple[int, ...]] = OrderedDict()
        self._num_ids = 0
        self._lock = threading.Lock()

    def remember(self, prompt_ids: Sequence[int], span: Span, ids: Sequence[int]) -> None:
        """`ids` were the answer to `prompt_ids`, and render as `span`."""
        prefix = Prefix()
        prefix.extend(prompt_ids)
        with self._lock:
            key = prefix.key(span)
            self._num_ids -= len(self._known.pop(key, ()))
            self._known[key] = tuple(ids)
            self._num_ids += len(ids)
            while len(self._known) > MOST_TURNS or self._num_ids > self._most_ids:
                self._num_ids -= len(self._known.popitem(last=False)[1])

    def recall(self, prefix: Prefix, span: Span) -> tuple[int, ...] | None:
        """The ids of that answer behind `prefix`, if it was given here."""
        key = prefix.key(span)
        with self._lock:
            ids = self._known.get(key)
            if ids is not None:
                self._known.move_to_end(key)
            return ids
