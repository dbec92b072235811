"""`shoal trace`: every internal of one run in a file, and where two such files part."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shoal.cli.cache_directory import cache_directory
from shoal.cli.instruction_set import forced_isa, note_portable_kernels
from shoal.cli.prompt_source import decode, parse_ids
from shoal.cli.ticker import Ticker
from shoal.errors import PromptError

if TYPE_CHECKING:
    from torch import Tensor


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
    source = [option for option in (prompt, ids, ids_file) if option is not None]
    if len(source) != 1:
        raise typer.BadParameter(
            f"expected the prompt from one of --prompt, --ids and --ids-file, found {len(source)} of them"
        )
    if out is None:
        raise typer.BadParameter("expected --out: the safetensors file to write")
    _check_arithmetic(arithmetic)
    sizes = None if chunks is None else _chunk_sizes(chunks)
    tokens = _prompt(prompt, ids, ids_file)
    if sizes is not None and not isinstance(tokens, str):
        _check_sum(sizes, len(tokens))
    _trace(_Run(checkpoint, tokens, sizes, arithmetic, only), out)


def _prompt(prompt: str | None, ids: str | None, ids_file: Path | None) -> str | list[int]:
    """The one that is given: text as it is, or ids."""
    if prompt is not None:
        return prompt
    if ids is not None:
        return parse_ids(ids)
    assert ids_file is not None
    return _ids_in(ids_file)


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


def _trace(run: "_Run", out: Path) -> None:
    from shoal.tracing.trace_file import check_writable, write_trace

    check_writable(out)
    if run.checkpoint is None:
        print("no CHECKPOINT given: this is the built-in miniature", file=sys.stderr)
    tensors, chunks = run.tensors()
    write_trace(out, tensors, _metadata(run, chunks))
    print(f"{len(tensors)} tensors of {sum(chunks)} tokens", file=sys.stderr)
    print(out)


@dataclass(frozen=True)
class _Run:
    """What to run: `prompt` is the text or the ids, `chunks` None feeds it whole."""

    checkpoint: Path | None
    prompt: str | list[int]
    chunks: list[int] | None
    arithmetic: str
    only: list[str] | None

    def tensors(self) -> "tuple[dict[str, Tensor], list[int]]":
        """The trace, and the chunks it was fed in."""
        from shoal.assemble import LoadOptions, assemble
        from shoal.tracing.trace import trace_backbone

        state = "loading"

        def describe(done: int, total: int) -> None:
            nonlocal state
            state = f"tracing: {done:,} of {total:,} layers"

        def describe_loading(done: int, total: int) -> None:
            nonlocal state
            state = f"loading: {done:,} of {total:,} bytes"

        options = LoadOptions(
            self.checkpoint,
            arithmetic=self.arithmetic,
            isa=forced_isa(),
            threads=1,
            cache_directory=cache_directory(),
            progress=describe_loading,
        )
        if self.arithmetic == "native":
            note_portable_kernels()
        with Ticker(lambda: state), assemble(options) as model:
            ids = model.tokenizer.encode_prompt(self.prompt) if isinstance(self.prompt, str) else self.prompt
            chunks = [len(ids)] if self.chunks is None else self.chunks
            _check_sum(chunks, len(ids))
            return trace_backbone(model.backbone, ids, chunks=chunks, only=self.only, progress=describe), chunks


def _metadata(run: _Run, chunks: Sequence[int]) -> dict[str, str]:
    try:
        writer = version("shoal")
    except PackageNotFoundError:
        writer = "a source tree that is not installed"
    name = "built-in miniature" if run.checkpoint is None else run.checkpoint.resolve().name
    return {
        "shoal_version": writer,
        # A directory's name may hold bytes that are not UTF-8, which JSON cannot.
        "checkpoint": name.encode("utf-8", "backslashreplace").decode("utf-8"),
        "arithmetic": run.arithmetic,
        "chunks": ",".join(str(size) for size in chunks),
    }


def _check_arithmetic(name: str) -> None:
    from shoal.ops.choose import ARITHMETICS

    if name not in ARITHMETICS:
        raise typer.BadParameter(f"--arithmetic is `{name}`, expected one of {', '.join(ARITHMETICS)}")


def _chunk_sizes(chunks: str) -> list[int]:
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


def _ids_in(file: Path) -> list[int]:
    try:
        text = decode(file.read_bytes(), f"`{file}`")
    except OSError as problem:
        raise PromptError(f"cannot read `{file}`: {problem.strerror}") from None
    return parse_ids(",".join(text.replace(",", " ").split()))
