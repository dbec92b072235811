"""How every command says that something is wrong."""

import sys

from shoal.errors import ShoalError


def print_error(error: ShoalError) -> None:
    """Print `error` (and its hint) to stderr."""
    print(f"error: {error.message}", file=sys.stderr)
    if error.hint:
        print(f"\nhint: {error.hint}", file=sys.stderr)
