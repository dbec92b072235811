from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from shoal.config.layer_checks import LAYER_RULES, show_numbers, verify_layers
from shoal.config.layouts import load_config
from shoal.config.schema import ModelConfig

RELEASE = load_config(Path(__file__).parent.parent / "data" / "release")
RATIOS = RELEASE.compress_ratios


def with_ratio(layer: int, ratio: int) -> tuple[int, ...]:
    return (*RATIOS[:layer], ratio, *RATIOS[layer + 1 :])


BROKEN: list[tuple[str, dict[str, Any], str]] = [
    (
        "ratio-list",
        {"compress_ratios": RATIOS[:42]},
        "has 42 entries, wanted 43 (`n_layers` 40 + `n_mtp_layers` 3)",
    ),
    ("ratio-list", {"n_mtp_layers": 2}, "has 43 entries, wanted 42"),
    ("ratio-list", {"n_layers": 2**62}, "wanted 4611686018427387907"),
    ("ratios", {"compress_ratios": with_ratio(5, 4)}, "holds [4] at layers [5], wanted 0, 1 or 2"),
    ("draft-ratios", {"compress_ratios": with_ratio(41, 1)}, "ends in [0, 1, 0] for the draft layers"),
    ("layer-lists", {"kv_source_layers": (8, 2, 14, 20)}, "`kv_source_layers` is [8, 2, 14, 20]"),
    ("layer-lists", {"index_source_layers": (2, 2, 8, 14, 20)}, "`index_source_layers` is [2, 2, 8"),
    ("layer-lists", {"engram_layer_ids": (14, 1)}, "`engram_layer_ids` is [14, 1], wanted ascending"),
    ("kv-sources", {"index_source_layers": (2, 8, 20, 24)}, "`kv_source_layers` has [14]"),
    ("sources-compress", {"index_source_layers": (1, 2, 8, 14, 20)}, "source layers [1] have no ratio"),
    ("sources-compress", {"index_source_layers": (2, 8, 14, 20, 40)}, "source layers [40] have no ratio"),
    (
        "sources-compress",
        {"compress_ratios": with_ratio(41, 1), "index_source_layers": (2, 8, 14, 20, 41)},
        "source layers [41] have no ratio, wanted backbone layers",
    ),
    ("sources-compress", {"kv_source_layers": (2, 8, 14, 20, 99)}, "source layers [99] have no ratio"),
    (
        "index-keys",
        {"compress_ratios": with_ratio(24, 2)},
        "the KV source of layers [24] (ratio 2) is 20 of ratio 1, wanted one of ratio 2",
    ),
    ("index-keys", {"kv_source_layers": (8, 14, 20)}, "the KV source of layers [2] (ratio 2) is none"),
    ("candidate-source", {"candidate_source_layer": 21}, "is 21, wanted an index source"),
    (
        "candidate-source",
        {"candidate_source_layer": 14},
        "is 14, wanted the last of `kv_source_layers`, 20, or later",
    ),
    (
        "draft-targets",
        {"dspark_target_layer_ids": (36, 37, 38)},
        "is [36, 37, 38], wanted the last 3 of the 40",
    ),
    ("draft-targets", {"dspark_target_layer_ids": (39, 38, 37)}, "is [39, 38, 37]"),
    ("engram-layers", {"engram_layer_ids": (1, 40)}, "has [40], wanted layers below `n_layers` 40"),
]

BY_ID = {rule.rule_id: rule for rule in LAYER_RULES}


def problems_of(rule_id: str, config: ModelConfig) -> list[str]:
    return list(BY_ID[rule_id].find(config))


@pytest.mark.parametrize(("rule_id", "change", "said"), BROKEN)
def test_a_broken_rule_says_what_is_wrong(rule_id: str, change: dict[str, Any], said: str) -> None:
    config = replace(RELEASE, **change)
    problems = problems_of(rule_id, config)
    assert len(problems) == 1
    assert said in problems[0]
    assert problems[0] in verify_layers(config)


def test_a_compressed_layer_before_every_source_has_neither() -> None:
    problems = problems_of("layer-sources", replace(RELEASE, compress_ratios=with_ratio(1, 2)))
    assert problems == [
        "the KV source of layers [1] (ratio 2) is none, wanted one of ratio 2",
        "the index source of layers [1] (ratio 2) is none, wanted one of ratio 2",
    ]


def test_layers_that_stray_together_are_named_together() -> None:
    ratios = (0, 0, 2, *[1] * 5, *RATIOS[8:])
    problems = problems_of("layer-sources", replace(RELEASE, compress_ratios=ratios))
    assert [problem.split(" is ")[0] for problem in problems] == [
        "the KV source of layers [3, 4, 5, 6, 7] (ratio 1)",
        "the index source of layers [3, 4, 5, 6, 7] (ratio 1)",
    ]


def test_a_source_must_itself_compress_for_its_layers_to_have_one() -> None:
    assert problems_of("index-keys", replace(RELEASE, compress_ratios=with_ratio(20, 0)))


def test_a_huge_hostile_list_is_judged_at_once_and_shown_short() -> None:
    layers = tuple(range(200_000))
    config = replace(RELEASE, kv_source_layers=layers, index_source_layers=layers[::-1], engram_layer_ids=layers)
    assert all(len(problem) < 300 for problem in verify_layers(config))


def test_a_long_list_is_cut_with_its_length() -> None:
    assert show_numbers(range(3)) == "[0, 1, 2]"
    assert show_numbers(range(100)).endswith("10, 11, ... 100 in all]")
