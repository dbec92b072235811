"""`shoal bench`: how fast, as a share of what this machine's memory and disk give in the same run."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shoal.cli.cache_directory import cache_directory
from shoal.cli.instruction_set import forced_isa
from shoal.cli.json_output import write_json
from shoal.cli.more_shards import Also
from shoal.cli.ticker import Ticker
from shoal.errors import CheckpointError
from shoal.plan.size import parse_size

if TYPE_CHECKING:
    from shoal.bench.run import Rows, Run

GIB = 2**30
ROUNDS, TOKENS, PASSES = 15, 16, 3
LENGTHS = 128, 2048
REQUESTS, STREAMED = 8, 200
SLIM_FIGURE = "decode_slim"

app = typer.Typer(
    help="Measure kernels, a decoded token, a prompt, loading: each as a ratio to a probe taken in the same run.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Isa = Annotated[str | None, typer.Option(help="The kernels to measure; the best of this machine if absent.")]
Threads = Annotated[int | None, typer.Option(min=1, help="Default: all usable cores.")]
Json = Annotated[Path | None, typer.Option("--json", help="Write machine and figures to this file too.")]
Given = Annotated[Path | None, typer.Argument(help="A checkpoint. Default: a `slim`, made once in the cache folder.")]


@app.command("kernels")
def kernels(
    isa: Isa = None,
    threads: Threads = None,
    checkpoint: Annotated[Path | None, typer.Option(help="A `slim` checkpoint, for `decode_slim`.")] = None,
    only: Annotated[list[str] | None, typer.Option(help="Only this figure; may be given again.")] = None,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds of probe and kernel a figure.")] = ROUNDS,
    peers: Annotated[Path | None, typer.Option(help="What `benchmarks/peers/build.sh` built: llama.cpp.")] = None,
    json_file: Json = None,
) -> None:
    """The kernels at released sizes, experts drawn at random from a layer of 384."""
    wanted = [name for name in only or [] if name != SLIM_FIGURE]

    def rows(run: "Run", progress: "_Progress") -> "Rows":
        from shoal.bench.result import Skipped

        if wanted or not only:
            yield from run.kernels(wanted, rounds, peers)
        if only and SLIM_FIGURE not in only:
            return
        if checkpoint is None:
            yield Skipped(SLIM_FIGURE, "needs `--checkpoint`, which `shoal synth OUT --preset slim` makes")
            return
        yield from run.decode(_directory(checkpoint), SLIM_FIGURE, TOKENS, False, progress.total)

    _measure(rows, isa, threads, json_file)


@app.command("decode")
def decode(
    checkpoint: Given = None,
    also: Also = None,
    tokens: Annotated[int, typer.Option(min=1, help="Tokens to time.")] = TOKENS,
    parts: Annotated[bool, typer.Option("--parts", help="A row for each part of a token too.")] = False,
    memory: Annotated[
        list[str] | None,
        typer.Option(help="Decode in so much memory for everything (14GiB), cold and warm; may be given again."),
    ] = None,
    isa: Isa = None,
    threads: Threads = None,
    json_file: Json = None,
) -> None:
    """A decoded token with all weights in memory, against the memory's bandwidth.

    With `--memory` experts and Engram rows have what the planner leaves them, beside max(compute, missed / disk rate).
    """
    if memory and parts:
        raise typer.BadParameter("`--parts` are those of a token with all weights in memory, expected no `--memory`")
    memories = [parse_size(size) for size in memory or ()]

    def rows(run: "Run", progress: "_Progress") -> "Rows":
        from shoal.bench.slim import figure_of

        directory = _given_or_slim(checkpoint, progress)
        if memories:
            yield from run.decode_budget(directory, memories, tokens, progress.total)
            return
        yield from run.decode(directory, figure_of(directory), tokens, parts, progress.total)

    _measure(rows, isa, threads, json_file, also)


@app.command("serve")
def serve(
    checkpoint: Given = None,
    also: Also = None,
    requests: Annotated[int, typer.Option(min=2, help="Requests that run together.")] = REQUESTS,
    tokens: Annotated[
        int | None, typer.Option(min=1, help=f"Tokens of each to time. Default: {TOKENS}; {STREAMED} through a server.")
    ] = None,
    overhead: Annotated[
        bool, typer.Option("--overhead", help="Only what the server adds to a token; needs no checkpoint.")
    ] = False,
    isa: Isa = None,
    threads: Threads = None,
    json_file: Json = None,
) -> None:
    """Tokens a second of several requests decoded together, over those of one; what the server adds to a token.

    The first ratio is to what bytes allow: dense weights once and the union of the step's experts once, for all of
    them. The second is the added time over that of a token of the release at this memory's rate.
    """
    if overhead and checkpoint is not None:
        raise typer.BadParameter("`--overhead` is measured without a model, expected no checkpoint with it")

    def rows(run: "Run", progress: "_Progress") -> "Rows":
        from shoal.serve.beside import serving

        if not overhead:
            yield from run.serve(_given_or_slim(checkpoint, progress), requests, tokens or TOKENS, progress.total)
        yield from run.serve_overhead(requests, tokens or STREAMED, serving)

    _measure(rows, isa, threads, json_file, also)


@app.command("prefill")
def prefill(
    checkpoint: Annotated[Path, typer.Argument(help="A `layers` checkpoint: a few whole layers.")],
    tokens: Annotated[list[int] | None, typer.Option(min=1, help="A prompt's length; may be given again.")] = None,
    rounds: Annotated[int, typer.Option(min=1, help="Passes of each prompt.")] = PASSES,
    config: Annotated[Path | None, typer.Option(help="The model to extrapolate to. Default: the release.")] = None,
    isa: Isa = None,
    threads: Threads = None,
    json_file: Json = None,
) -> None:
    """Prompts of 128 and 2,048 tokens, extrapolated to all layers.

    Seconds = what is outside the layers + for every kind of layer its mean seconds x the number of such layers.
    """

    def rows(run: "Run", progress: "_Progress") -> "Rows":
        yield from run.prefill(_directory(checkpoint), tokens or LENGTHS, rounds, config, progress.total)

    _measure(rows, isa, threads, json_file)


@app.command("load")
def load(checkpoint: Given = None, also: Also = None, json_file: Json = None) -> None:
    """Dense weights past the page cache, through an empty one and from a full one, against the disk's bandwidth."""

    def rows(run: "Run", progress: "_Progress") -> "Rows":
        yield from run.load(_given_or_slim(checkpoint, progress), progress.total)

    _measure(rows, None, 1, json_file, also)


@app.command("io")
def io(checkpoint: Given = None, also: Also = None, json_file: Json = None) -> None:
    """Whole experts and Engram rows (of one token, of a prompt of 512) from the disk, against the disk's bandwidth."""

    def rows(run: "Run", progress: "_Progress") -> "Rows":
        yield from run.io(_given_or_slim(checkpoint, progress))

    _measure(rows, None, 1, json_file, also)


@app.command("policies")
def policies(
    routing: Annotated[Path, typer.Argument(help="What `shoal generate --record-routing` wrote.")],
    share: Annotated[list[float] | None, typer.Option(help="Of all experts held; may be given again.")] = None,
    json_file: Json = None,
) -> None:
    """Which experts are worth their memory: hit rates of each policy on a recorded run."""
    from shoal.bench.policies import SHARES, compare_policies, policy_lines
    from shoal.weights.routing_trace import RoutingTrace

    with Ticker(lambda: "replaying"):
        found = compare_policies(RoutingTrace.load(routing), share or SHARES)
    if json_file is not None:
        write_json(json_file, [{"experts_held": each.num_slots, **each.rates} for each in found])
    print("\n".join(policy_lines(found)))


@dataclass
class _Progress:
    """What is going on: each new thing is said once on stderr, then every few seconds how long it has been."""

    state: str = "starting"

    def say(self, text: str) -> None:
        self.state = text
        print(text, file=sys.stderr, flush=True)

    def total(self, done: int, total: int) -> None:
        self.state = f"loading: {done / GIB:.2f} of {total / GIB:.2f} GiB"


def _measure(
    rows: Callable[["Run", _Progress], "Rows"],
    isa: str | None,
    threads: int | None,
    json_file: Path | None,
    also: list[Path] | None = None,
) -> None:
    progress = _Progress()
    with Ticker(lambda: progress.state):
        # Inside, for importing torch takes seconds too.
        from shoal.bench.run import Run

        run = Run.create(isa or forced_isa(), threads, progress.say, also or ())
        report = run.report(list(rows(run, progress)))
    if json_file is not None:
        write_json(json_file, report.as_dict())
    print("\n".join(report.lines()))


def _directory(checkpoint: Path) -> Path:
    if not checkpoint.is_dir():
        raise CheckpointError(f"`{checkpoint}` is not a directory, wanted a checkpoint directory")
    return checkpoint


def _given_or_slim(checkpoint: Path | None, progress: _Progress) -> Path:
    if checkpoint is not None:
        return _directory(checkpoint)
    from shoal.bench.slim import make_slim

    return make_slim(cache_directory(), progress.say, progress.total)
