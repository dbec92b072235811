"""Text that ends before any of some strings, however the pieces fall (spec prompt.md: a stop string is not content)."""

from collections.abc import Sequence


class StopStrings:
    """Takes text piece by piece and gives out what no stop string can begin in; at most their length is held back."""

    def __init__(self, stops: Sequence[str]) -> None:
        self.stops = tuple(stops)
        self.found: str | None = None
        self._held = ""

    def push(self, piece: str) -> str:
        """The text that is now certain. Once a stop string is `found`, the text before it, and nothing after that."""
        if self.found is not None:
            return ""
        text = self._held + piece
        # The one that is whole first, and of those the one that began first: the same however the text is cut.
        whole = [(text.find(stop) + len(stop), text.find(stop), stop) for stop in self.stops if stop in text]
        if whole:
            _, start, self.found = min(whole)
            self._held = ""
            return text[:start]
        keep = max((_overlap(text, stop) for stop in self.stops), default=0)
        certain, self._held = text[: len(text) - keep], text[len(text) - keep :]
        return certain

    def flush(self) -> str:
        """What was held back, when no more text comes."""
        held, self._held = self._held, ""
        return held


def _overlap(text: str, stop: str) -> int:
    """The longest end of `text` that `stop` begins with."""
    most = min(len(text), len(stop) - 1)
    return next((size for size in range(most, 0, -1) if stop.startswith(text[-size:])), 0)
