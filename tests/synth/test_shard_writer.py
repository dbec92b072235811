from pathlib import Path

import pytest
from safetensors import safe_open

from shoal.checkpoint.header import read_header
from shoal.checkpoint.inventory import TensorSpec
from shoal.checkpoint.shard_layout import PlacedTensor, ShardLayout, header_bytes
from shoal.errors import OptionError
from shoal.synth.payload import Payload
from shoal.synth.shard_writer import ShardWriter

SPECS = [TensorSpec("norm.weight", "BF16", (6,), "x"), TensorSpec("layers.0.attn.wq_a.weight", "F8_E4M3", (5, 7), "x")]
SHARD = ShardLayout("one.safetensors", (PlacedTensor(SPECS[0], 0, 12), PlacedTensor(SPECS[1], 12, 47)))
HEADER = header_bytes(SHARD)


def test_tensors_lie_where_the_header_says(tmp_path: Path) -> None:
    payload = Payload(5)
    written: list[int] = []
    ShardWriter(tmp_path, payload).write(SHARD, HEADER, written.append)
    content = (tmp_path / "one.safetensors").read_bytes()
    assert sum(written) == len(content)
    for name, entry in read_header(tmp_path / "one.safetensors").tensors.items():
        spec = next(spec for spec in SPECS if spec.name == name)
        assert content[entry.start : entry.end] == b"".join(payload.portions(spec))
    with safe_open(tmp_path / "one.safetensors", "pt") as shard:
        assert set(shard.keys()) == {spec.name for spec in SPECS}


def test_holes_read_as_zeros_and_take_no_space(tmp_path: Path) -> None:
    huge = ShardLayout("one.safetensors", (PlacedTensor(TensorSpec("t", "I8", (2**36,), "x"), 0, 2**36),))
    header = header_bytes(huge)
    writer = ShardWriter(tmp_path, None)
    writer.write(huge, header, lambda nbytes: None)
    path = tmp_path / "one.safetensors"
    assert path.stat().st_size == len(header) + 2**36
    assert path.stat().st_blocks * 512 < 2**20
    assert writer.nbytes_to_write(huge, header) == len(header)
    with path.open("rb") as file:
        file.seek(-9, 2)
        assert file.read() == bytes(9)


@pytest.mark.parametrize("payload", [Payload(5), None], ids=["random", "holes"])
def test_a_shard_is_complete_when_it_was_written_whole(payload: Payload | None, tmp_path: Path) -> None:
    writer = ShardWriter(tmp_path, payload)
    assert not writer.is_complete(SHARD, HEADER)
    writer.write(SHARD, HEADER, lambda nbytes: None)
    assert writer.is_complete(SHARD, HEADER)
    path = tmp_path / "one.safetensors"
    whole = path.read_bytes()
    for spoilt in (whole[:-1], whole + b"\0", whole.replace(b"BF16", b"F16 "), b""):
        path.write_bytes(spoilt)
        assert not writer.is_complete(SHARD, HEADER)


def test_a_directory_in_the_way_is_named(tmp_path: Path) -> None:
    (tmp_path / "one.safetensors" / "full").mkdir(parents=True)
    with pytest.raises(OptionError, match=r"cannot write `.*one\.safetensors`"):
        ShardWriter(tmp_path, None).write(SHARD, HEADER, lambda nbytes: None)
    assert [path.name for path in tmp_path.iterdir()] == ["one.safetensors"]
