"""`shoal synth`: make a checkpoint of random weights to measure and test with, or the whole release as holes."""

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shoal.cli.ticker import Ticker
from shoal.config.layer_plan import plan_layers
from shoal.synth.presets import Preset, Reduction
from shoal.synth.synthesis import GIB, LARGEST_SEED, Synthesis, SynthOptions, decide

if TYPE_CHECKING:
    from shoal.config.layer_plan import LayerPlan


def command(
    out: Annotated[Path, typer.Argument(help="The directory to make, or one to complete.")],
    preset: Annotated[
        Preset,
        typer.Option(
            help="miniature: the built-in one's geometry, 7 MB. "
            "sparse: the whole release, every weight zero, a few MB on the disk. "
            "slim: all layers at full width, few experts. layers: a few whole layers, all experts."
        ),
    ],
    experts: Annotated[int | None, typer.Option(min=1, help="Routed experts a layer (slim: 10; layers: all).")] = None,
    layers: Annotated[int | None, typer.Option(min=1, help="Layers to keep (slim: all; layers: 4).")] = None,
    config: Annotated[
        Path | None, typer.Option(help="Another config.json, or a directory that holds one, to start from.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, max=LARGEST_SEED, help="Another seed is another model.")] = 0,
    shards: Annotated[int | None, typer.Option(min=1, help="Number of shard files (as released).")] = None,
    tokenizer: Annotated[
        Path | None, typer.Option(help="A tokenizer.json to copy, or a directory that holds one.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Say nothing on stderr but errors.")] = False,
) -> None:
    """Make a checkpoint in the released layout from a seed. Run again, it completes what is missing."""
    if not preset.is_reduced and (experts or layers):
        raise typer.BadParameter(f"--experts and --layers go with slim and layers; {preset.value} cuts nothing")
    options = SynthOptions(out, Reduction(preset, experts, layers), config, seed, shards, tokenizer)
    synthesis = decide(options)
    if not quiet:
        _tell("\n".join(_notes(synthesis, preset)))
    started = time.perf_counter()
    written = _write(synthesis, quiet)
    if not quiet:
        _tell(_speed(written, time.perf_counter() - started))
    print(f"{out}: {preset.value}, {len(synthesis.shards)} shards, {synthesis.nbytes / GIB:.2f} GiB")


def _write(synthesis: Synthesis, quiet: bool) -> int:
    state = "starting"

    def progress(done: int, total: int) -> None:
        nonlocal state
        state = f"writing: {done / GIB:.2f} of {total / GIB:.2f} GiB"

    with Ticker(lambda: state, quiet=quiet):
        return synthesis.write(progress)


def _notes(synthesis: Synthesis, preset: Preset) -> list[str]:
    config = synthesis.config
    notes = [f"{config.n_layers} layers of {config.n_routed_experts} experts, {synthesis.nbytes / GIB:.2f} GiB"]
    if preset is Preset.LAYERS:
        plans = plan_layers(config)
        layers = [_layer(old, plan) for old, plan in zip(synthesis.kept_layers, plans, strict=True)]
        notes.append(f"layers {', '.join(layers)} of the config, numbered from 0")
    if preset is Preset.SPARSE:
        notes.append("every weight is zero: it loads and runs like the release, and says nothing")
    if not synthesis.has_tokenizer:
        notes.append("generating text needs the model's `tokenizer.json` in the directory: --tokenizer copies one")
    return notes


def _layer(old: int, plan: "LayerPlan") -> str:
    ratio = f" of ratio {plan.compress_ratio}" if plan.compress_ratio else ""
    return f"{old} ({plan.mode.value}{ratio}{', Engram' if plan.engram_index is not None else ''})"


def _speed(written: int, seconds: float) -> str:
    if not written:
        return "nothing was missing"
    return f"wrote {written / GIB:.2f} GiB in {seconds:.1f} s, {written / seconds / 1e6:.0f} MB/s"


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
