"""The rules a configuration must keep (spec §1.1 "Consistency rules"), one function a rule.

That every Engram row count is a prime sum is checked where primes are known, in `engram`.
"""

from collections.abc import Iterator

from shoal.config.json_file import describe
from shoal.config.layer_checks import LAYER_RULES, Problems, Rule, show_numbers
from shoal.config.schema import ModelConfig

_BLOCK = 32
_SHORTEST_NGRAM = 2
_IN_BLOCKS = (
    "dim", "moe_inter_dim", "head_dim", "q_lora_rank", "o_lora_rank", "index_head_dim", "engram_head_dim",
)  # fmt: skip
_TOKEN_IDS = (
    "bos_token_id", "eos_token_id", "pad_token_id", "image_token_id", "engram_pad_id",
    "dspark_noise_token_id",
)  # fmt: skip
_ALWAYS_POSITIVE = (
    "vocab_size", "dim", "moe_inter_dim", "n_layers", "n_heads", "head_dim", "rope_head_dim", "q_lora_rank",
    "o_groups", "o_lora_rank", "n_routed_experts", "n_activated_experts", "route_scale", "norm_eps",
    "window_size", "rope_theta", "compress_rope_theta", "rope_factor", "beta_fast", "beta_slow", "hc_mult",
    "hc_sinkhorn_iters", "hc_eps", "max_position_embeddings",
)  # fmt: skip
_INDEX_SIZES = ("index_n_heads", "index_head_dim", "index_topk")
_ENGRAM_SIZES = ("engram_vocab_size", "engram_n_heads", "engram_head_dim")
_DRAFT_SIZES = ("dspark_markov_rank",)
_VISION_SIZES = (
    "vision_dim", "vision_n_heads", "vision_inter_dim", "vision_patch_size", "vision_downsample_ratio",
    "vision_max_n_token", "vision_min_pixels", "vision_max_wh_ratio", "vision_rope_theta",
)  # fmt: skip
_SUPPORTED: dict[str, object] = {
    "n_shared_experts": 1,
    "score_func": "sqrtsoftplus",
    "dtype": "fp8",
    "expert_dtype": "fp4",
    "num_key_value_heads": 1,
    "rope_type": "yarn",
    "norm_topk_prob": True,
    "topk_method": "noaux_tc",
    "hidden_act": "silu",
    "storage_dtype": "bfloat16",
    "weight_block_size": (32, 32),
    "scale_fmt": "ue8m0",
}


def verify(config: ModelConfig) -> list[str]:
    """Every problem of every rule, in the order of the rules; empty when the configuration is consistent."""
    return [problem for rule in RULES for problem in rule.find(config)]


def _engram_sizes(config: ModelConfig) -> Problems:
    found, wanted = len(config.engram_num_embeddings), len(config.engram_layer_ids)
    if found != wanted:
        yield f"`engram_num_embeddings` has {found} entries, wanted {wanted} as `engram_layer_ids`"


def _compressed_vocabulary(config: ModelConfig) -> Problems:
    found = config.engram_compressed_vocab_size
    if config.has_engram and not 0 < found <= config.vocab_size:
        yield f"`engram_compressed_vocab_size` is {found}, wanted 1 to `vocab_size` {config.vocab_size}"


def _candidates_both_or_off(config: ModelConfig) -> Problems:
    blocks, size = config.candidate_topk_blocks, config.candidate_block_size
    found = f"`candidate_topk_blocks` is {blocks} and `candidate_block_size` is {size}"
    if config.has_candidates and not (blocks and size):
        yield f"{found}, wanted both above 0 with a candidate source"
    elif (blocks > 0) != (size > 0):
        yield f"{found}, wanted both above 0 or both 0"


def _draft_or_none(config: ModelConfig) -> Problems:
    if config.dspark_block_size and not config.n_mtp_layers:
        yield f"`dspark_block_size` is {config.dspark_block_size}, wanted 0 where `n_mtp_layers` is 0"
    if config.has_draft and not config.dspark_target_layer_ids:
        yield "`dspark_target_layer_ids` is empty, wanted the layers whose inputs the draft reads"


def _engram_shape(config: ModelConfig) -> Problems:
    if config.has_engram and config.engram_max_ngram_size < _SHORTEST_NGRAM:
        found = f"`engram_max_ngram_size` is {config.engram_max_ngram_size}"
        yield f"{found}, wanted at least {_SHORTEST_NGRAM} with Engram layers"


def _token_ids(config: ModelConfig) -> Problems:
    for name in _TOKEN_IDS:
        token_id = getattr(config, name)
        if token_id is not None and token_id >= config.vocab_size:
            yield f"`{name}` is {token_id}, wanted an id below `vocab_size` {config.vocab_size}"


def _positive(config: ModelConfig) -> Problems:
    for name in _positive_names(config):
        found = getattr(config, name)
        if found is not None and found <= 0:
            yield f"`{name}` is {found}, wanted more than 0"
    for layer, rows in zip(config.engram_layer_ids, config.engram_num_embeddings, strict=False):
        if rows == 0:
            yield f"`engram_num_embeddings` is 0 for layer {layer}, wanted more than 0"
    if config.context_length == 0 and config.max_position_embeddings is None:
        yield "`original_seq_len` is 0 and no `max_position_embeddings` is stated, wanted a context length"


def _positive_names(config: ModelConfig) -> Iterator[str]:
    yield from _ALWAYS_POSITIVE
    yield from _INDEX_SIZES if config.index_source_layers else ()
    yield from _ENGRAM_SIZES if config.has_engram else ()
    yield from _DRAFT_SIZES if config.has_draft else ()
    yield from _VISION_SIZES if config.has_vision else ()


def _scale_blocks(config: ModelConfig) -> Problems:
    for name in _IN_BLOCKS:
        found = getattr(config, name)
        if found % _BLOCK:
            yield f"`{name}` is {found}, wanted a multiple of {_BLOCK}, the scale block"


def _heads(config: ModelConfig) -> Problems:
    yield from _multiple(config, "n_heads", "o_groups")
    rope = config.rope_head_dim
    if rope % 2 or rope > config.head_dim:
        yield f"`rope_head_dim` is {rope}, wanted an even number up to `head_dim` {config.head_dim}"
    if config.index_source_layers and rope > config.index_head_dim:
        yield f"`rope_head_dim` is {rope}, wanted at most `index_head_dim` {config.index_head_dim}"


def _vision_heads(config: ModelConfig) -> Problems:
    if not config.has_vision:
        return
    yield from _multiple(config, "vision_dim", "vision_n_heads")
    # Rows and columns each turn half of a head's pairs.
    if config.vision_n_heads and config.vision_dim // config.vision_n_heads % 4:
        width = config.vision_dim // config.vision_n_heads
        yield f"`vision_dim` / `vision_n_heads` is {width}, wanted a multiple of 4"


def _experts(config: ModelConfig) -> Problems:
    if config.n_activated_experts > config.n_routed_experts:
        found = f"`n_activated_experts` is {config.n_activated_experts}"
        yield f"{found}, wanted at most `n_routed_experts` {config.n_routed_experts}"
    if config.has_draft and config.num_active_draft_experts > config.num_draft_experts:
        found = f"`dspark_n_activated_experts` is {config.num_active_draft_experts} in effect"
        yield f"{found}, wanted at most the {config.num_draft_experts} draft experts"


def _rope(config: ModelConfig) -> Problems:
    for name in ("rope_theta", "compress_rope_theta"):
        if 0 < getattr(config, name) <= 1:
            yield f"`{name}` is {getattr(config, name)}, wanted more than 1"
    if config.beta_slow > config.beta_fast:
        yield f"`beta_slow` is {config.beta_slow}, wanted at most `beta_fast` {config.beta_fast}"


def _supported(config: ModelConfig) -> Problems:
    for name, wanted in _SUPPORTED.items():
        found = getattr(config, name)
        if found is not None and found != wanted:
            yield f"`{name}` is {_plain(found)}, wanted {_plain(wanted)}: nothing else is supported"


def _multiple(config: ModelConfig, name: str, divisor_name: str) -> Problems:
    found, divisor = getattr(config, name), getattr(config, divisor_name)
    if divisor and found % divisor:
        yield f"`{name}` is {found}, wanted a multiple of `{divisor_name}` {divisor}"


def _plain(value: object) -> str:
    return show_numbers(value) if isinstance(value, tuple) else describe(value)


RULES = (
    *LAYER_RULES,
    Rule("engram-sizes", "one Engram size per Engram layer", _engram_sizes),
    Rule("compressed-vocabulary", "the compressed vocabulary is set", _compressed_vocabulary),
    Rule("token-ids", "token ids are inside the vocabulary", _token_ids),
    Rule("candidate-sizes", "candidate count and size are both set or both off", _candidates_both_or_off),
    Rule("engram-shape", "Engram hashes n-grams of 2 or more", _engram_shape),
    Rule("draft", "a draft has layers and targets", _draft_or_none),
    Rule("positive", "sizes in use are above 0", _positive),
    Rule("scale-blocks", "quantised widths are whole scale blocks", _scale_blocks),
    Rule("heads", "heads divide into groups and hold the rope dims", _heads),
    Rule("vision-heads", "vision heads divide their width", _vision_heads),
    Rule("experts", "no more experts are active than there are", _experts),
    Rule("rope", "rope bases and betas are in order", _rope),
    Rule("supported", "only values whose arithmetic is specified", _supported),
)
"""Every rule but that all required keys are present, which reading has already settled."""
