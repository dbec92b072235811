"""`shoal eval`: a table of what a model knows on stdout, progress and what was skipped on stderr."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shoal.cli.cache_directory import cache_directory
from shoal.cli.instruction_set import forced_isa, note_portable_kernels
from shoal.cli.json_output import check_writable, write_json
from shoal.cli.ticker import Ticker
from shoal.errors import ShoalError

if TYPE_CHECKING:
    from shoal.assemble import Assembled
    from shoal.eval.item import Suite
    from shoal.eval.outcome import Outcome
    from shoal.eval.result import EvalResult

GIB = 2**30
INTERRUPTED = 130
SHOWN_SKIPPED = 8


def command(
    checkpoint: Annotated[
        Path | None, typer.Argument(help="The directory of the released files; the built-in miniature if absent.")
    ] = None,
    suite: Annotated[
        list[str] | None,
        typer.Option(help="facts, chat, tools, json, arithmetic, copying, text or a FILE.jsonl; may be given again."),
    ] = None,
    limit: Annotated[
        int | None, typer.Option(min=1, help="So many items of each suite, spread evenly over it.")
    ] = None,
    threads: Annotated[
        int | None, typer.Option(min=1, help="CPU threads, all there are if absent; the answers are the same for any.")
    ] = None,
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Write figures and the outcome of every item to this file too.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Only the table, and errors.")] = False,
) -> None:
    """Ask questions whose answers are known, greedily, and measure the perplexity of texts."""
    if json_file is not None:
        check_writable(json_file)
    progress = _Progress(quiet)
    with Ticker(progress.describe, quiet=quiet):
        suites = _suites(suite, limit)
        with _load(checkpoint, threads, progress) as model:
            problem = _ask(model, suites, progress)
    result = progress.result(is_complete=problem is None)
    _show(result, quiet)
    if json_file is not None:
        write_json(json_file, {"checkpoint": None if checkpoint is None else str(checkpoint), **result.as_dict()})
    if isinstance(problem, ShoalError):
        raise problem
    if problem is not None:
        raise typer.Exit(INTERRUPTED)


@dataclass
class _Progress:
    """What is done, for the line that a waiting person reads."""

    quiet: bool
    state: str = "loading"
    total: int = 0
    outcomes: "list[Outcome]" = field(default_factory=list)

    def say(self, line: str) -> None:
        if not self.quiet:
            print(line, file=sys.stderr, flush=True)

    def loading(self, done: int, total: int) -> None:
        self.state = f"loading: {done / GIB:.2f} of {total / GIB:.2f} GiB"

    def describe(self) -> str:
        if not self.outcomes:
            return self.state
        suite = self.outcomes[-1].suite
        right = self.result(is_complete=False).accuracy(suite)
        so_far = "" if right.percent is None else f", {right.percent:.1f} % of {right.total:,} right"
        return f"{len(self.outcomes):,} of {self.total:,} items; {suite}{so_far}"

    def result(self, *, is_complete: bool) -> "EvalResult":
        from shoal.eval.result import EvalResult

        return EvalResult(tuple(self.outcomes), is_complete)


def _suites(names: Sequence[str] | None, limit: int | None) -> "list[Suite]":
    from shoal.eval.suites import load_suites

    return [suite.sample(limit) for suite in (load_suites(names) if names else load_suites())]


def _load(checkpoint: Path | None, threads: int | None, progress: _Progress) -> "Assembled":
    # Inside, for importing torch takes seconds.
    from shoal.assemble import LoadOptions, assemble

    model = assemble(
        LoadOptions(
            checkpoint,
            isa=forced_isa(),
            threads=threads,
            cache_directory=cache_directory(),
            progress=progress.loading,
        )
    )
    if not progress.quiet:
        note_portable_kernels()
    progress.say(f"loaded: {model.report.lines()[0]}")
    return model


def _ask(model: "Assembled", suites: "Sequence[Suite]", progress: _Progress) -> KeyboardInterrupt | ShoalError | None:
    """Asks everything; what ends it before its time is returned, for what is done until then is shown first."""
    from shoal.eval.run import outcomes

    progress.total = sum(len(suite.items) for suite in suites)
    progress.state = f"0 of {progress.total:,} items"
    try:
        for outcome in outcomes(model.engine, model.tokenizer, suites):
            progress.outcomes.append(outcome)
    except (KeyboardInterrupt, ShoalError) as problem:
        return problem
    progress.say(f"done: {progress.total:,} items")
    return None


def _show(result: "EvalResult", quiet: bool) -> None:
    from shoal.eval.outcome import Skipped
    from shoal.eval.table import table_lines

    skipped = [outcome for outcome in result.outcomes if isinstance(outcome, Skipped)]
    for outcome in [] if quiet else skipped[:SHOWN_SKIPPED]:
        print(f"skipped: {outcome.suite}, line {outcome.line}: {outcome.reason}", file=sys.stderr)
    if len(skipped) > SHOWN_SKIPPED and not quiet:
        print(f"skipped: {len(skipped) - SHOWN_SKIPPED:,} more", file=sys.stderr)
    print("\n".join(table_lines(result)))
