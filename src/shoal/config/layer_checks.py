"""The rules on which layer does what; a configuration that keeps them can be planned (spec §1.1, §1.2)."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from shoal.config.schema import ModelConfig

Problems = Iterator[str]

_LONGEST_LIST = 12
"""Numbers shown in a message; a hostile file has hundreds of thousands."""


@dataclass(frozen=True)
class Rule:
    """A stable name, the claim in one line, and what finds the problems: one sentence each."""

    rule_id: str
    claim: str
    find: Callable[[ModelConfig], Problems]


def verify_layers(config: ModelConfig) -> list[str]:
    """Every problem of the layer rules; without any, `plan_layers` succeeds."""
    return [problem for rule in LAYER_RULES for problem in rule.find(config)]


def show_numbers(values: Iterable[int]) -> str:
    """The numbers as a list, the first few of a long one."""
    shown = list(values)
    if len(shown) <= _LONGEST_LIST:
        return str(shown)
    return f"{str(shown[:_LONGEST_LIST])[:-1]}, ... {len(shown)} in all]"


def _ratio_list_length(config: ModelConfig) -> Problems:
    found, wanted = len(config.compress_ratios), config.num_all_layers
    if found != wanted:
        sizes = f"`n_layers` {config.n_layers} + `n_mtp_layers` {config.n_mtp_layers}"
        yield f"`compress_ratios` has {found} entries, wanted {wanted} ({sizes})"


def _known_ratios(config: ModelConfig) -> Problems:
    unknown = [layer for layer, ratio in enumerate(config.compress_ratios) if ratio not in (0, 1, 2)]
    if unknown:
        ratios = show_numbers(config.compress_ratios[layer] for layer in unknown)
        yield f"`compress_ratios` holds {ratios} at layers {show_numbers(unknown)}, wanted 0, 1 or 2"


def _draft_layers_do_not_compress(config: ModelConfig) -> Problems:
    drafts = config.compress_ratios[config.n_layers :]
    if any(drafts):
        yield f"`compress_ratios` ends in {show_numbers(drafts)} for the draft layers, wanted 0 for each"


def _lists_of_layers(config: ModelConfig) -> Problems:
    for name in ("kv_source_layers", "index_source_layers", "engram_layer_ids"):
        layers = getattr(config, name)
        if list(layers) != sorted(set(layers)):
            yield f"`{name}` is {show_numbers(layers)}, wanted ascending without repeats"


def _kv_sources_are_index_sources(config: ModelConfig) -> Problems:
    alone = sorted(set(config.kv_source_layers) - set(config.index_source_layers))
    if alone:
        yield f"`kv_source_layers` has {show_numbers(alone)}, wanted in `index_source_layers` as well"


def _sources_compress(config: ModelConfig) -> Problems:
    sources = sorted({*config.kv_source_layers, *config.index_source_layers})
    idle = [layer for layer in sources if not _ratio(config, layer)]
    if idle:
        yield f"source layers {show_numbers(idle)} have no ratio, wanted backbone layers with a ratio above 0"


def _index_sources_have_keys(config: ModelConfig) -> Problems:
    yield from _strays(config, config.index_source_layers, "KV", config.kv_source_of)


def _layers_have_sources(config: ModelConfig) -> Problems:
    index_sources = set(config.index_source_layers)
    others = [layer for layer in range(len(config.compress_ratios)) if layer not in index_sources]
    yield from _strays(config, others, "KV", config.kv_source_of)
    yield from _strays(config, others, "index", config.index_source_of)


def _strays(config: ModelConfig, layers: Iterable[int], kind: str, source_of: Callable[[int], int | None]) -> Problems:
    """The compressed layers among `layers` without a source of their own ratio, by ratio and source."""
    groups: dict[tuple[int, int | None], list[int]] = {}
    for layer in layers:
        ratio, source = _ratio(config, layer), source_of(layer)
        if ratio and (source is None or _ratio(config, source) != ratio):
            groups.setdefault((ratio, source), []).append(layer)
    for (ratio, source), members in groups.items():
        found = "none" if source is None else f"{source} of ratio {_ratio(config, source)}"
        layer_names = f"layers {show_numbers(members)} (ratio {ratio})"
        yield f"the {kind} source of {layer_names} is {found}, wanted one of ratio {ratio}"


def _candidate_source(config: ModelConfig) -> Problems:
    source = config.candidate_source_layer
    if not config.has_candidates:
        return
    if source not in config.index_source_layers:
        yield f"`candidate_source_layer` is {source}, wanted an index source or a negative number"
    last = max(config.kv_source_layers, default=source)
    if source < last:
        yield f"`candidate_source_layer` is {source}, wanted the last of `kv_source_layers`, {last}, or later"


def _draft_targets(config: ModelConfig) -> Problems:
    targets, last = config.dspark_target_layer_ids, config.n_layers
    if list(targets) != list(range(last - len(targets), last)):
        wanted = f"the last {len(targets)} of the {last} backbone layers, ascending"
        yield f"`dspark_target_layer_ids` is {show_numbers(targets)}, wanted {wanted}"


def _engram_layers_in_backbone(config: ModelConfig) -> Problems:
    outside = [layer for layer in config.engram_layer_ids if layer >= config.n_layers]
    if outside:
        found = f"`engram_layer_ids` has {show_numbers(outside)}"
        yield f"{found}, wanted layers below `n_layers` {config.n_layers}"


def _ratio(config: ModelConfig, layer: int) -> int:
    """A backbone layer's ratio; 0 for a layer that is not there."""
    return config.compress_ratios[layer] if layer < min(config.n_layers, len(config.compress_ratios)) else 0


LAYER_RULES = (
    Rule("ratio-list", "one compression ratio per layer, draft layers included", _ratio_list_length),
    Rule("ratios", "every compression ratio is 0, 1 or 2", _known_ratios),
    Rule("draft-ratios", "draft layers do not compress", _draft_layers_do_not_compress),
    Rule("layer-lists", "lists of layers ascend without repeats", _lists_of_layers),
    Rule("kv-sources", "every KV source is an index source", _kv_sources_are_index_sources),
    Rule("sources-compress", "every source reads compressed positions", _sources_compress),
    Rule("index-keys", "every index source follows a KV source of its ratio", _index_sources_have_keys),
    Rule("layer-sources", "every other layer follows sources of its ratio", _layers_have_sources),
    Rule("candidate-source", "candidates come from an index source after all KV sources", _candidate_source),
    Rule("draft-targets", "draft target layers are the last backbone layers", _draft_targets),
    Rule("engram-layers", "Engram layers are inside the backbone", _engram_layers_in_backbone),
)
