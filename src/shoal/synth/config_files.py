"""A configuration written back as the two files that state it (spec §1)."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path

from shoal.config.json_file import read_json_object
from shoal.config.layouts import load_config, resolve_config, spelling
from shoal.config.schema import ModelConfig

NESTED_NAME, FLAT_NAME = "config.json", "inference/config.json"
_NEW_NESTED: Mapping[str, object] = {"architectures": ["DeepseekV41ForCausalLM"], "model_type": "deepseek_v41"}

JsonObject = dict[str, object]


@dataclass(frozen=True)
class ConfigSource:
    """A configuration, and the nested object it was read from: what that says beyond the configuration is kept."""

    config: ModelConfig
    nested: Mapping[str, object]


def read_source(path: Path) -> ConfigSource:
    """The configuration of a file or directory. Raises `ConfigError`."""
    file = resolve_config(path)
    nested = read_json_object(file.path) if file.layout == "nested" else _NEW_NESTED
    return ConfigSource(load_config(file.path), nested)


def config_files(config: ModelConfig, source: ConfigSource) -> dict[str, bytes]:
    """The content of both files, by name below the checkpoint directory."""
    flat = config.as_reference_dict()
    return {NESTED_NAME: _encode(nested_object(config, source.nested)), FLAT_NAME: _encode(flat)}


def nested_object(config: ModelConfig, base: Mapping[str, object]) -> JsonObject:
    """`base` saying what `config` says, in the nested layout; where both agree nothing moves."""
    nested: JsonObject = json.loads(json.dumps(base))
    for field in fields(config):
        value = getattr(config, field.name)
        path = spelling(field.name, "nested")
        assert path is not None, field.name
        if value is not None or field.name == "vision_max_wh_ratio":
            _set(nested, path.split("."), list(value) if isinstance(value, tuple) else value)
    return nested


def _set(target: JsonObject, path: list[str], value: object) -> None:
    for section in path[:-1]:
        inner = target.setdefault(section, {})
        assert isinstance(inner, dict), path
        target = inner
    target[path[-1]] = value


def _encode(content: JsonObject) -> bytes:
    return (json.dumps(content, indent=2, ensure_ascii=False) + "\n").encode()
