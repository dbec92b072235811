from dataclasses import replace
from pathlib import Path

import pytest

from shoal.errors import OptionError
from shoal.synth.manifest import MANIFEST_NAME, Manifest, check_directory

MANIFEST = Manifest("slim", 3, 48, "ab" * 32)


def test_a_new_an_empty_and_a_begun_directory_will_do(tmp_path: Path) -> None:
    check_directory(tmp_path / "new", MANIFEST)
    check_directory(tmp_path, MANIFEST)
    (tmp_path / MANIFEST_NAME).write_bytes(MANIFEST.encode())
    (tmp_path / "tokenizer.json").write_bytes(b"added later")
    check_directory(tmp_path, MANIFEST)


def test_a_directory_of_somebody_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_bytes(b"{}")
    with pytest.raises(OptionError, match=f"`{tmp_path}` holds something else: no `synth.json`"):
        check_directory(tmp_path, MANIFEST)


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ({"seed": 4}, "`seed` is 4, expected 3"),
        ({"seed": None}, "`seed` is null, expected 3"),
        ({"preset": "layers"}, '`preset` is "layers", expected "slim"'),
        ({"shards": 47}, "`shards` is 47, expected 48"),
        ({"payload_version": 0}, "`payload_version` is 0, expected 1"),
    ],
)
def test_other_options_are_named(change: dict[str, object], found: str, tmp_path: Path) -> None:
    (tmp_path / MANIFEST_NAME).write_bytes(replace(MANIFEST, **change).encode())  # type: ignore[arg-type]
    with pytest.raises(OptionError, match=f"was made from other options: {found}$"):
        check_directory(tmp_path, MANIFEST)


@pytest.mark.parametrize("content", [b"", b"[]", b"\xff", b'{"made_by": 1}', b"[" * 100_000])
def test_a_spoilt_manifest_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / MANIFEST_NAME).write_bytes(content)
    with pytest.raises(OptionError, match="was made from other options"):
        check_directory(tmp_path, MANIFEST)


def test_a_file_in_the_way_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to("nowhere")
    for name in ("file", "link"):
        with pytest.raises(OptionError, match="is not a directory, expected one to create or complete"):
            check_directory(tmp_path / name, MANIFEST)
