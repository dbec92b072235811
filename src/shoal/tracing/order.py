"""In which order a forward computes what a trace holds: the first name that differs is where to look."""

import re
from typing import NamedTuple

# Of one layer, as spec §4.1 and §4.2 compute them; what a layer puts into the cache stands where it is made.
LAYER_ORDER = (
    "stream_in",
    "engram.hash_ids",
    "engram.stream_in",
    "engram.stream_out",
    "attn_in",
    "window_kv",
    "kv_state",
    "score_state",
    "compress_kv",
    "index_k",
    "index_score",
    "candidates",
    "topk",
    "attn_out",
    "ffn_in",
    "router.indices",
    "router.weights",
    "router.margin",
    "ffn_out",
    "stream_out",
    "pre_mix_out",
)
AFTER_LAYERS = ("main_hidden", "final.normed", "logits")
_BEFORE, _LAYER, _AFTER, _UNKNOWN = range(4)
_NAME = re.compile(r"(?:s(?P<step>\d{1,9})\.)?(?P<cache>cache\.)?(?:L(?P<layer>\d{1,6})\.)?(?P<part>.*)", re.DOTALL)


class ParsedName(NamedTuple):
    """`s401.L2.topk` taken apart: the decode step's position and the layer, None where it has none, and the rest."""

    step: int | None
    layer: int | None
    part: str
    is_cache: bool

    @property
    def whole_run(self) -> str:
        """The name of the same thing in a trace of the whole run."""
        cache = "cache." if self.is_cache else ""
        return f"{cache}{self.part}" if self.layer is None else f"{cache}L{self.layer}.{self.part}"


def parse_name(name: str) -> ParsedName:
    """Any text at all parses; names nobody knows end up whole in `part`."""
    found = _NAME.fullmatch(name)
    assert found is not None, name
    step, layer = found["step"], found["layer"]
    return ParsedName(
        None if step is None else int(step), None if layer is None else int(layer), found["part"], bool(found["cache"])
    )


def execution_order(name: str) -> tuple[int, int, int, int, str]:
    """A sort key: decode steps by position, within one the order of computing, names nobody knows at the end."""
    parsed = parse_name(name)
    step = -1 if parsed.step is None else parsed.step
    if name == "input_ids":
        return (step, _BEFORE, 0, 0, name)
    if parsed.layer is not None and parsed.part in LAYER_ORDER:
        return (step, _LAYER, parsed.layer, LAYER_ORDER.index(parsed.part), name)
    if parsed.part in AFTER_LAYERS:
        return (step, _AFTER, 0, AFTER_LAYERS.index(parsed.part), name)
    return (step, _UNKNOWN, 0, 0, name)
