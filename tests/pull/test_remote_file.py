import io
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.errors import CheckpointError
from shoal.pull.remote_file import Digest, RemoteFile, check_path, hash_file


def test_digests_are_those_of_sha256_and_of_git() -> None:
    # Known values: `printf 'hello\n' | sha256sum`, `printf 'hello\n' | git hash-object --stdin`.
    known = {
        "sha256": "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03",
        "git": "ce013625030ba8dba906f756967f9e9ca394464a",
    }
    for kind, wanted in known.items():
        hasher = Digest(kind, wanted).hasher(6)
        hash_file(io.BytesIO(b"hello\n"), hasher, lambda nbytes: None)
        assert hasher.hexdigest() == wanted


def test_versions_of_a_file_grow_under_different_names(tmp_path) -> None:
    one, other = (RemoteFile("dir/a", 3, Digest("sha256", 64 * digit)) for digit in "01")
    assert one.part_path(tmp_path, "c") == tmp_path / ".pull" / "dir" / f"a.{16 * '0'}.part"
    assert one.part_path(tmp_path, "c") != other.part_path(tmp_path, "c")
    assert one.final_path(tmp_path) == other.final_path(tmp_path) == tmp_path / "dir" / "a"


@given(st.lists(st.sampled_from(["a", "..", ".", "", "/", ".pull", "b c"]), max_size=6).map("/".join))
def test_a_path_that_passes_stays_inside(path: str) -> None:
    try:
        check_path(path, "hub")
    except CheckpointError:
        return
    inside = os.path.normpath(f"/out/{path}")
    assert inside == f"/out/{path}" and inside.startswith("/out/") and not inside.startswith("/out/.pull/")


@pytest.mark.parametrize("path", ["a", "a/b.json", "inference/examples/images/a b.jpeg", ".gitattributes", "..a/b"])
def test_plain_paths_pass(path: str) -> None:
    check_path(path, "hub")
