"""What the user says, a turn at a time: from a terminal with line editing, or each line of a pipe.

A line that ends in a backslash goes on with the next; a line that begins with three quotes opens a block, which ends
with the next three. Pasted lines are one turn.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from shoal.cli.prompt_source import decode
from shoal.errors import OptionError

QUOTES = '"""'
_MOST_HISTORY = 1000


class Lines:
    """Lines without their ends; `EOFError` behind the last, `PromptError` where not UTF-8."""

    def read(self, prompt: str) -> str:
        """The next line; `prompt` is shown where somebody sits at a terminal."""
        line = sys.stdin.buffer.readline()
        if not line:
            raise EOFError
        return decode(line, "standard input").removesuffix("\n").removesuffix("\r")

    def close(self) -> None:
        """Nothing is kept."""


class EditedLines(Lines):
    """A terminal's, by readline; `history` is read now and written at the end."""

    def __init__(self, words: Sequence[str], history: Path | None, *, bold: bool) -> None:
        import readline

        self._history, self._bold = history, bold
        # A paste of several lines is then one input.
        readline.parse_and_bind("set enable-bracketed-paste on")
        readline.parse_and_bind("tab: complete")
        readline.set_completer_delims("")
        readline.set_completer(_Completer(words))
        if history is not None:
            _read_history(history)

    def read(self, prompt: str) -> str:
        """The line as it was edited."""
        # readline must not count what does not move the cursor.
        shown = f"\001\033[1m\002{prompt}\001\033[0m\002" if self._bold else prompt
        try:
            return input(shown)
        except UnicodeDecodeError as error:
            decode(error.object, "the terminal")
            raise AssertionError from error

    def close(self) -> None:
        """Write the history, for its owner only. Raises `OptionError`."""
        import readline

        if self._history is None:
            return
        readline.set_history_length(_MOST_HISTORY)
        try:
            self._history.touch(mode=0o600)
            readline.write_history_file(self._history)
        except OSError as error:
            raise OptionError(f"cannot write the history `{self._history}`: {error.strerror}") from None


@dataclass(frozen=True)
class Turn:
    """What was said; a block is never a command."""

    text: str
    is_block: bool = False


def read_turn(lines: Lines) -> Turn:
    """The next turn, which may be blank. The end of the input ends it; raises `EOFError` where it had not begun."""
    line = lines.read("> ")
    is_block = line.lstrip().startswith(QUOTES)
    if is_block:
        line = line.lstrip().removeprefix(QUOTES)
    found = list[str]()
    while True:
        if is_block and line.rstrip().endswith(QUOTES):
            found.append(line.rstrip().removesuffix(QUOTES))
            break
        goes_on = is_block or line.endswith("\\")
        found.append(line if is_block else line.removesuffix("\\"))
        if not goes_on:
            break
        try:
            line = lines.read("… ")
        except EOFError:
            break
    text = "\n".join(found)
    return Turn(text.strip("\n") if is_block else text, is_block)


class _Completer:
    """Commands that begin with what is typed."""

    def __init__(self, words: Sequence[str]) -> None:
        self._words = words

    def __call__(self, text: str, state: int) -> str | None:
        found = [word for word in self._words if text.startswith("/") and word.startswith(text)]
        return found[state] if state < len(found) else None


def _read_history(file: Path) -> None:
    import readline

    try:
        readline.read_history_file(file)
    except FileNotFoundError:
        return
    except OSError as error:
        raise OptionError(f"cannot read the history `{file}`: {error.strerror}") from None
