"""The `shoal` command: one file a command, registered here; the only floor that prints."""

from typing import Annotated

import typer

from shoal.cli import audit, bench, chat, config, doctor, engram, eval, generate, plan, pull, serve, synth, trace
from shoal.cli.error_output import print_error
from shoal.errors import ShoalError

app = typer.Typer(
    name="shoal",
    help="DeepSeek-V4.1-Flash from the released files, exact, on the machine you own.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command("generate")(generate.command)
app.command("chat")(chat.command)
app.command("serve")(serve.command)
app.command("trace")(trace.command)
app.command("audit")(audit.command)
app.command("synth")(synth.command)
app.command("plan")(plan.command)
app.command("eval")(eval.command)
app.add_typer(bench.app, name="bench")
app.command("doctor")(doctor.command)
app.command("pull")(pull.command)
app.command("config")(config.command)
app.command("engram")(engram.command)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        print(version("shoal"))
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """DeepSeek-V4.1-Flash from the released files, exact, on the machine you own."""


def main() -> None:
    """Entry point: run a command; a `ShoalError` becomes a sentence and exit code 1."""
    try:
        app()
    except ShoalError as error:
        print_error(error)
        raise SystemExit(1) from None
