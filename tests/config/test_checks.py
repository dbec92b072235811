from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from miniature import MINI
from shoal.config.checks import RULES
from shoal.config.layouts import load_config
from shoal.config.schema import REQUIRED_FIELDS, ModelConfig

TESTS = Path(__file__).parent.parent
RELEASE = load_config(TESTS / "data" / "release")
MINIATURE = load_config(MINI)
FLAT = load_config(TESTS / "data" / "release" / "inference")

BROKEN: list[tuple[str, dict[str, Any], str]] = [
    ("engram-sizes", {"engram_num_embeddings": (384006168,)}, "has 1 entries, wanted 2"),
    ("compressed-vocabulary", {"engram_compressed_vocab_size": 0}, "is 0, wanted 1 to"),
    ("compressed-vocabulary", {"engram_compressed_vocab_size": 129281}, "is 129281, wanted 1 to"),
    ("token-ids", {"image_token_id": 129280}, "`image_token_id` is 129280"),
    ("token-ids", {"dspark_noise_token_id": 129280}, "`dspark_noise_token_id`"),
    ("token-ids", {"engram_pad_id": 129280}, "`engram_pad_id`"),
    ("token-ids", {"bos_token_id": 129280}, "`bos_token_id`"),
    ("token-ids", {"eos_token_id": 129280}, "`eos_token_id`"),
    ("token-ids", {"pad_token_id": 129280}, "`pad_token_id`"),
    ("candidate-sizes", {"candidate_topk_blocks": 0}, "wanted both above 0 with a candidate source"),
    ("candidate-sizes", {"candidate_block_size": 0}, "wanted both above 0 with a candidate source"),
    (
        "candidate-sizes",
        {"candidate_source_layer": -1, "candidate_block_size": 0},
        "wanted both above 0 or both 0",
    ),
    ("engram-shape", {"engram_max_ngram_size": 1}, "`engram_max_ngram_size` is 1, wanted at least 2"),
    ("draft", {"dspark_target_layer_ids": ()}, "`dspark_target_layer_ids` is empty"),
    ("draft", {"n_mtp_layers": 0, "compress_ratios": RELEASE.compress_ratios[:40]}, "wanted 0 where"),
    ("positive", {"engram_num_embeddings": (384006168, 0)}, "is 0 for layer 14"),
    ("positive", {"max_position_embeddings": None, "original_seq_len": 0}, "wanted a context length"),
    ("positive", {"max_position_embeddings": 0}, "`max_position_embeddings` is 0"),
    ("positive", {"norm_eps": 0.0}, "`norm_eps` is 0.0, wanted more than 0"),
    ("positive", {"index_topk": 0}, "`index_topk` is 0"),
    ("positive", {"engram_n_heads": 0}, "`engram_n_heads` is 0"),
    ("positive", {"dspark_markov_rank": 0}, "`dspark_markov_rank` is 0"),
    ("positive", {"vision_patch_size": 0}, "`vision_patch_size` is 0"),
    ("positive", {"vision_max_wh_ratio": 0}, "`vision_max_wh_ratio` is 0"),
    ("positive", {"vision_n_heads": 0}, "`vision_n_heads` is 0"),
    ("positive", {"o_groups": 0}, "`o_groups` is 0"),
    ("scale-blocks", {"dim": 5136}, "`dim` is 5136, wanted a multiple of 32"),
    ("scale-blocks", {"head_dim": 528}, "`head_dim` is 528"),
    ("scale-blocks", {"moe_inter_dim": 2305}, "`moe_inter_dim` is 2305"),
    ("scale-blocks", {"q_lora_rank": 1281}, "`q_lora_rank` is 1281"),
    ("scale-blocks", {"o_lora_rank": 16}, "`o_lora_rank` is 16"),
    ("scale-blocks", {"index_head_dim": 80}, "`index_head_dim` is 80"),
    ("scale-blocks", {"engram_head_dim": 240}, "`engram_head_dim` is 240"),
    ("heads", {"n_heads": 60}, "`n_heads` is 60, wanted a multiple of `o_groups` 8"),
    ("heads", {"rope_head_dim": 63}, "`rope_head_dim` is 63, wanted an even number"),
    ("heads", {"head_dim": 32}, "wanted an even number up to `head_dim` 32"),
    ("heads", {"index_head_dim": 32}, "wanted at most `index_head_dim` 32"),
    ("vision-heads", {"vision_n_heads": 15}, "wanted a multiple of `vision_n_heads` 15"),
    ("vision-heads", {"vision_dim": 96}, "is 6, wanted a multiple of 4"),
    ("experts", {"n_activated_experts": 385}, "wanted at most `n_routed_experts` 384"),
    ("experts", {"dspark_n_activated_experts": 129}, "wanted at most the 128 draft experts"),
    ("rope", {"rope_theta": 1}, "`rope_theta` is 1, wanted more than 1"),
    ("rope", {"compress_rope_theta": 0.5}, "`compress_rope_theta` is 0.5"),
    ("rope", {"beta_slow": 33}, "`beta_slow` is 33, wanted at most `beta_fast` 32"),
    ("supported", {"n_shared_experts": 2}, "`n_shared_experts` is 2, wanted 1"),
    ("supported", {"score_func": "softmax"}, '`score_func` is "softmax", wanted "sqrtsoftplus"'),
    ("supported", {"dtype": "bf16"}, '`dtype` is "bf16", wanted "fp8"'),
    ("supported", {"expert_dtype": "fp8"}, '`expert_dtype` is "fp8", wanted "fp4"'),
    ("supported", {"num_key_value_heads": 64}, "`num_key_value_heads` is 64, wanted 1"),
    ("supported", {"rope_type": "linear"}, '`rope_type` is "linear", wanted "yarn"'),
    ("supported", {"norm_topk_prob": False}, "`norm_topk_prob` is false, wanted true"),
    ("supported", {"topk_method": "greedy"}, '`topk_method` is "greedy"'),
    ("supported", {"hidden_act": "gelu"}, '`hidden_act` is "gelu", wanted "silu"'),
    ("supported", {"storage_dtype": "float16"}, '`storage_dtype` is "float16"'),
    ("supported", {"weight_block_size": (128, 128)}, "is [128, 128], wanted [32, 32]"),
    ("supported", {"scale_fmt": "float"}, '`scale_fmt` is "float", wanted "ue8m0"'),
]

BY_ID = {rule.rule_id: rule for rule in RULES}


@pytest.mark.parametrize("config", [RELEASE, MINIATURE, FLAT], ids=["release", "miniature", "flat"])
def test_the_known_configs_are_consistent(config: ModelConfig) -> None:
    assert config.verify() == []


def test_every_rule_has_its_own_id() -> None:
    assert len(BY_ID) == len(RULES)


@pytest.mark.parametrize(("rule_id", "change", "said"), BROKEN)
def test_a_broken_rule_says_what_is_wrong(rule_id: str, change: dict[str, Any], said: str) -> None:
    config = replace(RELEASE, **change)
    problems = list(BY_ID[rule_id].find(config))
    assert len(problems) == 1
    assert said in problems[0]
    assert problems[0] in config.verify()


@pytest.mark.parametrize("name", ["vocab_size", "dim", "n_layers", "head_dim", "window_size", "hc_mult", "hc_eps"])
def test_a_size_of_zero_is_named(name: str) -> None:
    change: dict[str, Any] = {name: 0}
    assert f"`{name}` is 0, wanted more than 0" in replace(RELEASE, **change).verify()


@pytest.mark.parametrize(
    "change",
    [
        {"candidate_source_layer": -1},
        {"candidate_source_layer": -1, "candidate_topk_blocks": 0, "candidate_block_size": 0},
        {"swiglu_limit": 0},
        {"original_seq_len": 0},
        {"vision_n_layers": 0, "vision_dim": 0, "vision_n_heads": 0},
        {"dspark_block_size": 0, "dspark_target_layer_ids": ()},
        {"dspark_n_routed_experts": 0, "dspark_n_activated_experts": 0},
        {
            "engram_layer_ids": (), "engram_num_embeddings": (), "engram_max_ngram_size": 1,
            "engram_n_heads": 0, "engram_head_dim": 0, "engram_vocab_size": 0,
            "engram_compressed_vocab_size": 0,
        },
        {"vision_max_wh_ratio": 8.5},
        {
            "kv_source_layers": (), "index_source_layers": (), "candidate_source_layer": -1,
            "index_n_heads": 0, "index_head_dim": 0, "index_topk": 0, "compress_ratios": (0,) * 43,
        },
    ],
)  # fmt: skip
def test_a_feature_that_is_off_is_consistent(change: dict[str, Any]) -> None:
    assert replace(RELEASE, **change).verify() == []


ODD_VALUES: dict[type, st.SearchStrategy[Any]] = {
    int: st.integers(0, 2**63 - 1) | st.integers(0, 64),
    float: st.floats(0, 2.0**62),
    str: st.text(max_size=5),
    tuple: st.lists(st.integers(0, 2**63 - 1) | st.integers(0, 64), max_size=50).map(tuple),
    type(None): st.none(),
}


@settings(max_examples=200, deadline=None)
@given(st.data(), st.sets(st.sampled_from(REQUIRED_FIELDS), min_size=1, max_size=6))
def test_any_readable_values_are_judged_without_an_exception(data: st.DataObject, names: set[str]) -> None:
    change = {name: data.draw(ODD_VALUES[type(getattr(RELEASE, name))]) for name in sorted(names)}
    problems = replace(RELEASE, **change).verify()
    assert all(problem.isprintable() and "wanted" in problem for problem in problems)
