"""`shoal trace`: every internal of one run in a file, and where two such files part."""

import sys
import time
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shoal.errors import PromptError

if TYPE_CHECKING:
    from torch import Tensor

SECONDS_BEFORE_PROGRESS = 2.0
SECONDS_BETWEEN_PROGRESS = 1.0
MAX_IDS_NBYTES = 64 << 20


def command(
    checkpoint: Annotated[
        Path | None, typer.Argument(help="A checkpoint directory; the built-in miniature if absent.")
    ] = None,
    prompt: Annotated[str | None, typer.Option(help="Text, run through the checkpoint's tokenizer.")] = None,
    ids: Annotated[str | None, typer.Option(help="Token ids: 1,2,3")] = None,
    ids_file: Annotated[
        Path | None, typer.Option(help="A file of token ids, separated by commas or white space.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="The safetensors file to write.")] = None,
    chunks: Annotated[str | None, typer.Option(help="Feed the prompt in pieces of so many tokens: 5,1,1")] = None,
    arithmetic: Annotated[str, typer.Option(help="wide, release or native.")] = "wide",
    only: Annotated[
        list[str] | None, typer.Option(help="Keep only names that match: 'L2.*'. May be given several times.")
    ] = None,
    compare: Annotated[
        tuple[Path, Path] | None, typer.Option(help="Compare two traces, or a trace with a golden file, instead.")
    ] = None,
) -> None:
    """Run one sequence and write logits, every internal and the cache; or compare two such files.

    Comparing exits with 0 when every tensor in both files is identical, and with 1 when one is not.
    """
    run_options = (checkpoint, prompt, ids, ids_file, out, chunks, only)
    if compare is not None:
        if any(option is not None for option in run_options):
            raise typer.BadParameter("--compare takes two files and nothing else")
        _compare(*compare)
        return
    if sum(option is not None for option in (prompt, ids, ids_file)) != 1:
        raise typer.BadParameter("exactly one of --prompt, --ids, --ids-file is needed")
    if out is None:
        raise typer.BadParameter("--out is needed: the safetensors file to write")
    _trace(checkpoint, _token_ids(ids, ids_file), prompt, out, chunks, arithmetic, only)


def _compare(a: Path, b: Path) -> None:
    from shoal.tracing.compare import compare
    from shoal.tracing.report import report_lines
    from shoal.tracing.trace_file import TraceFile

    with TraceFile(a) as file_a, TraceFile(b) as file_b:
        comparison = compare(file_a, file_b)
    for line in report_lines(comparison, str(a), str(b)):
        print(line)
    if not comparison.is_same:
        raise typer.Exit(1)


def _trace(
    checkpoint: Path | None,
    ids: list[int] | None,
    prompt: str | None,
    out: Path,
    chunks: str | None,
    arithmetic: str,
    only: list[str] | None,
) -> None:
    from shoal.ops.choose import ARITHMETICS
    from shoal.tracing.run import MINIATURE
    from shoal.tracing.trace_file import check_writable, write_trace

    if arithmetic not in ARITHMETICS:
        raise typer.BadParameter(f"--arithmetic is `{arithmetic}`, expected one of {', '.join(ARITHMETICS)}")
    sizes = _chunk_sizes(chunks)
    if sizes is not None and ids is not None:
        _check_sum(sizes, len(ids))
    check_writable(out)
    if checkpoint is None:
        print("no checkpoint given: using the built-in miniature", file=sys.stderr)
    tensors, count = _run(checkpoint or MINIATURE, ids, prompt, sizes, arithmetic, only)
    write_trace(out, tensors, _metadata(checkpoint, sizes or [count], arithmetic))
    print(f"{len(tensors)} tensors of {count} tokens", file=sys.stderr)
    print(out)


def _run(
    checkpoint: Path,
    ids: list[int] | None,
    prompt: str | None,
    sizes: list[int] | None,
    arithmetic: str,
    only: list[str] | None,
) -> "tuple[dict[str, Tensor], int]":
    from shoal.checkpoint.shards import Checkpoint
    from shoal.config.layouts import load_config
    from shoal.ops.choose import arithmetic_named
    from shoal.text.tokenizer import Tokenizer
    from shoal.tracing.run import trace_backbone
    from shoal.weights.load import load_backbone

    config = load_config(checkpoint)
    if ids is None:
        assert prompt is not None
        ids = Tokenizer.load(checkpoint, config.vocab_size).encode_prompt(prompt)
    if sizes is not None:
        _check_sum(sizes, len(ids))
    with Checkpoint.open(checkpoint) as opened:
        loaded = load_backbone(
            config, opened, arithmetic=arithmetic_named(arithmetic), progress=_Progress("loading: bytes")
        )
        traced = trace_backbone(loaded.backbone, ids, chunks=sizes, only=only, progress=_Progress("tracing: layers"))
    return traced, len(ids)


class _Progress:
    """Says on stderr how far something has come, once it has taken more than two seconds."""

    def __init__(self, label: str) -> None:
        self.label = label
        self.next = time.monotonic() + SECONDS_BEFORE_PROGRESS

    def __call__(self, done: int, total: int) -> None:
        if time.monotonic() >= self.next:
            self.next = time.monotonic() + SECONDS_BETWEEN_PROGRESS
            print(f"{self.label} {done:,} of {total:,}", file=sys.stderr)


def _metadata(checkpoint: Path | None, sizes: Sequence[int], arithmetic: str) -> dict[str, str]:
    from shoal.tracing.trace_file import WRITER_KEY

    try:
        writer = version("shoal")
    except PackageNotFoundError:
        writer = "a source tree that is not installed"
    name = "built-in miniature" if checkpoint is None else checkpoint.resolve().name
    chunks = ",".join(str(size) for size in sizes)
    # A directory's name may hold bytes that are not UTF-8, which JSON cannot.
    name = name.encode("utf-8", "backslashreplace").decode("utf-8")
    return {WRITER_KEY: writer, "checkpoint": name, "arithmetic": arithmetic, "chunks": chunks}


def _chunk_sizes(chunks: str | None) -> list[int] | None:
    if chunks is None:
        return None
    try:
        sizes = [int(size) for size in chunks.split(",")]
    except ValueError:
        sizes = []
    if not sizes or min(sizes) < 1:
        raise typer.BadParameter(f"--chunks is `{chunks}`, expected sizes of at least 1: 5,1,1")
    return sizes


def _check_sum(sizes: list[int], count: int) -> None:
    if sum(sizes) != count:
        raise typer.BadParameter(f"--chunks add up to {sum(sizes)} tokens, expected the prompt's {count}")


def _token_ids(ids: str | None, ids_file: Path | None) -> list[int] | None:
    """The ids that were given; None where there is a text instead."""
    if ids is not None:
        return _parsed_ids(ids, "--ids")
    return _parsed_ids(_text_of(ids_file), f"`{ids_file}`") if ids_file is not None else None


def _text_of(file: Path) -> str:
    try:
        with file.open("rb") as stream:
            content = stream.read(MAX_IDS_NBYTES + 1)
    except OSError as problem:
        raise PromptError(f"cannot read `{file}`: {problem.strerror}") from None
    if len(content) > MAX_IDS_NBYTES:
        raise PromptError(f"`{file}` is larger than {MAX_IDS_NBYTES} bytes, expected token ids")
    try:
        return content.decode("ascii")
    except UnicodeDecodeError as problem:
        raise PromptError(f"byte {problem.start} of `{file}` is not ASCII, expected token ids: 1,2,3") from None


def _parsed_ids(text: str, where: str) -> list[int]:
    words = text.replace(",", " ").split()
    for number, word in enumerate(words):
        # Longer digits are no id, and int() of thousands of them raises.
        if not word.isdecimal() or len(word) > 18:
            raise PromptError(f"{where} holds `{word[:40]}` as number {number}, expected token ids: 1,2,3")
    return [int(word) for word in words]
