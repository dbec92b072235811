"""Tool calls as a model wrote them, rewritten as it should have, while they arrive (spec, prompt.md §5 and §6).

deepseek-recipe parses what its own renderer writes; here is all that we read more kindly than it does: tags without
the space, a block or an invoke that was not opened or not closed, a parameter that does not say whether it is a string,
a value that should be JSON and is not, a name given twice. Text outside of calls passes as it is.
"""

import json
import re
from collections.abc import Callable

DSML = "｜DSML｜"
_OPENINGS = (f"<{DSML}", f"</{DSML}")
_CLOSE_VALUE = (f"</{DSML} parameter>", f"</{DSML}parameter>")
_TAG = re.compile(rf"<(/?){DSML} ?(\w*)")
_NAME = re.compile(r'name="(.*?)"(?: string="|>$)', re.DOTALL)
_BLOCKS = ("calls", "tool_calls", "function_calls")
# Longer than any honest tag; a name without an end must not be waited for for ever.
_MOST_TAG_CHARACTERS = 4096


class CallsMarkup:
    """Takes text in pieces. With `whole` a call is given out when it is closed, and of equal names the last stays.

    Otherwise string values come as they arrive, and of equal names a JSON reader takes the last. `is_over` once the
    block of calls is closed, with `single` the first call: what follows is dropped.
    """

    def __init__(self, *, inside: bool = False, whole: bool = False, single: bool = False) -> None:
        """`inside`: the prompt has opened the block already."""
        self.is_over = False
        self._held = ""
        self._whole, self._single = whole, single
        self._opens_block = not inside
        self._num_invokes = 0
        self._parameters: dict[str, str] = {}
        self._num_parameters = 0
        self._key = ""
        self._value: list[str] = []
        self._step: Callable[[], str | None] = self._between if inside else self._outside

    def push(self, text: str) -> str:
        """What is certain of the text so far; what may begin a tag is held back."""
        self._held += text
        given = []
        while (piece := self._step()) is not None:
            given.append(piece)
        return "".join(given)

    def flush(self) -> str:
        """The rest, when no more text comes. Of a tag or a value that was cut nothing is made up, and nothing shown."""
        held, self._held = self._held, ""
        if self._step == self._outside and not held.startswith(("<｜", "</｜")):
            return held
        return self._take_parameters() if self._step in (self._within, self._json_value) else ""

    def _outside(self) -> str | None:
        found = [at for at in map(self._held.find, _OPENINGS) if at >= 0]
        if not found:
            return self._give(len(self._held) - _overlap(self._held, _OPENINGS))
        if min(found):
            return self._give(min(found))
        if (tag := self._tag()) is None:
            return None
        closes, kind, header = tag
        if not closes and kind in _BLOCKS:
            self._step = self._between
        elif not closes and kind == "invoke":
            return self._open_invoke(header)
        return ""

    def _between(self) -> str | None:
        if not self._skip_to_tag() or (tag := self._tag()) is None:
            return None
        closes, kind, header = tag
        if kind == "invoke" and not closes:
            return self._open_invoke(header)
        if kind in _BLOCKS and closes:
            return self._close_block()
        return ""

    def _within(self) -> str | None:
        if not self._skip_to_tag() or (tag := self._tag()) is None:
            return None
        closes, kind, header = tag
        if kind == "parameter" and not closes:
            return self._open_value(header)
        if kind == "invoke":
            closing = self._close_invoke()
            return closing if closes or self.is_over else closing + self._open_invoke(header)
        if kind in _BLOCKS and closes:
            closing = self._close_invoke()
            return closing if self.is_over else closing + self._close_block()
        return ""

    def _string_value(self) -> str | None:
        end, length = _first(self._held, _CLOSE_VALUE)
        if end < 0:
            piece = self._give(len(self._held) - _overlap(self._held, _CLOSE_VALUE))
            if self._whole and piece is not None:
                self._value.append(piece)
                return ""
            return piece
        piece, self._held = self._held[:end], self._held[end + length :]
        self._step = self._within
        if self._whole:
            return self._add(_parameter(self._key, "".join((*self._value, piece)), is_string=True))
        return f"{piece}</{DSML} parameter>"

    def _json_value(self) -> str | None:
        end, length = _first(self._held, _CLOSE_VALUE)
        if end < 0:
            # Joined once, at the end: a long value must not be searched again from its start.
            kept = len(self._held) - _overlap(self._held, _CLOSE_VALUE)
            self._value.append(self._held[:kept])
            self._held = self._held[kept:]
            return None
        value = "".join((*self._value, self._held[:end]))
        self._held = self._held[end + length :]
        self._step = self._within
        return self._add(_parameter(self._key, value, is_string=not _is_json(value)))

    def _over(self) -> str | None:
        self._held = ""
        return None

    def _open_invoke(self, header: str) -> str:
        opening = f"<{DSML} calls>\n" if self._opens_block else ""
        self._opens_block = False
        self._num_invokes += 1
        self._num_parameters = 0
        self._step = self._within
        between = "\n" if self._num_invokes > 1 else ""
        return f'{opening}{between}<{DSML} invoke name="{_name(header)}">\n'

    def _open_value(self, header: str) -> str:
        self._key, self._value = _name(header), []
        if not header.endswith(' string="true">'):
            self._step = self._json_value
            return ""
        self._step = self._string_value
        if self._whole:
            return ""
        return self._before_parameter() + f'<{DSML} parameter name="{self._key}" string="true">'

    def _add(self, parameter: str) -> str:
        if not self._whole:
            return self._before_parameter() + parameter
        self._parameters[self._key] = parameter
        return ""

    def _before_parameter(self) -> str:
        self._num_parameters += 1
        return "\n" if self._num_parameters > 1 else ""

    def _take_parameters(self) -> str:
        parameters, self._parameters = "\n".join(self._parameters.values()), {}
        return parameters

    def _close_invoke(self) -> str:
        self._step = self._between
        closing = f"{self._take_parameters()}\n</{DSML} invoke>"
        return closing + self._close_block() if self._single else closing

    def _close_block(self) -> str:
        self._step, self.is_over = self._over, True
        return f"\n</{DSML} calls>" if self._num_invokes else ""

    def _skip_to_tag(self) -> bool:
        """Drops what is not a tag; whether one begins the text that is held."""
        found = [at for at in map(self._held.find, _OPENINGS) if at >= 0]
        start = min(found) if found else len(self._held) - _overlap(self._held, _OPENINGS)
        self._held = self._held[start:]
        return bool(found)

    def _tag(self) -> tuple[bool, str, str] | None:
        """Whether the tag that begins here closes, its kind and all of it; None while its end is not there."""
        end = _tag_end(self._held)
        if end < 0 and len(self._held) < _MOST_TAG_CHARACTERS:
            return None
        end = _MOST_TAG_CHARACTERS if end < 0 else end
        header, self._held = self._held[:end], self._held[end:]
        match = _TAG.match(header)
        assert match is not None, header
        return bool(match[1]), match[2], header

    def _give(self, count: int) -> str | None:
        piece, self._held = self._held[:count], self._held[count:]
        return piece or None


def _tag_end(text: str) -> int:
    """Behind the `>` of the tag that `text` begins with, one in a quoted name left out; -1 while there is none."""
    end = text.find(">")
    if end >= 0 and text.count('"', 0, end) % 2:
        end = text.find('">')
        return end + 2 if end >= 0 else -1
    return end + 1 if end >= 0 else -1


def _name(header: str) -> str:
    match = _NAME.search(header)
    return match[1] if match else ""


def _parameter(key: str, value: str, *, is_string: bool) -> str:
    return f'<{DSML} parameter name="{key}" string="{"true" if is_string else "false"}">{value}</{DSML} parameter>'


def _is_json(text: str) -> bool:
    try:
        json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return False
    return True


def _refuse(constant: str) -> None:
    raise ValueError(constant)


def _first(text: str, wanted: tuple[str, ...]) -> tuple[int, int]:
    """Where the first of `wanted` begins and how long it is; -1 if there is none."""
    found = [(at, len(each)) for each in wanted if (at := text.find(each)) >= 0]
    return min(found, default=(-1, 0))


def _overlap(text: str, wanted: tuple[str, ...]) -> int:
    """The longest end of `text` that one of `wanted` begins with."""
    most = min(len(text), max(map(len, wanted)) - 1)
    return next((n for n in range(most, 0, -1) if any(each.startswith(text[-n:]) for each in wanted)), 0)
