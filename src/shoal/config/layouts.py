"""The two released files that state the configuration, read into one `ModelConfig` (spec §1).

Never guesses: every required key that is absent is named, and unknown keys are ignored.
The trap: `dtype` is the dense weight format in the flat file and the storage dtype in the nested one.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal

from shoal.config.json_file import describe, read_json_object
from shoal.config.schema import REQUIRED_FIELDS, ModelConfig
from shoal.config.values import read_value
from shoal.errors import ConfigError

Layout = Literal["nested", "flat"]

_CANDIDATES = ("config.json", str(Path("inference", "config.json")))

_SECTIONS = ("text_config", "text_config.rope_scaling", "vision_config", "quantization_config")
"""The nested file's objects, outer before inner."""

_MODEL_TYPES = {
    "model_type": "deepseek_v41",
    "text_config.model_type": "deepseek_v41_text",
    "vision_config.model_type": "deepseek_v41_vision",
}

_ONLY_SUPPORTED: dict[str, object] = {
    "gate_temp": 1.0,
    "text_config.gate_temp": 1.0,
    "tie_word_embeddings": False,
    "text_config.tie_word_embeddings": False,
    "attention_bias": False,
    "text_config.attention_bias": False,
    "activation_scheme": "dynamic",
    "quantization_config.activation_scheme": "dynamic",
}
"""May be absent; another value is arithmetic that no source specifies."""

_NESTED_NAMES = {
    "dim": "text_config.hidden_size",
    "moe_inter_dim": "text_config.moe_intermediate_size",
    "n_layers": "text_config.num_hidden_layers",
    "n_mtp_layers": "text_config.num_nextn_predict_layers",
    "dspark_n_activated_experts": "text_config.dspark_num_experts_per_tok",
    "n_heads": "text_config.num_attention_heads",
    "n_activated_experts": "text_config.num_experts_per_tok",
    "score_func": "text_config.scoring_func",
    "route_scale": "text_config.routed_scaling_factor",
    "rope_head_dim": "text_config.qk_rope_head_dim",
    "norm_eps": "text_config.rms_norm_eps",
    "window_size": "text_config.sliding_window",
    "kv_source_layers": "text_config.kv_source_layer_ids",
    "index_source_layers": "text_config.index_source_layer_ids",
    "candidate_source_layer": "text_config.candidate_source_layer_id",
    "engram_pad_id": "text_config.engram_pad_token_id",
    "original_seq_len": "text_config.rope_scaling.original_max_position_embeddings",
    "rope_factor": "text_config.rope_scaling.factor",
    "beta_fast": "text_config.rope_scaling.beta_fast",
    "beta_slow": "text_config.rope_scaling.beta_slow",
    "rope_type": "text_config.rope_scaling.rope_type",
    "vision_n_layers": "vision_config.num_hidden_layers",
    "vision_dim": "vision_config.hidden_size",
    "vision_n_heads": "vision_config.num_attention_heads",
    "vision_inter_dim": "vision_config.intermediate_size",
    "vision_patch_size": "vision_config.patch_size",
    "vision_rope_theta": "vision_config.rope_theta",
    "vision_downsample_ratio": "vision_config.downsample_ratio",
    "vision_max_n_token": "vision_config.max_image_tokens",
    "vision_min_pixels": "vision_config.min_pixels",
    "vision_max_wh_ratio": "vision_config.max_wh_ratio",
    "dtype": "quantization_config.quant_method",
    "expert_dtype": "quantization_config.expert_dtype",
    "weight_block_size": "quantization_config.weight_block_size",
    "scale_fmt": "quantization_config.scale_fmt",
    "storage_dtype": "dtype",
    "image_token_id": "image_token_id",
    "bos_token_id": "bos_token_id",
    "eos_token_id": "eos_token_id",
    "pad_token_id": "pad_token_id",
}
"""Field to dotted path where the nested file does not say `text_config.<field>` (spec §1.1)."""

_ROPE_TYPE = _NESTED_NAMES["rope_type"]
_OLD_ROPE_TYPE = "text_config.rope_scaling.type"


@dataclass(frozen=True)
class ConfigFile:
    """A configuration file that was found, and which of the two layouts it is in."""

    path: Path
    layout: Layout


def load_config(path: str | Path) -> ModelConfig:
    """The configuration of a file, or of a checkpoint directory (its nested file, else its flat one).

    Raises `ConfigError` for what is absent, unreadable, of another model, incomplete or of a wrong type.
    Does not judge whether the values agree: that is `ModelConfig.verify`.
    """
    file = _find(Path(path))
    return parse_config(read_json_object(file), file)


def resolve_config(path: str | Path) -> ConfigFile:
    """The file that `load_config` reads for `path`."""
    file = _find(Path(path))
    return ConfigFile(file, layout_of(read_json_object(file)))


def layout_of(mapping: Mapping[str, object]) -> Layout:
    """Nested when there is a `text_config`, or a model type without the flat file's `dim`."""
    nested = "text_config" in mapping or ("model_type" in mapping and "dim" not in mapping)
    return "nested" if nested else "flat"


def spelling(field: str, layout: Layout) -> str | None:
    """How a layout spells a field, as a dotted path; None when it cannot say it."""
    if layout == "nested":
        return _NESTED_NAMES.get(field, f"text_config.{field}")
    # The vendor's flat reader knows this one too, though the released file leaves it out.
    return field if field in REQUIRED_FIELDS or field == "norm_topk_prob" else None


def parse_config(mapping: Mapping[str, object], where: str | Path) -> ModelConfig:
    """The configuration in a decoded JSON object; `where` is what messages call it."""
    layout = layout_of(mapping)
    _refuse_other_models(mapping, where)  # at once: what another model's keys hold is its own affair
    stated = _by_path(mapping, layout, where)
    _refuse_other_models(stated, where)
    _refuse_unsupported(stated, where)
    _settle_rope_type(stated, where)
    _refuse_absent(stated, layout, where)
    return ModelConfig(**_read_fields(stated, layout, where))


def _find(path: Path) -> Path:
    if not _is_directory(path):
        return path
    for name in _CANDIDATES:
        # A dangling link counts as there: falling back in silence would hide half a download.
        if os.path.lexists(path / name):
            return path / name
    raise ConfigError(f"`{path}` holds neither `{_CANDIDATES[0]}` nor `{_CANDIDATES[1]}`, wanted one of them")


def _is_directory(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:  # reading it will say why
        return False


def _by_path(mapping: Mapping[str, object], layout: Layout, where: str | Path) -> dict[str, object]:
    """Every value by its dotted path; the flat file has no objects to look into."""
    stated = _without_dots(mapping)
    for section in _SECTIONS if layout == "nested" else ():
        content = stated.get(section, {})
        if not isinstance(content, Mapping):
            raise ConfigError(f"`{section}` is {describe(content)} in `{where}`, wanted an object")
        stated |= {f"{section}.{key}": value for key, value in _without_dots(content).items()}
    return stated


def _without_dots(content: Mapping[str, object]) -> dict[str, object]:
    """An unknown key such as "text_config.dim" must not pass for a path."""
    return {key: value for key, value in content.items() if "." not in key}


def _refuse_other_models(stated: Mapping[str, object], where: str | Path) -> None:
    for path, wanted in _MODEL_TYPES.items():
        found = stated.get(path, wanted)
        if found != wanted:
            difference = f"`{path}` is {describe(found)}, wanted {describe(wanted)}"
            raise ConfigError(
                f"`{where}` describes another model: {difference}",
                hint="Shoal runs DeepSeek-V4.1-Flash only; is this its `config.json`?",
            )


def _refuse_unsupported(stated: Mapping[str, object], where: str | Path) -> None:
    for path, wanted in _ONLY_SUPPORTED.items():
        found = stated.get(path, wanted)
        # In Python False == 0 and True == 1.0, in JSON they are not.
        if found != wanted or isinstance(found, bool) != isinstance(wanted, bool):
            reason = "nothing else is supported"
            raise ConfigError(f"`{path}` is {describe(found)} in `{where}`, wanted {describe(wanted)}: {reason}")


def _settle_rope_type(stated: dict[str, object], where: str | Path) -> None:
    if _OLD_ROPE_TYPE not in stated:
        return
    old, new = stated[_OLD_ROPE_TYPE], stated.setdefault(_ROPE_TYPE, stated[_OLD_ROPE_TYPE])
    if old != new:
        both = f"`{_ROPE_TYPE}` is {describe(new)} and `{_OLD_ROPE_TYPE}` is {describe(old)}"
        raise ConfigError(f"{both} in `{where}`, wanted the same in both")


def _refuse_absent(stated: Mapping[str, object], layout: Layout, where: str | Path) -> None:
    paths = [spelling(field, layout) for field in REQUIRED_FIELDS]
    absent = [f"`{path}`" for path in paths if path not in stated]
    if absent:
        keys = "key" if len(absent) == 1 else "keys"
        raise ConfigError(
            f"`{where}` ({layout} layout) lacks {len(absent)} required {keys}: {', '.join(absent)}",
            hint="a missing value is never guessed; compare with the released `config.json`",
        )


def _read_fields(stated: Mapping[str, object], layout: Layout, where: str | Path) -> dict[str, Any]:
    paths = {field.name: spelling(field.name, layout) for field in fields(ModelConfig)}
    spelled = {field: path for field, path in paths.items() if path is not None and path in stated}
    return {field: read_value(stated[path], field, path, where) for field, path in spelled.items()}
