"""What a chat shows: answers on stdout, everything else on stderr, understandable without colour.

A terminal is never given a control character that a model or a server wrote.
"""

import io
import os
import sys
import time
from typing import Literal, TextIO

from shoal.cli.chat_reply import Part, PromptProgress, ReplyFigures
from shoal.text.reply_stream import ReplyPiece

Thinking = Literal["show", "fold", "off"]

_PICTURES = {code: chr(0x2400 + code) for code in range(32) if chr(code) not in "\n\t"} | {0x7F: "\u2421"}
_PICTURES |= dict.fromkeys(range(0x80, 0xA0), "\ufffd")
_FIRST_SECONDS, _NEXT_SECONDS, _LIVE_SECONDS = 2.0, 5.0, 0.1


class Screen:
    """Two streams. `thinking`: shown dimmed, folded to one line, or not told of."""

    def __init__(self, thinking: Thinking | None = None, *, quiet: bool = False) -> None:
        if isinstance(sys.stdout, io.TextIOWrapper):
            # A terminal that cannot show a character shows another one, rather than ending the answer.
            sys.stdout.reconfigure(errors="replace")
        self.is_live = is_live(sys.stderr)
        self.thinking: Thinking = thinking or ("show" if self.is_live else "off")
        self._dims = self.is_live and "NO_COLOR" not in os.environ
        self._quiet = quiet

    def say(self, text: str) -> None:
        """A line for the user that is not the answer."""
        if not self._quiet:
            self.insist(self._dim(text))

    def insist(self, text: str) -> None:
        """The same, quiet or not."""
        print(text, file=sys.stderr, flush=True)

    def reasoning(self, text: str) -> None:
        """Thoughts that were folded, whole."""
        self.insist(self._dim(printable(text, sys.stderr)))

    def begin(self) -> "ReplyView":
        """A view of the next reply."""
        return ReplyView(self, quiet=self._quiet)

    def _dim(self, text: str) -> str:
        return f"\033[2m{text}\033[0m" if self._dims else text


class ReplyView:
    """One reply as it comes."""

    def __init__(self, screen: Screen, *, quiet: bool) -> None:
        self._screen, self._quiet = screen, quiet
        self._started = time.monotonic()
        self._told = self._started + _FIRST_SECONDS - _NEXT_SECONDS
        self._live = ""
        self._thoughts = 0
        self._state: Literal["waiting", "thinking", "answering"] = "waiting"
        self._ends_line = True

    def show(self, part: Part) -> None:
        """One more part."""
        if isinstance(part, PromptProgress):
            cached = f", {part.cached:,} of them known" if part.cached else ""
            self._wait(f"reading the prompt: {part.done:,} of {part.total:,} tokens{cached}")
        elif part.kind == "reasoning":
            self._think(part)
        else:
            self._answer(part.text)

    def end(self) -> None:
        """Whatever was shown ends its line; also after an error or a Ctrl-C."""
        self._clear()
        self._close_thoughts()
        if self._state == "answering" and not self._ends_line:
            _write(sys.stdout, "\n")

    def _think(self, piece: ReplyPiece) -> None:
        self._state = "thinking"
        self._thoughts += 1
        if self._screen.thinking == "show":
            self._clear()
            _write(sys.stderr, self._screen._dim(printable(piece.text, sys.stderr)))
        elif self._screen.thinking == "fold":
            self._wait(f"thinking: {self._thoughts:,} tokens")

    def _answer(self, text: str) -> None:
        self._clear()
        self._close_thoughts()
        self._state = "answering"
        _write(sys.stdout, printable(text, sys.stdout))
        self._ends_line = text.endswith("\n")

    def _close_thoughts(self) -> None:
        if self._state != "thinking":
            return
        self._state = "waiting"
        if self._screen.thinking == "show":
            _write(sys.stderr, "\n\n")
        elif self._screen.thinking == "fold":
            seconds = time.monotonic() - self._started
            self._screen.say(f"thought for {seconds:.0f} s: {self._thoughts:,} tokens (`/thinking show` shows them)")

    def _wait(self, text: str) -> None:
        """On a terminal one line that changes; elsewhere a line after two seconds, then every five."""
        now = time.monotonic()
        if self._quiet or now - self._told < (_LIVE_SECONDS if self._live else _NEXT_SECONDS):
            return
        if not self._screen.is_live:
            self._screen.say(f"{text}, {now - self._started:.0f} s so far")
        else:
            self._live = text
            _write(sys.stderr, f"\r\033[K{self._screen._dim(text)}")
        self._told = now

    def _clear(self) -> None:
        if self._live:
            self._live = ""
            _write(sys.stderr, "\r\033[K")


def summary(figures: ReplyFigures) -> str:
    """A reply's counts and rates, of what is known."""
    parts = []
    if figures.prompt_tokens is not None:
        cached = f", {figures.cached_tokens:,} of them from the cache" if figures.cached_tokens else ""
        parts.append(f"prompt: {figures.prompt_tokens:,} tokens{cached}")
    if figures.reply_tokens is not None:
        parts.append(f"reply: {figures.reply_tokens:,} tokens")
    if (rate := figures.tokens_per_second) is not None:
        parts.append(f"{rate:.1f} tokens/s")
    if figures.first_seconds is not None:
        parts.append(f"first after {figures.first_seconds:.2f} s")
    if figures.finish_reason is not None:
        parts.append(f"finish: {figures.finish_reason}")
    return "; ".join(parts)


def is_live(stream: TextIO) -> bool:
    """Whether somebody watches who can see a line change."""
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def printable(text: str, stream: TextIO) -> str:
    """`text` as it is for a file; for a terminal pictures in place of control characters."""
    return text.translate(_PICTURES) if stream.isatty() else text


def _write(stream: TextIO, text: str) -> None:
    stream.write(text)
    stream.flush()
