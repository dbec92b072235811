"""The options of `shoal serve` beside those of loading, as the command line shows them."""

from pathlib import Path
from typing import Annotated

import typer

KEY_VARIABLE = "SHOAL_API_KEY"

Host = Annotated[str, typer.Option(help="The address to listen on; 0.0.0.0 for all of this machine's.")]
Port = Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 takes a free one.")]
ApiKey = Annotated[
    str | None,
    typer.Option(help=f"What clients must send. Others on this machine see it: better a file, or `{KEY_VARIABLE}`."),
]
ApiKeyFile = Annotated[Path | None, typer.Option(metavar="FILE", help="A file of keys, one a line; each is taken.")]
AllowOpen = Annotated[
    bool, typer.Option("--allow-open", help="Serve beyond this machine without a key: anybody may ask.")
]
ModelName = Annotated[str, typer.Option("--served-model-name", metavar="NAME", help="What clients see as the model.")]
MaxRunning = Annotated[int, typer.Option(min=1, help="So many requests run together.")]
PrefixMemory = Annotated[
    str | None,
    typer.Option(metavar="SIZE", help="Memory for what was computed of earlier prompts and replies; 0 keeps nothing."),
]
CacheDir = Annotated[
    Path | None, typer.Option(metavar="DIR", help="Keep it over a restart, in this directory.", file_okay=False)
]
CacheDisk = Annotated[str | None, typer.Option(metavar="SIZE", help="The most that the directory may take.")]
Queue = Annotated[int, typer.Option(min=1, help="So many more may wait; beyond that the answer is 429.")]
Cors = Annotated[
    list[str] | None,
    typer.Option(
        metavar="ORIGIN", help="Web pages of this origin may ask, as in https://chat.example; may be given again."
    ),
]
MaxBody = Annotated[str, typer.Option(metavar="SIZE", help="The largest request.")]
LogRequests = Annotated[
    bool, typer.Option("--log-requests", help="A line on stderr for each request: counts and seconds, never text.")
]
ShutdownSeconds = Annotated[
    float, typer.Option(min=0.0, help="What running requests have to end after Ctrl-C; then they are cut short.")
]
Quiet = Annotated[bool, typer.Option("--quiet", help="Only the address, and errors.")]
