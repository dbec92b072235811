"""The tokens of one request as an iterator, for a caller that has no use for other events."""

from collections.abc import Callable
from typing import Self

from shoal.engine.events import PromptEvent, TokenEvent
from shoal.engine.ticket import Ticket

PromptProgress = Callable[[int, int], None]
"""Takes how many of the prompt's tokens are read, a chunk's counted layer by layer, and how many there are."""


class TokenStream:
    """Who lets go of it cancels the request, also when nothing was read."""

    def __init__(self, ticket: Ticket, progress: PromptProgress | None = None) -> None:
        self.ticket, self._events, self._progress = ticket, iter(ticket), progress

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> TokenEvent:
        for event in self._events:
            if isinstance(event, TokenEvent):
                return event
            if isinstance(event, PromptEvent) and self._progress is not None:
                self._progress(event.done, event.total)
        raise StopIteration

    def close(self) -> None:
        """Ends the request where it has not ended."""
        self.ticket.cancel()

    def __del__(self) -> None:
        self.close()
