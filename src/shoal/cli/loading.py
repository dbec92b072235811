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


def size(text: str | None) -> int | None:
    """The bytes of an option like 24GiB; a usage error where it is none."""
    try:
        return None if text is None else parse_size(text)
    except OptionError as error:
        raise typer.BadParameter(error.message) from None


def say(text: str) -> None:
    """A line on stderr."""
    print(text, file=sys.stderr, flush=True)
