import errno
import os
from pathlib import Path

import pytest

from shoal.errors import OptionError
from shoal.weights.whole_file import write_whole


def test_a_file_is_written_over_another(tmp_path: Path) -> None:
    for text in ("one", "two"):
        write_whole(tmp_path / "f", [text, "\n"])
        assert (tmp_path / "f").read_text() == f"{text}\n"
    assert [path.name for path in tmp_path.iterdir()] == ["f"]


@pytest.mark.parametrize("place", ["fsync", "replace"])
def test_a_full_disk_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    write_whole(tmp_path / "f", ["old"])

    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(*((os, "fsync", fail) if place == "fsync" else (Path, "replace", fail)))
    with pytest.raises(OptionError, match=rf"cannot write `{tmp_path}/f`: No space left on device"):
        write_whole(tmp_path / "f", ["new"])
    assert (tmp_path / "f").read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["f"]


def test_a_directory_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"cannot write .*none/f`: No such file"):
        write_whole(tmp_path / "none" / "f", ["x"])
