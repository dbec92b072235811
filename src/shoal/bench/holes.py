"""The holes of sparse files. They are answered without the disk, so nothing that has one is ever measured."""

import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple, TypeVar

from shoal.plan.disk_probe import holds_data

Name = TypeVar("Name")


class Span(NamedTuple):
    """Bytes of a file."""

    path: Path
    start: int
    nbytes: int


def without_holes(spans: Mapping[Name, Sequence[Span]]) -> list[Name]:
    """The names of which every byte is on the disk, in their order."""
    fds = dict[Path, int]()
    with ExitStack() as stack:

        def is_written(span: Span) -> bool:
            if span.path not in fds:
                fds[span.path] = os.open(span.path, os.O_RDONLY | os.O_CLOEXEC)
                stack.callback(os.close, fds[span.path])
            return holds_data(fds[span.path], span.start, span.nbytes)

        return [name for name, parts in spans.items() if all(map(is_written, parts))]
