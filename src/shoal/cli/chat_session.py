"""One conversation: what was said, how the next reply is asked for, and the asking."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from types import FrameType

from shoal.cli.chat_reply import ChatMessage, LiveReply, Replies, ReplyFigures
from shoal.cli.chat_screen import Screen
from shoal.cli.chat_settings import ChatSettings

_NOTES = {
    "length": "cut at the most tokens a reply may have (`--max-new-tokens`)",
    "context": "cut: the context is full; `/undo` or `/clear` makes room",
    "deadline": "cut: the time for a reply is over",
}


class Session:
    """Messages without the system prompt, which stands apart and may change at any time.

    `goes_on`: somebody sits there who may stop a reply and then ask again; otherwise a Ctrl-C ends all.
    """

    def __init__(
        self,
        replies: Replies,
        screen: Screen,
        settings: ChatSettings,
        *,
        system: str = "",
        seed: int = 0,
        goes_on: bool = False,
    ) -> None:
        self.replies, self.screen, self.settings, self.system = replies, screen, settings, system
        self._goes_on = goes_on
        self.messages = list[ChatMessage]()
        self.figures = list[ReplyFigures]()
        self._seed, self._attempt = seed, 0

    @property
    def conversation(self) -> list[ChatMessage]:
        """All of it, as it is asked and saved."""
        return [*([{"role": "system", "content": self.system}] if self.system else []), *self.messages]

    def ask(self, text: str) -> None:
        """Say `text` and show the reply. Raises a `ShoalError`, and then nothing was said."""
        self._attempt = 0
        self._reply([*self.messages, {"role": "user", "content": text}])

    def retry(self) -> bool:
        """Another reply to what was said last, drawn with another seed; False where there is nothing."""
        asked = self.messages[: self._last_user() + 1]
        if not asked:
            return False
        self._attempt += 1
        self._reply(asked)
        return True

    def undo(self) -> str | None:
        """Take back what the user said last, with its reply; the text of it, None where there is none."""
        last = self._last_user()
        if last < 0:
            return None
        text = self.messages[last]["content"]
        del self.messages[last:]
        return text

    def take(self, messages: list[ChatMessage]) -> None:
        """Go on with these; one of the system at the front becomes the system prompt."""
        is_system = messages[0]["role"] == "system"
        self.system = messages[0]["content"] if is_system else ""
        self.messages = messages[1:] if is_system else messages

    def last_reasoning(self) -> str | None:
        """What the last reply thought."""
        last = self.messages[-1] if self.messages else {}
        return last.get("reasoning_content")

    def _last_user(self) -> int:
        return next((n for n in range(len(self.messages) - 1, -1, -1) if self.messages[n]["role"] == "user"), -1)

    def _reply(self, asked: list[ChatMessage]) -> None:
        before, self.messages = self.messages, asked
        live = None
        try:
            live = self.replies.reply(self.conversation, self.settings, self._seed + self._attempt)
            self._show(live)
        finally:
            # Also after an error: what was said stays said, and a question without any answer was not asked.
            message = live.said.message() if live is not None else None
            self.messages = before if message is None else [*asked, message]
        self.figures.append(live.figures)
        if message is None:
            self.screen.say("nothing was said, so the question is forgotten")

    def _show(self, live: LiveReply) -> None:
        view, stopped = self.screen.begin(), threading.Event()
        try:
            with _interrupts(live, stopped) if self._goes_on else nullcontext():
                for part in live:
                    view.show(part)
        except KeyboardInterrupt:
            if not self._goes_on:
                raise
            stopped.set()
        finally:
            view.end()
        if stopped.is_set():
            live.figures.finish_reason = "cancelled"
            self.screen.say("stopped")
        elif note := _NOTES.get(live.figures.finish_reason or ""):
            self.screen.say(note)


@contextmanager
def _interrupts(live: LiveReply, stopped: threading.Event) -> Iterator[None]:
    """A Ctrl-C stops the reply and sets `stopped`; a second one does not wait for the reply's step."""

    def on_interrupt(_number: int, _frame: FrameType | None) -> None:
        if stopped.is_set() or not live.stop():
            raise KeyboardInterrupt
        stopped.set()

    before = signal.signal(signal.SIGINT, on_interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
