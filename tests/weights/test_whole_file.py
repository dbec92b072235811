import errno
import os
import signal
import subprocess
import sys
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


KILLED = """
import sys
from pathlib import Path
from shoal.weights.whole_file import write_whole

def parts():
    yield "x" * 1_000_000
    print("half", flush=True)
    sys.stdin.read()

write_whole(Path(sys.argv[1]), parts())
"""


def test_a_writer_killed_in_the_middle_leaves_the_old_file(tmp_path: Path) -> None:
    write_whole(tmp_path / "f", ["old"])
    command = [sys.executable, "-c", KILLED, str(tmp_path / "f")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None and writer.stdout.readline() == b"half\n"
        writer.kill()
    assert writer.returncode == -signal.SIGKILL
    assert (tmp_path / "f").read_text() == "old"
    write_whole(tmp_path / "f", ["new"])
    assert (tmp_path / "f").read_text() == "new"


LIMITED = """
import resource, sys
from pathlib import Path
from shoal.errors import OptionError
from shoal.weights.whole_file import write_whole

resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try:
    write_whole(Path(sys.argv[1]), ["x" * 70_000] * 2)
except OptionError as error:
    print(error.message)
"""


def test_a_write_that_stops_halfway_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    write_whole(tmp_path / "f", ["old"])
    command = [sys.executable, "-c", LIMITED, str(tmp_path / "f")]
    assert subprocess.check_output(command, text=True) == f"cannot write `{tmp_path}/f`: File too large\n"
    assert (tmp_path / "f").read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["f"]
