"""Sentences that a person should read, each of them once however many shards or threads have it to say."""

import threading

from shoal.checkpoint.direct_file import Notice


class SaidOnce:
    """A `Notice` that passes on what it was not told before, to `notice` if there is one."""

    def __init__(self, notice: Notice | None) -> None:
        self._notice, self._said = notice, set[str]()
        self._saying = threading.Lock()

    def __call__(self, sentence: str) -> None:
        with self._saying:
            if sentence in self._said:
                return
            self._said.add(sentence)
        if self._notice is not None:
            self._notice(sentence)
