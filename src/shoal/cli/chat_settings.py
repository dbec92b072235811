"""How the replies of a chat are asked for."""

from dataclasses import dataclass

from shoal.errors import OptionError

EFFORTS = {"minimal": "low", "low": "low", "medium": "high", "high": "high", "xhigh": "xhigh", "max": "max"}
"""The names that may be given, and the format's own."""
OFF = "none"
CHAT_TOKENS, THINKING_TOKENS = 8192, 65536


@dataclass(frozen=True)
class ChatSettings:
    """`effort` is a name of `EFFORTS`, 1 to 100, or `none`: no thinking; None leaves it to whoever replies."""

    effort: str | int | None = None
    temperature: float = 1.0
    top_p: float = 0.95
    top_k: int = 0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    max_new_tokens: int | None = None

    @property
    def thinks(self) -> bool:
        """Where it was not left open: whether the reply begins with reasoning."""
        return self.effort not in (None, OFF)

    @property
    def most_tokens(self) -> int:
        """What a reply may have, thinking included; as the vendor's own server has it where nothing was said."""
        return self.max_new_tokens or (THINKING_TOKENS if self.thinks else CHAT_TOKENS)


def parse_effort(text: str) -> str | int:
    """A name, a number or `none`. Raises `OptionError`."""
    wanted = text.strip().lower()
    if wanted == OFF or wanted in EFFORTS:
        return wanted
    if wanted.isascii() and wanted.isdecimal() and 1 <= int(wanted[:4]) <= 100:
        return int(wanted)
    names = ", ".join(f"`{name}`" for name in EFFORTS)
    raise OptionError(f"the effort is `{text.strip()[:40]}`, expected {names}, 1 to 100, or `none` for no thinking")
