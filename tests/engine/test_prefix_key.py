"""Keys of prefixes: equal for one model wherever it lies, another for whatever could change a bit."""

import dataclasses
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from miniature import MINI
from shoal.checkpoint.shards import Checkpoint
from shoal.config.layouts import load_config
from shoal.engine import prefix_key as module
from shoal.engine.prefix_key import SAMPLE_NBYTES, prefix_key
from shoal.errors import TokenizerError

CONFIG = load_config(MINI)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The random miniature, times kept."""
    return Path(shutil.copytree(MINI, tmp_path / "copy"))


def key(directory: Path, arithmetic: str = "native") -> str:
    with Checkpoint.open(directory) as checkpoint:
        return prefix_key(checkpoint, CONFIG, directory / "tokenizer.json", arithmetic)


def shard(directory: Path) -> Path:
    return max(directory.glob("*.safetensors"), key=lambda path: path.stat().st_size)


def test_a_copy_that_kept_its_times_has_the_same_key(copy: Path) -> None:
    assert len(key(copy)) == 64 and key(copy) == key(MINI)


def later(directory: Path) -> None:
    os.utime(shard(directory), ns=(0, shard(directory).stat().st_mtime_ns + 1))


def flipped(place: Callable[[int], int]) -> Callable[[Path], None]:
    def flip(directory: Path) -> None:
        path, times = shard(directory), shard(directory).stat()
        content = bytearray(path.read_bytes())
        content[place(len(content))] ^= 1
        path.write_bytes(content)
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))

    return flip


def other_tokenizer(directory: Path) -> None:
    path = directory / "tokenizer.json"
    path.write_bytes(path.read_bytes() + b"\n")


def other_name(directory: Path) -> None:
    (directory / "model.safetensors.index.json").unlink(missing_ok=True)
    shard(directory).rename(directory / "other.safetensors")


CHANGES = {
    "a time": later,
    "the last bytes": flipped(lambda nbytes: nbytes - 1),
    "a sample": flipped(lambda nbytes: (nbytes - SAMPLE_NBYTES) * 3 // 7 + 100),
    "the tokenizer": other_tokenizer,
    "a shard's name": other_name,
}


@pytest.mark.parametrize("change", CHANGES)
def test_another_file_is_another_key(copy: Path, change: str) -> None:
    before = key(copy)
    CHANGES[change](copy)
    assert key(copy) != before


def test_another_arithmetic_config_or_version_is_another_key(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = [key(MINI), key(MINI, "wide")]
    with Checkpoint.open(MINI) as checkpoint:
        config = dataclasses.replace(CONFIG, route_scale=2.0)
        keys.append(prefix_key(checkpoint, config, MINI / "tokenizer.json", "native"))
    with monkeypatch.context() as patch:
        patch.setattr(module, "ARITHMETIC_VERSION", module.ARITHMETIC_VERSION + 1)
        keys.append(key(MINI))
    with monkeypatch.context() as patch:
        patch.setattr(module, "engine_version", lambda: "9.9.9")
        keys.append(key(MINI))
    assert len(set(keys)) == len(keys)


def test_a_tokenizer_that_cannot_be_read_is_named(copy: Path) -> None:
    (copy / "tokenizer.json").unlink()
    with pytest.raises(TokenizerError, match=r"tokenizer\.json` cannot be read"):
        key(copy)
