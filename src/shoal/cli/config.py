"""`shoal config`: which file describes the model, what it says, and whether it agrees with itself."""

import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from shoal.config.layer_checks import verify_layers
from shoal.config.layer_plan import LayerPlan, plan_layers
from shoal.config.layouts import ConfigFile, load_config, resolve_config
from shoal.config.schema import ModelConfig


def command(
    path: Annotated[Path, typer.Argument(help="A config file, or a checkpoint directory.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Print the model's shape and whether its configuration is self-consistent."""
    file, config = resolve_config(path), load_config(path)
    problems = config.verify()
    if as_json:
        print(json.dumps(_as_json(file, config, problems), indent=2))
    else:
        print(f"{_printable(file.path)} ({file.layout} layout)")
        print(f"  {summary(config)}")
        for problem in problems:
            print(f"  [problem] {problem}")
        if not problems:
            print("  [ok] the config is self-consistent")
    if problems:
        raise typer.Exit(1)


def summary(config: ModelConfig) -> str:
    """The model's shape in one line."""
    layers = f"{config.n_layers} layers" + (f" + {config.n_mtp_layers} draft" if config.n_mtp_layers else "")
    experts = f"{config.n_routed_experts} experts ({config.n_activated_experts} active)"
    sizes = f"{layers}, dim {config.dim}, {config.n_heads} heads of {config.head_dim}, {experts}"
    engram = f"Engram on layers {list(config.engram_layer_ids)}" if config.has_engram else "no Engram"
    vision = f"vision {config.vision_n_layers} layers" if config.has_vision else "no vision"
    targets = list(config.dspark_target_layer_ids)
    block = config.dspark_block_size
    draft = f"DSpark block {block} over layers {targets}" if config.has_draft else "no DSpark"
    return f"{sizes}; {engram}, {vision}, {draft}"


def _as_json(file: ConfigFile, config: ModelConfig, problems: list[str]) -> dict[str, object]:
    # Lists of layers that disagree give no plan.
    layers = None if verify_layers(config) else [_layer_as_json(plan) for plan in plan_layers(config)]
    return {
        "path": _printable(file.path),
        "layout": file.layout,
        "config": asdict(config),
        "layers": layers,
        "problems": problems,
    }


def _layer_as_json(plan: LayerPlan) -> dict[str, object]:
    return asdict(plan) | {"mode": plan.mode.value}


def _printable(path: Path) -> str:
    """A file's name may hold bytes that are not UTF-8."""
    return os.fsencode(path).decode("utf-8", "replace")
