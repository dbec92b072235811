"""`shoal engram`: do a config, its Engram tables and a tokenizer belong together; no checkpoint needed."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shoal.cli.cache_directory import cache_directory
from shoal.cli.json_output import write_json
from shoal.errors import ShoalError

if TYPE_CHECKING:
    from shoal.config.schema import ModelConfig
    from shoal.engram.hashing import Int64Array
    from shoal.engram.layout import EngramLayout, LayerTables
    from shoal.engram.token_map import TokenMap

GIB = 2**30
_SCALE_COLUMNS = 32
_NUM_SAMPLES = 4096

Report = dict[str, Any]


def command(
    config: Annotated[Path, typer.Option(help="config.json, or a directory that holds one.")],
    tokenizer: Annotated[Path | None, typer.Option(help="tokenizer.json, or a directory that holds one.")] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Also write the report to this file.")] = None,
) -> None:
    """Check the Engram layout: primes, rows, multipliers, token map, sampled ids."""
    report = _inspect(config, tokenizer)
    if json_file is not None:
        write_json(json_file, report)
    print("\n".join(_lines(report)))
    raise typer.Exit(0 if report["passed"] else 1)


def _inspect(config_path: Path, tokenizer_path: Path | None) -> Report:
    from shoal.config.layouts import load_config
    from shoal.engram.layout import check_rows, derive_layout

    config = load_config(config_path)
    layout = derive_layout(config)
    problems: list[str] = []
    try:
        check_rows(config)
    except ShoalError as error:
        problems.append(error.message)
    token_map = _token_map(config, tokenizer_path, problems) if tokenizer_path else None
    report = {
        "config": str(config_path),
        "tokenizer": str(tokenizer_path) if tokenizer_path else None,
        "layers": [_layer(config, index, layer) for index, layer in enumerate(layout.layers)],
        "token_map": _token_map_facts(config, token_map) if token_map else None,
        "sampled": _sample(config, layout, token_map, problems),
        "problems": problems,
    }
    return report | {"passed": not problems}


def _token_map(config: "ModelConfig", path: Path, problems: list[str]) -> "TokenMap | None":
    from shoal.engram.token_map import TokenMap

    file = path / "tokenizer.json" if path.is_dir() else path
    try:
        return TokenMap.load(file, config, cache_directory())
    except ShoalError as error:
        problems.append(f"{error.message} ({error.hint})" if error.hint else error.message)
        return None


def _token_map_facts(config: "ModelConfig", token_map: "TokenMap") -> Report:
    return {
        "vocab_size": len(token_map.ids),
        "compressed_vocab_size": int(token_map.ids.max()) + 1,
        "pad_id": config.engram_pad_id,
        "compressed_pad_id": token_map.pad,
    }


def _layer(config: "ModelConfig", index: int, layer: "LayerTables") -> Report:
    declared = config.engram_num_embeddings[index : index + 1]
    scale_bytes = -(-config.engram_head_dim // _SCALE_COLUMNS)
    return {
        "layer_id": layer.layer_id,
        "columns": len(layer.buckets),
        "heads": config.engram_n_heads,
        "max_ngram_size": config.engram_max_ngram_size,
        "buckets": sum(layer.buckets),
        "first_prime": min(layer.buckets),
        "last_prime": max(layer.buckets),
        "rows_derived": layer.rows,
        "rows_declared": declared[0] if declared else None,
        "row_width": config.engram_head_dim,
        "table_bytes": layer.rows * config.engram_head_dim,
        "scale_bytes": layer.rows * scale_bytes,
        "multipliers": list(layer.multipliers),
    }


def _sample(config: "ModelConfig", layout: "EngramLayout", token_map: "TokenMap | None", problems: list[str]) -> Report:
    """Hash seeded random tokens; every row must lie in its column and in the declared table."""
    import numpy as np

    from shoal.engram.hashing import empty_history, hash_rows

    tokens = _sample_tokens(config, token_map)
    # Without a tokenizer the pad's compressed id is unknown; any id shows the range.
    pad = token_map.pad if token_map else 0
    num_rows = num_outside = 0
    for layer, declared in zip(layout.layers, config.engram_num_embeddings, strict=False):
        rows = hash_rows(layer, empty_history(layout.history_length), tokens, pad=pad)
        starts = np.array(layer.offsets)
        outside = (rows < starts) | (rows >= starts + np.array(layer.buckets)) | (rows >= declared)
        num_rows, num_outside = num_rows + rows.size, num_outside + int(outside.sum())
        if outside.any():
            first = int(rows[outside][0])
            problems.append(f"layer {layer.layer_id} hashes to row {first}, beyond its {declared} declared rows")
    return {"tokens": len(tokens), "rows": num_rows, "out_of_range": num_outside}


def _sample_tokens(config: "ModelConfig", token_map: "TokenMap | None") -> "Int64Array":
    """Random compressed ids, int64 [_NUM_SAMPLES], one in twenty an image position."""
    import numpy as np

    from shoal.engram.hashing import DEAD

    generator = np.random.default_rng(0)
    dead = generator.random(_NUM_SAMPLES) < 0.05
    if token_map:
        return token_map.compress(generator.integers(0, config.vocab_size, _NUM_SAMPLES), dead)
    return np.where(dead, DEAD, generator.integers(0, config.engram_compressed_vocab_size, _NUM_SAMPLES))


def _lines(report: Report) -> list[str]:
    lines = [f"Engram of `{report['config']}`"]
    for layer in report["layers"]:
        lines += _layer_lines(layer)
    if not report["layers"]:
        lines.append("no Engram layers")
    if facts := report["token_map"]:
        lines.append(
            f"token map: {facts['vocab_size']} ids to {facts['compressed_vocab_size']} keys, "
            f"pad {facts['pad_id']} is compressed id {facts['compressed_pad_id']}"
        )
    sampled = report["sampled"]
    lines.append(f"sampled: {sampled['tokens']} tokens, {sampled['rows']} rows, {sampled['out_of_range']} out of range")
    lines += [f"problem: {problem}" for problem in report["problems"]]
    return [*lines, "[PASS]" if report["passed"] else "[FAIL]"]


def _layer_lines(layer: Report) -> list[str]:
    return [
        f"layer {layer['layer_id']}: {layer['buckets']} buckets in {layer['columns']} columns "
        f"(2- to {layer['max_ngram_size']}-grams, {layer['heads']} heads), "
        f"primes {layer['first_prime']} .. {layer['last_prime']}",
        f"  rows: derived {layer['rows_derived']}, declared {layer['rows_declared']}",
        f"  table: {layer['table_bytes'] / GIB:.2f} GiB ({layer['row_width']} bytes a row), "
        f"scales {layer['scale_bytes'] / GIB:.2f} GiB",
        f"  multipliers: {' '.join(str(multiplier) for multiplier in layer['multipliers'])}",
    ]
