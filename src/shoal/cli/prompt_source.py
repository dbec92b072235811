"""Where a command's prompt comes from: the text itself, a file, standard input, or ids."""

import sys
from dataclasses import dataclass
from pathlib import Path

import typer

from shoal.errors import PromptError

STDIN = "-"


@dataclass(frozen=True)
class PromptSource:
    """What the user gave; exactly one is set, else making it is a usage error."""

    text: str | None = None
    file: Path | None = None
    ids: str | None = None
    stdin: bool = False

    def __post_init__(self) -> None:
        given = (self.text is not None) + (self.file is not None) + (self.ids is not None) + self.stdin
        if given != 1:
            found = "none" if given == 0 else f"{given} of them"
            raise typer.BadParameter(
                f"expected the prompt from one of `--prompt`, `--prompt-file`, `--ids` and `-`, found {found}"
            )

    def read(self) -> str | list[int]:
        """The text as it is, last newline included, or the ids. Raises `PromptError`."""
        if self.ids is not None:
            return parse_ids(self.ids)
        prompt = self._read_text()
        if not prompt:
            raise PromptError("the prompt is empty, expected at least one character")
        return prompt

    def _read_text(self) -> str:
        if self.text is not None:
            return self.text
        if self.file is None:
            return decode(sys.stdin.buffer.read(), "standard input")
        try:
            return decode(self.file.read_bytes(), f"`{self.file}`")
        except OSError as error:
            raise PromptError(f"cannot read the prompt file `{self.file}`: {error.strerror}") from None


def parse_ids(text: str) -> list[int]:
    """The ids of "1,2,3", blanks around them allowed. Raises `PromptError` naming the first that is no number."""
    ids = []
    for place, part in enumerate(text.split(",") if text.strip() else [], start=1):
        digits = part.strip()
        # int() alone would take "1_000", "+5" and other scripts' digits.
        if not (digits.removeprefix("-").isdecimal() and digits.isascii() and len(digits) < 20):
            raise PromptError(f"id {place} of the prompt is `{digits[:20]}`, expected a whole number")
        ids.append(int(digits))
    return ids


def decode(content: bytes, where: str) -> str:
    """`content` as UTF-8; `PromptError` naming the first byte that is not."""
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise PromptError(
            f"the prompt from {where} is not UTF-8: byte 0x{content[error.start]:02x} at offset {error.start}"
        ) from None
