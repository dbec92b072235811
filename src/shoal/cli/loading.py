"""Loads the model that a command was told to, and says so on stderr."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from shoal.cli.cache_directory import cache_directory
from shoal.cli.instruction_set import forced_isa, note_portable_kernels
from shoal.cli.ticker import Ticker
from shoal.errors import OptionError
from shoal.plan.size import parse_size

if TYPE_CHECKING:
    from shoal.api import Places, Shoal

GIB = 2**30
_MINIATURE_NOTE = (
    "no CHECKPOINT given: this is the built-in miniature, a trained model of about 5 million parameters in the "
    "release's layout; it knows some facts, sums and tools, and is not the real one"
)


def load_model(
    directory: Path | None,
    places: "Places",
    threads: int | None,
    prefill_chunk: int | None,
    quiet: bool,
    told: Callable[[str], None] | None = None,
) -> "Shoal":
    """The model of `directory`, or the built-in miniature; progress and where things live, unless `quiet`.

    `told` hears how far it is, as the ticker says it.
    """
    if directory is None and not quiet:
        say(_MINIATURE_NOTE)
    loading = "loading"

    def progress(done: int, total: int) -> None:
        nonlocal loading
        loading = f"loading: {done / GIB:.2f} of {total / GIB:.2f} GiB"
        if told is not None:
            told(loading)

    with Ticker(lambda: loading, quiet=quiet):
        # Inside, for importing torch takes seconds too.
        from shoal.api import load

        model = load(
            directory,
            isa=forced_isa(),
            **places,
            notice=None if quiet else say,
            threads=threads,
            prefill_chunk=prefill_chunk,
            cache_directory=cache_directory(),
            progress=progress,
        )
    if not quiet:
        note_portable_kernels()
        say(f"loaded: {model.report.lines()[0]}")
        say("\n".join(model.assembled.places()))
    return model


def memory_places(
    *, memory: str | None, kv_memory: str | None, engram_memory: str | None, resident_engram: bool
) -> "Places":
    """What every command that loads a model is told of memory for everything, and of what is no expert."""
    places: Places = {"memory": size(memory), "kv_memory": size(kv_memory)}
    return places | {"engram_memory": size(engram_memory), "resident_engram": resident_engram}


def expert_places(
    *, also: list[Path] | None, expert_memory: str | None, expert_profile: Path | None, no_prefetch: bool
) -> "Places":
    """What it is told of shards and experts."""
    places: Places = {"also": also or (), "prefetch": not no_prefetch}
    return places | {"expert_memory": size(expert_memory), "expert_profile": expert_profile}


def prefix_places(memory: str | None, directory: Path | None, disk: str | None) -> "Places":
    """What is told of kept prefixes; `0` of memory keeps none."""
    kept = 0 if memory == "0" else size(memory)
    return {"prefix_memory": kept, "prefix_directory": directory, "prefix_disk": size(disk)}


def size(text: str | None) -> int | None:
    """The bytes of an option like 24GiB; a usage error where it is none."""
    try:
        return None if text is None else parse_size(text)
    except OptionError as error:
        raise typer.BadParameter(error.message) from None


def say(text: str) -> None:
    """A line on stderr."""
    print(text, file=sys.stderr, flush=True)
