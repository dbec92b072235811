"""`shoal audit`: is a download complete, and do its config and its tensors agree; reads headers only."""

from pathlib import Path
from typing import Annotated

import typer

from shoal.cli.more_shards import Also
from shoal.cli.ticker import Ticker


def command(
    directory: Annotated[Path, typer.Argument(help="A checkpoint directory, also one still arriving.")],
    config: Annotated[
        Path | None, typer.Option(help="config.json, or a directory that holds one; default: the directory's.")
    ] = None,
    also: Also = None,
    header_prefix: Annotated[
        bool, typer.Option("--header-prefix", help="The directory holds the shards' first megabytes, under any names.")
    ] = False,
    index: Annotated[Path | None, typer.Option(help="The index; default: the directory's, if it has one.")] = None,
    require_complete: Annotated[
        bool, typer.Option("--require-complete", help="Exit with 1 while anything is undecided.")
    ] = False,
    json_file: Annotated[Path | None, typer.Option("--json", help="Also write the report to this file.")] = None,
    list_tensors: Annotated[
        str | None,
        typer.Option(metavar="PATTERN", help="First list tensors: name, dtype, shape, bytes, shard, between tabs."),
    ] = None,
    expect_fp8_block: Annotated[
        tuple[int, int], typer.Option(metavar="R C", help="Rows and columns that share a scale in dense FP8 weights.")
    ] = (32, 32),
) -> None:
    """Check that a checkpoint is complete and agrees with its config, from headers alone."""
    from shoal.checkpoint.audit import AuditOptions, audit

    if min(expect_fp8_block) < 1:
        raise typer.BadParameter("wanted two numbers above 0", param_hint="--expect-fp8-block")
    options = AuditOptions(
        config=config, also=tuple(also or ()), index=index, header_prefix=header_prefix, fp8_block=expect_fp8_block
    )
    with Ticker(lambda: f"auditing `{directory}`"):
        report = audit(directory, options)
        if json_file is not None:
            report.write_json(json_file)
    for line in [] if list_tensors is None else report.tensor_lines(list_tensors):
        print(line)
    for line in report.lines():
        print(line)
    raise typer.Exit(0 if report.holds(require_complete=require_complete) else 1)
