import os
from pathlib import Path

import pytest

from shoal.pull.receipts import Receipts
from shoal.pull.remote_file import WORK_DIRECTORY, Digest, RemoteFile

FILE = RemoteFile("dir/a", 3, Digest("sha256", "ab"))


@pytest.fixture
def out(tmp_path: Path) -> Path:
    (tmp_path / "dir").mkdir()
    (tmp_path / WORK_DIRECTORY).mkdir()
    (tmp_path / "dir" / "a").write_bytes(b"abc")
    receipts = Receipts(tmp_path)
    assert not receipts.covers(FILE)
    receipts.add(FILE)
    receipts.save()
    return tmp_path


def test_a_receipt_is_kept_between_runs(out: Path) -> None:
    assert Receipts(out).covers(FILE)
    assert [path.name for path in (out / WORK_DIRECTORY).iterdir()] == ["verified.json"]


def test_a_touched_file_and_another_version_have_none(out: Path) -> None:
    assert not Receipts(out).covers(RemoteFile("dir/a", 3, Digest("sha256", "cd")))
    os.utime(out / "dir" / "a", ns=(1, 1))
    assert not Receipts(out).covers(FILE)


@pytest.mark.parametrize("text", ["", "[]", "{", '{"dir/a": 3}', '{"dir/a": [1, 2]}', '{"dir/a": ["ab", 3]}'])
def test_a_damaged_record_is_no_record(out: Path, text: str) -> None:
    (out / WORK_DIRECTORY / "verified.json").write_text(text)
    assert not Receipts(out).covers(FILE)
