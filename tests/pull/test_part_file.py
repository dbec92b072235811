import hashlib
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.errors import CheckpointError, OptionError
from shoal.pull.part_file import PartFile, writing
from shoal.pull.remote_file import Digest, RemoteFile

CONTENT = bytes(range(256)) * 20


def remote(content: bytes = CONTENT, kind: str = "sha256") -> RemoteFile:
    blob = b"blob %d\0" % len(content) + content
    digests = {"sha256": hashlib.sha256(content).hexdigest(), "git": hashlib.sha1(blob).hexdigest()}
    return RemoteFile("a", len(content), Digest(kind, digests[kind]))


def part(path: Path, file: RemoteFile | None = None) -> PartFile:
    return PartFile(path, file or remote(), lambda nbytes: None)


@settings(max_examples=40)
@given(st.lists(st.integers(0, len(CONTENT)), max_size=5), st.sampled_from(["sha256", "git"]), st.booleans())
def test_any_pieces_over_any_number_of_runs_make_the_file(tmp_path: Path, cuts, kind: str, reopen: bool) -> None:
    path, file = tmp_path / "dir" / "part", remote(kind=kind)
    path.unlink(missing_ok=True)
    growing = part(path, file)
    for start, end in pairwise([0, *sorted(cuts), len(CONTENT)]):
        growing.append(CONTENT[start:end])
        if reopen:
            growing.__exit__(None, None, None)
            growing = part(path, file)
        assert growing.nbytes == end
    with growing:
        growing.check()
        growing.finish(tmp_path / "out" / "a")
    assert (tmp_path / "out" / "a").read_bytes() == CONTENT
    assert not path.exists()


@settings(max_examples=40)
@given(st.integers(0, len(CONTENT) - 1), st.integers(0, 7))
def test_any_flipped_bit_is_noticed(tmp_path: Path, place: int, bit: int) -> None:
    (tmp_path / "part").unlink(missing_ok=True)
    wrong = bytearray(CONTENT)
    wrong[place] ^= 1 << bit
    with part(tmp_path / "part") as growing:
        growing.append(wrong)
        with pytest.raises(CheckpointError, match=r"`a` arrived with the sha256 .*, expected "):
            growing.check()


def test_an_empty_file_is_whole_at_once(tmp_path: Path) -> None:
    with part(tmp_path / "part", remote(b"")) as growing:
        growing.check()


def test_a_short_file_is_not_whole(tmp_path: Path) -> None:
    with part(tmp_path / "part") as growing:
        growing.append(CONTENT[:-1])
        with pytest.raises(CheckpointError, match="arrived with 5,119 bytes, expected 5,120"):
            growing.check()


def test_more_bytes_than_the_file_has_are_refused(tmp_path: Path) -> None:
    with part(tmp_path / "part") as growing, pytest.raises(CheckpointError, match="goes on after 5,120 bytes"):
        growing.append(CONTENT + b"x")


def test_a_part_that_is_too_long_begins_anew(tmp_path: Path) -> None:
    (tmp_path / "part").write_bytes(CONTENT + b"x")
    with part(tmp_path / "part") as growing:
        assert growing.nbytes == 0


def test_a_part_is_never_written_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "part").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OptionError, match="cannot be written"):
        part(tmp_path / "part")
    assert not (tmp_path / "elsewhere").exists()


def test_only_a_full_disk_is_told_to_be_freed() -> None:
    for number, hinted in ((28, True), (122, True), (13, False)):
        with pytest.raises(OptionError) as caught, writing(Path("p")):
            raise OSError(number, "why")
        assert caught.value.message == "`p` cannot be written: why"
        assert bool(caught.value.hint) == hinted
