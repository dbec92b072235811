"""A file system that has no O_DIRECT."""

import errno
import os
from pathlib import Path

import pytest


def refuse_direct_opens(monkeypatch: pytest.MonkeyPatch) -> None:
    """Opening with the flag fails as such a file system lets it fail."""
    really = os.open

    def open_(path: Path, flags: int, *more: int) -> int:
        if flags & os.O_DIRECT:
            raise OSError(errno.EINVAL, "Invalid argument")
        return really(path, flags, *more)

    monkeypatch.setattr(os, "open", open_)
