"""Where Shoal keeps what it can rebuild."""

import os
from pathlib import Path


def cache_directory() -> Path:
    """`$XDG_CACHE_HOME/shoal`, else `~/.cache/shoal`."""
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "shoal"
