"""How often each expert was visited, over all runs with one profile file: whom to have in memory from the start."""

import json
from collections import Counter
from collections.abc import Collection, Sequence
from pathlib import Path

from shoal.errors import OptionError
from shoal.weights.expert_key import Key
from shoal.weights.whole_file import write_whole

KIND = "shoal expert profile 1"


class ExpertProfile:
    """Steps of each layer, and how many of them asked for each expert."""

    def __init__(self) -> None:
        self._steps = Counter[int]()
        self._visits = Counter[Key]()

    def visit(self, layer_id: int, expert_ids: Sequence[int]) -> None:
        """One more step."""
        self._steps[layer_id] += 1
        self._visits.update((layer_id, expert_id) for expert_id in expert_ids)

    def hottest(self) -> list[Key]:
        """Every expert that was visited, by visits a step, most first."""
        return sorted(self._visits, key=lambda key: (-self._rate(key), key))

    def decayed_counts(self, half_life: int) -> dict[Key, float]:
        """What visits at these rates would have added up to, each counting half after `half_life` steps."""
        # The sum of 2^(-i / half_life), nearly.
        return {key: self._rate(key) * half_life * 1.4427 for key in self._visits}

    def save(self, file: Path) -> None:
        """Write it, whole or not at all. OptionError where it cannot be written."""
        layers = {
            str(layer_id): {
                "steps": steps,
                "visits": {str(expert): count for (layer, expert), count in self._visits.items() if layer == layer_id},
            }
            for layer_id, steps in sorted(self._steps.items())
        }
        write_whole(file, [json.dumps({"kind": KIND, "layers": layers}), "\n"])

    @classmethod
    def load(cls, file: Path, keys: Collection[Key]) -> "ExpertProfile":
        """The profile in `file`, an empty one where there is none. OptionError unless it is one of experts `keys`."""
        try:
            content = json.loads(file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return cls()
        except (OSError, ValueError, RecursionError) as problem:
            raise OptionError(f"cannot read the expert profile `{file}`: {problem}", hint=_REMOVE) from None
        if not isinstance(content, dict) or content.get("kind") != KIND:
            raise OptionError(f"`{file}` is no expert profile, expected a JSON object of kind `{KIND}`", hint=_REMOVE)
        profile = cls()
        try:
            profile._take(content["layers"])
        except (KeyError, TypeError, ValueError, AttributeError):
            raise OptionError(f"the expert profile `{file}` is damaged", hint=_REMOVE) from None
        if strangers := sorted(profile._visits.keys() - set(keys)):
            layer_id, expert_id = strangers[0]
            found = f"the expert profile `{file}` has expert {expert_id} of layer {layer_id}"
            raise OptionError(f"{found}, which the checkpoint lacks", hint="is it the profile of another model?")
        return profile

    def _take(self, layers: dict[str, dict[str, object]]) -> None:
        for layer_id, layer in layers.items():
            steps, visits = layer["steps"], layer["visits"]
            if type(steps) is not int or not isinstance(visits, dict):
                raise TypeError
            self._steps[int(layer_id)] = steps
            for expert_id, count in visits.items():
                if type(count) is not int or not 0 < count <= steps:
                    raise ValueError
                self._visits[int(layer_id), int(expert_id)] = count

    def _rate(self, key: Key) -> float:
        return self._visits[key] / self._steps[key[0]]


_REMOVE = "remove it, or give another file: the next run writes a new one"
