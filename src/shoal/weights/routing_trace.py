"""Which experts each step of each layer asked for: recorded to a file, a JSON line a step, and read back."""

import json
from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path

from shoal.errors import OptionError
from shoal.weights.whole_file import write_whole


class RoutingTrace:
    """Steps in their order: a layer and its experts, each once, whatever number of tokens went there."""

    def __init__(self) -> None:
        # Layer, count, experts, one step after the other: a token of the release takes 1.3 kB.
        self._flat = array("i")

    def visit(self, layer_id: int, expert_ids: Sequence[int]) -> None:
        """One more step."""
        self._flat.extend((layer_id, len(expert_ids), *expert_ids))

    def __iter__(self) -> Iterator[tuple[int, tuple[int, ...]]]:
        place = 0
        while place < len(self._flat):
            end = place + 2 + self._flat[place + 1]
            yield self._flat[place], tuple(self._flat[place + 2 : end])
            place = end

    def save(self, file: Path) -> None:
        """Write it, whole or not at all. OptionError where it cannot be written."""
        lines = (json.dumps({"layer": layer_id, "experts": expert_ids}) + "\n" for layer_id, expert_ids in self)
        write_whole(file, lines)

    @classmethod
    def load(cls, file: Path) -> "RoutingTrace":
        """OptionError naming the line that is no step."""
        trace = cls()
        try:
            lines = file.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as problem:
            raise OptionError(f"cannot read the routing trace `{file}`: {problem}") from None
        for number, line in enumerate(lines, 1):
            trace.visit(*_step(line, f"line {number} of `{file}`"))
        return trace


def _step(line: str, where: str) -> tuple[int, list[int]]:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        found = None
    if isinstance(found, dict) and _is_id(found.get("layer")):
        experts = found.get("experts")
        if isinstance(experts, list) and all(map(_is_id, experts)) and len(set(experts)) == len(experts):
            return found["layer"], experts
    raise OptionError(f'{where} is no step, expected for example {{"layer": 3, "experts": [1, 8]}}')


def _is_id(value: object) -> bool:
    return type(value) is int and 0 <= value < 1 << 31
