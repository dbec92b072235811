"""A file that appears whole or not at all."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from shoal.errors import OptionError

PARTIAL_SUFFIX = ".partial"


def partial_path(path: Path) -> Path:
    """Where the content of `path` grows until it is complete; what a killed process leaves there means nothing."""
    return path.with_name(f".{path.name}{PARTIAL_SUFFIX}")


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Raises `OptionError` naming `path` where the system refuses what is done inside."""
    try:
        yield
    except OSError as problem:
        raise OptionError(
            f"cannot write `{path}`: {problem.strerror}", hint="complete files are kept: run it again"
        ) from problem


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A file to write, which takes the name `path` at the end and is removed when anything goes wrong.

    Raises `OptionError` where the system refuses.
    """
    partial = partial_path(path)
    with writing(path):
        try:
            with partial.open("wb") as file:
                yield file
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)


def holds(path: Path, content: bytes) -> bool:
    """Whether `path` is a file of exactly this content."""
    return path.is_file() and path.stat().st_size == len(content) and path.read_bytes() == content


def ensure(path: Path, content: bytes) -> None:
    """Make `path` a file of this content, unless it is one. Raises `OptionError` where the system refuses."""
    with writing(path):
        if holds(path, content):
            return
    with replacing(path) as file:
        file.write(content)
