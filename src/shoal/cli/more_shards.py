"""The option of every command that opens a checkpoint whose shards lie in several directories."""

from pathlib import Path
from typing import Annotated

import typer

Also = Annotated[
    list[Path] | None, typer.Option(metavar="DIR", help="More shards are in this directory; may be given again.")
]
