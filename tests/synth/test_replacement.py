import os
from pathlib import Path

import pytest

from shoal.errors import OptionError
from shoal.synth.replacement import ensure, partial_path, replacing


def test_a_file_appears_when_it_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with replacing(path) as file:
        file.write(b"content")
        assert [entry.name for entry in tmp_path.iterdir()] == [partial_path(path).name]
    assert [(entry.name, entry.read_bytes()) for entry in tmp_path.iterdir()] == [("file", b"content")]


@pytest.mark.parametrize("problem", [KeyboardInterrupt, RuntimeError])
def test_what_was_there_stays_when_writing_is_interrupted(problem: type[BaseException], tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"before")
    with pytest.raises(problem), replacing(path) as file:
        file.write(b"half")
        raise problem
    assert [(entry.name, entry.read_bytes()) for entry in tmp_path.iterdir()] == [("file", b"before")]


def test_a_refusal_of_the_system_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "absent" / "file"
    with pytest.raises(OptionError, match=f"cannot write `{path}`: No such file or directory"), replacing(path):
        pass


def test_a_file_that_is_already_right_is_not_written(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"content")
    os.utime(path, ns=(1, 1))
    ensure(path, b"content")
    assert path.stat().st_mtime_ns == 1
    ensure(path, b"Content")
    assert path.read_bytes() == b"Content"
