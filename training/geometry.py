"""The shape of the trained miniature: every mechanism of the release, small enough to bind within 200 tokens."""

from pathlib import Path
from typing import Any

from shoal.config.schema import ModelConfig
from shoal.engram.token_map import TokenMap, build_ids
from shoal.synth.presets import with_engram_start
from shoal.text.tokenizer import BOS, EOS, IMAGE, Tokenizer

CONTEXT = 2048

_SHAPE: dict[str, Any] = {
    "dim": 128,
    "moe_inter_dim": 64,
    "n_layers": 6,
    "n_mtp_layers": 3,
    "dspark_block_size": 5,
    "dspark_target_layer_ids": (3, 4, 5),
    "dspark_markov_rank": 32,
    "dspark_n_routed_experts": 4,
    "dspark_n_activated_experts": 2,
    "n_heads": 4,
    "n_routed_experts": 16,
    "n_shared_experts": 1,
    "n_activated_experts": 2,
    "score_func": "sqrtsoftplus",
    "route_scale": 1.5,
    "swiglu_limit": 10.0,
    "q_lora_rank": 64,
    "head_dim": 64,
    "rope_head_dim": 32,
    "norm_eps": 1e-20,
    "o_groups": 2,
    "o_lora_rank": 64,
    "window_size": 32,
    "kv_source_layers": (1, 3),
    "index_source_layers": (1, 3, 4),
    "original_seq_len": 128,
    "rope_theta": 10000,
    "rope_factor": 16,
    "beta_fast": 32,
    "beta_slow": 1,
    "index_n_heads": 4,
    "index_head_dim": 32,
    "index_topk": 24,
    "candidate_source_layer": 3,
    "candidate_topk_blocks": 8,
    "candidate_block_size": 8,
    "hc_mult": 4,
    "hc_sinkhorn_iters": 20,
    "hc_eps": 1e-6,
    "engram_layer_ids": (1, 3),
    "engram_vocab_size": 4000,
    "engram_num_embeddings": (1, 1),
    "engram_max_ngram_size": 4,
    "engram_pad_id": 2,
    "dtype": "fp8",
    "expert_dtype": "fp4",
    "compress_rope_theta": 160000,
    "compress_ratios": (0, 2, 2, 1, 1, 1, 0, 0, 0),
    "vision_n_layers": 2,
    "vision_dim": 64,
    "vision_n_heads": 4,
    "vision_inter_dim": 96,
    "vision_patch_size": 14,
    "vision_downsample_ratio": 3,
    "vision_max_n_token": 64,
    "vision_min_pixels": 7056,
    "vision_max_wh_ratio": None,
    "engram_n_heads": 2,
    "engram_head_dim": 32,
    "vision_rope_theta": 10000,
    "num_key_value_heads": 1,
    "rope_type": "yarn",
    "max_position_embeddings": CONTEXT,
    "norm_topk_prob": True,
    "topk_method": "noaux_tc",
    "hidden_act": "silu",
    "storage_dtype": "bfloat16",
    "pad_token_id": 2,
    "weight_block_size": (32, 32),
    "scale_fmt": "ue8m0",
}


def geometry(tokenizer_file: Path) -> ModelConfig:
    """The configuration that goes with a tokenizer: SWA, Full (ratio 2), Reuse, Full (ratio 1), Reindex, Reuse."""
    tokenizer = Tokenizer.load(tokenizer_file)
    ids = build_ids(tokenizer_file.read_bytes(), tokenizer_file, tokenizer.vocab_size)
    config = ModelConfig(
        **_SHAPE,
        vocab_size=tokenizer.vocab_size,
        dspark_noise_token_id=tokenizer.marker_id("<｜System｜>"),
        engram_compressed_vocab_size=int(ids.max()) + 1,
        image_token_id=tokenizer.marker_id(IMAGE),
        bos_token_id=tokenizer.marker_id(BOS),
        eos_token_id=tokenizer.marker_id(EOS),
    )
    config = with_engram_start(config, config.engram_vocab_size)
    assert not config.verify(), config.verify()
    return config


def token_map(tokenizer_file: Path, config: ModelConfig) -> TokenMap:
    """The compressed ids of the tokenizer's own."""
    return TokenMap.load(tokenizer_file, config, None)
