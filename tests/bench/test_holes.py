"""What has any hole is not measured."""

import os
from pathlib import Path

from shoal.bench.holes import Span, without_holes

WRITTEN = 1 << 20


def half_written(path: Path) -> Path:
    with path.open("wb") as file:
        file.write(os.urandom(WRITTEN))
        file.truncate(4 * WRITTEN)
        os.fsync(file.fileno())
    return path


def test_only_what_is_wholly_written_is_left_in_its_order(tmp_path: Path) -> None:
    path, other = half_written(tmp_path / "a"), half_written(tmp_path / "b")
    found = without_holes(
        {
            "whole": [Span(path, 0, WRITTEN)],
            "hole": [Span(path, 2 * WRITTEN, 10)],
            "both": [Span(path, 0, 10), Span(other, WRITTEN, 10)],
            "across": [Span(path, WRITTEN - 10, 20)],
            "two": [Span(other, 100, 10), Span(path, WRITTEN - 10, 10)],
            "nothing": [],
        }
    )
    assert found == ["whole", "two", "nothing"]
