"""Times the parts of a forward from outside: objects whose `forward` is timed take the places of the real ones."""

import time
from collections import defaultdict
from typing import Any

from shoal.model.backbone import Backbone


class Stopwatch:
    """Seconds by part since the last `reset`."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)

    def reset(self) -> None:
        """Start again from nothing."""
        self.seconds.clear()

    def add(self, part: str, seconds: float) -> None:
        """One more call of `part`."""
        self.seconds[part] += seconds


class Timed:
    """Stands for `inner`; those of its methods are timed as `part`."""

    def __init__(self, inner: Any, part: str, watch: Stopwatch, *methods: str) -> None:
        self._inner, self._part, self._watch, self._methods = inner, part, watch, methods

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if name not in self._methods:
            return found

        def timed(*arguments: Any) -> Any:
            started = time.perf_counter()
            result = found(*arguments)
            self._watch.add(self._part, time.perf_counter() - started)
            return result

        return timed


def time_layers(backbone: Backbone, watch: Stopwatch) -> None:
    """Time every layer as `layer ID`, and the Engram before it as part of the same."""
    layers: list[Any] = list(backbone.layers)
    for layer in layers:
        if layer.engram is not None:
            layer.engram = Timed(layer.engram, layer_part(layer.plan.layer_id), watch, "forward")
    timed: Any = [Timed(layer, layer_part(layer.plan.layer_id), watch, "forward") for layer in layers]
    backbone.layers = timed


def time_sublayers(backbone: Backbone, watch: Stopwatch) -> None:
    """Time `attention` (with mixes and routers), `experts` (routed and shared) and `Engram` of all layers together."""
    for layer in backbone.layers:
        parts: Any = layer
        parts.stages = Timed(layer.stages, "attention", watch, "begin", "attend")
        parts.attention = Timed(layer.attention, "attention", watch, "index", "expect")
        parts.moe = Timed(layer.moe, "experts", watch, "forward_in_workspace")
        if layer.engram is not None:
            parts.engram = Timed(layer.engram, "Engram", watch, "forward")


def layer_part(layer_id: int) -> str:
    """The name of a layer's time."""
    return f"layer {layer_id}"
