import gc
import json
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors import safe_open

import shoal.errors
from shoal.checkpoint.shards import Checkpoint
from shoal.errors import (
    CheckpointError,
    FileChangedError,
    HeaderError,
    ShardIndexError,
    ShoalError,
    TensorError,
)

FLOATS = np.arange(6, dtype=np.float32)


@pytest.fixture(scope="module")
def mini(miniature):
    with Checkpoint.open(miniature) as checkpoint:
        yield checkpoint


def test_the_miniature_opens_through_its_index(mini, miniature):
    weight_map = json.loads((miniature / "model.safetensors.index.json").read_text())["weight_map"]
    assert mini.names() == tuple(weight_map)
    assert all(mini.entry(name).path == miniature / file_name for name, file_name in weight_map.items())
    assert sum(map(mini.nbytes, mini.names())) == 9199098


def test_the_miniature_opens_without_its_index(mini, miniature, tmp_path):
    for path in miniature.glob("*.safetensors"):
        (tmp_path / path.name).symlink_to(path)
    with Checkpoint.open(tmp_path) as checkpoint:
        assert set(checkpoint.names()) == set(mini.names())
        for name in mini.names():
            assert torch.equal(checkpoint.tensor(name), mini.tensor(name))


def test_shards_may_lie_in_several_directories(mini, halves):
    first, other = halves
    with Checkpoint.open(first, also=[other]) as checkpoint:
        assert checkpoint.names() == mini.names()
        assert {checkpoint.entry(name).path.parent for name in checkpoint.names()} == {first, other}
        assert checkpoint.directory == first
        for name in mini.names():
            assert torch.equal(checkpoint.tensor(name), mini.tensor(name))


def test_a_directory_of_more_shards_that_is_none_is_named(halves):
    first, other = halves
    with pytest.raises(CheckpointError, match=r"`.*/absent` does not exist, expected a checkpoint directory"):
        Checkpoint.open(first, also=[other, other / "absent"])
    with pytest.raises(CheckpointError, match=r"`.*config.json` is not a directory"):
        Checkpoint.open(first, also=[first / "config.json"])


def test_every_tensor_equals_what_the_safetensors_library_reads(mini, miniature):
    seen = 0
    for path in sorted(miniature.glob("*.safetensors")):
        with safe_open(path, "pt") as file:
            for name in file.keys():  # noqa: SIM118
                theirs = file.get_tensor(name)
                raw = theirs.reshape(-1).view(torch.uint8).numpy().tobytes()
                for ours in (mini.tensor(name), mini.read(name)):
                    assert ours.shape == theirs.shape
                    assert ours.dtype == (
                        theirs.dtype if theirs.dtype in (torch.bfloat16, torch.float32) else torch.uint8
                    )
                    assert ours.reshape(-1).view(torch.uint8).numpy().tobytes() == raw
                assert mini.read_bytes(name) == raw
                seen += 1
    assert seen == 1568


@given(st.data())
def test_rows_equal_those_of_the_tensor(mini, data):
    name = data.draw(st.sampled_from(["embed.weight", "layers.0.attn.attn_sink", "layers.0.ffn.experts.0.w1.scale"]))
    tensor = mini.tensor(name)
    rows = data.draw(st.lists(st.integers(0, tensor.shape[0] - 1), max_size=9))
    ids = torch.tensor(rows, dtype=torch.int64)
    for row_ids in (ids, ids.numpy()):
        assert torch.equal(mini.read_rows(name, row_ids), tensor[ids])


def test_codes_come_as_bytes(write_tensors):
    path = write_tensors({name: (name, [2], b"\x81\xff") for name in ("F8_E4M3", "F8_E8M0", "I8", "U8")})
    with Checkpoint.open(path.parent) as checkpoint:
        for name in checkpoint.names():
            assert checkpoint.tensor(name).dtype == torch.uint8
            assert checkpoint.read(name).tolist() == [0x81, 0xFF]


def test_a_view_is_not_a_copy_and_a_read_is(write_tensors):
    with Checkpoint.open(write_tensors({"w": ("F32", [6], FLOATS.tobytes())}).parent) as checkpoint:
        view, again, read = checkpoint.tensor("w"), checkpoint.tensor("w"), checkpoint.read("w")
        assert view.data_ptr() == again.data_ptr()
        read.zero_()
        assert view.tolist() == FLOATS.tolist()


@pytest.mark.parametrize("offset", range(5))
def test_misaligned_tensors_are_read(write_tensors, offset):
    tensors = {
        "f": ("F32", [2, 3], FLOATS.tobytes()),
        "b": (
            "BF16",
            [3],
            torch.tensor([1.0, -2.0, 0.5], dtype=torch.bfloat16).view(torch.uint8).numpy().tobytes(),
        ),
        "scalar": ("F32", [], FLOATS[3:4].tobytes()),
        "empty": ("F32", [0, 7], b""),
    }
    with Checkpoint.open(write_tensors(tensors, offset=offset).parent) as checkpoint:
        for get in (checkpoint.tensor, checkpoint.read):
            assert get("f").tolist() == FLOATS.reshape(2, 3).tolist()
            assert get("b").tolist() == [1.0, -2.0, 0.5]
            assert get("scalar").item() == 3.0
            assert get("empty").shape == (0, 7)
        assert checkpoint.read_rows("f", np.array([1, 0, 1])).tolist() == FLOATS.reshape(2, 3)[[1, 0, 1]].tolist()
        assert checkpoint.read_rows("empty", np.zeros(0, np.int64)).shape == (0, 7)


@pytest.mark.parametrize("row", [-1, 2, 2**62, -(2**63)])
def test_a_row_out_of_range_is_named(write_tensors, row):
    with Checkpoint.open(write_tensors({"w": ("U8", [2, 3], b"abcdef")}).parent) as checkpoint:
        found = f"row {row} of `w` in .* does not exist, expected one from 0 to 1"
        with pytest.raises(TensorError, match=found):
            checkpoint.read_rows("w", np.array([0, row]))


def test_a_scalar_has_no_rows(write_tensors):
    with Checkpoint.open(write_tensors({"w": ("U8", [], b"a")}).parent) as checkpoint:
        rows = np.array([0])
        with pytest.raises(TensorError, match=r"`w` of .* is a scalar, expected rows"):
            checkpoint.read_rows("w", rows)


def test_an_unknown_name_is_an_error_everywhere(mini):
    assert "embed.weight" in mini and "absent" not in mini
    for access in (mini.entry, mini.nbytes, mini.check, mini.tensor, mini.read, mini.read_bytes):
        with pytest.raises(TensorError, match=r"`absent` is not in the checkpoint `.*mini`"):
            access("absent")


def test_a_foreign_dtype_fails_only_for_its_tensor(write_tensors):
    with Checkpoint.open(write_tensors({"half": ("F16", [1], b"ab"), "w": ("U8", [1], b"c")}).parent) as checkpoint:
        for access in (
            checkpoint.tensor,
            checkpoint.read,
            lambda name: checkpoint.read_rows(name, np.array([0])),
        ):
            assert access("w").tolist() == [ord("c")]
            with pytest.raises(TensorError, match=r"`half` is F16 in .* expected one of F8_E4M3"):
                access("half")
        assert checkpoint.read_bytes("half") == b"ab"


def test_a_path_beyond_ascii_is_opened(tmp_path, miniature):
    shutil.copytree(miniature, tmp_path / "模型 ü")
    with Checkpoint.open(tmp_path / "模型 ü") as checkpoint:
        assert checkpoint.read("norm.weight").dtype == torch.bfloat16


def test_a_relative_path_survives_a_change_of_directory(write_tensors, monkeypatch, tmp_path):
    write_tensors({"w": ("U8", [1], b"a")})
    monkeypatch.chdir(tmp_path.parent)
    with Checkpoint.open(tmp_path.name) as checkpoint:
        monkeypatch.chdir("/")
        assert checkpoint.read_bytes("w") == b"a"


def test_what_is_wrong_with_a_directory_is_raised_at_open(tmp_path, write_tensors, write_index, write_shard):
    with pytest.raises(CheckpointError, match=r"holds neither"):
        Checkpoint.open(tmp_path)
    path = write_tensors({"a.weight": ("I8", [1], b"a")})
    with pytest.raises(TensorError, match=r"a.scale"):
        Checkpoint.open(tmp_path)
    write_index({"weight_map": {"b": path.name}})
    with pytest.raises(ShardIndexError, match=r"`b` is not in"):
        Checkpoint.open(tmp_path)
    write_index({"weight_map": {"b": "absent.safetensors"}})
    with pytest.raises(CheckpointError, match=r"lacks 1 of 1"):
        Checkpoint.open(tmp_path)
    write_shard(b"{", name="absent.safetensors")
    with pytest.raises(HeaderError, match=r"`.*absent.safetensors` does not hold valid JSON"):
        Checkpoint.open(tmp_path)


def num_descriptors():
    return len(list(Path("/proc/self/fd").iterdir()))


def test_a_failed_open_gives_its_descriptors_back(tmp_path, write_tensors, write_shard):
    write_tensors({"w": ("U8", [1], b"a")})
    write_shard(b"{", name="z.safetensors")
    before = num_descriptors()
    with pytest.raises(HeaderError):
        Checkpoint.open(tmp_path)
    assert num_descriptors() == before
    assert gc.isenabled()


def test_a_vanished_shard_is_an_error_at_every_access(write_tensors):
    path = write_tensors({"w": ("U8", [2], b"ab")})
    with Checkpoint.open(path.parent) as checkpoint:
        path.unlink()
        for access in (checkpoint.check, checkpoint.tensor, checkpoint.read, checkpoint.read_bytes):
            with pytest.raises(FileChangedError, match=r"`.*a.safetensors` is gone"):
                access("w")
        with pytest.raises(FileChangedError):
            checkpoint.read_rows("w", np.array([0]))


def test_a_link_moved_to_another_shard_is_an_error(write_tensors, tmp_path):
    blobs = [write_tensors({"w": ("U8", [1], b"a")}, name=name) for name in ("one", "two")]
    link = tmp_path / "a.safetensors"
    link.symlink_to(blobs[0])
    with Checkpoint.open(tmp_path) as checkpoint:
        assert checkpoint.read_bytes("w") == b"a"
        link.unlink()
        link.symlink_to(blobs[1])
        with pytest.raises(FileChangedError, match=r"was replaced by another file"):
            checkpoint.tensor("w")


GIB = 1 << 30
PROBE = """
import sys, resource
import numpy as np
from shoal.checkpoint.shards import Checkpoint
resource.setrlimit(resource.RLIMIT_DATA, (4 << 30, 4 << 30))
with Checkpoint.open(sys.argv[1]) as checkpoint:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    rows = checkpoint.entry("table").shape[0]
    print(checkpoint.tensor("table")[-1].numpy().tobytes().hex())
    print(checkpoint.read_rows("table", np.array([0, rows - 1])).numpy().tobytes().hex())
    print(checkpoint.read("after").tolist())
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def test_the_last_row_of_a_100_gib_table_costs_no_memory(tmp_path):
    rows, width = 100 * GIB // 256, 256
    header = json.dumps(
        {
            "table": {"dtype": "U8", "shape": [rows, width], "data_offsets": [0, rows * width]},
            "after": {"dtype": "F32", "shape": [1], "data_offsets": [rows * width, rows * width + 4]},
        }
    ).encode()
    path = tmp_path / "big.safetensors"
    last = bytes(range(256))
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(header)) + header)
        file.seek(8 + len(header) + (rows - 1) * width)
        file.write(last + struct.pack("<f", 2.5))
    source = Path(shoal.errors.__file__).parent.parent
    done = subprocess.run(
        [sys.executable, "-c", PROBE, tmp_path],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": source},
    )
    view, read, after, grown_kib = done.stdout.split()
    assert view == last.hex()
    assert read == (bytes(256) + last).hex()
    assert after == "[2.5]"
    assert int(grown_kib) < 64 * 1024


@given(st.data())
def test_a_mutated_shard_opens_or_is_refused(miniature, tmp_path_factory, data):
    root = tmp_path_factory.getbasetemp() / "mutated"
    root.mkdir(exist_ok=True)
    blob = bytearray((miniature / "model-00013-of-00018.safetensors").read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        blob[data.draw(st.integers(0, 400))] = data.draw(st.integers(0, 255))
    (root / "a.safetensors").write_bytes(blob[: data.draw(st.integers(0, len(blob)) | st.just(len(blob)))])
    try:
        with Checkpoint.open(root) as checkpoint:
            for name in checkpoint.names():
                assert len(checkpoint.read_bytes(name)) == checkpoint.nbytes(name)
    except ShoalError as problem:
        assert problem.message.isprintable()


def test_a_closed_checkpoint_is_refused(write_tensors):
    checkpoint = Checkpoint.open(write_tensors({"w": ("U8", [1], b"a")}).parent)
    view = checkpoint.tensor("w")
    checkpoint.close()
    assert view.tolist() == [ord("a")]
    with pytest.raises(ValueError, match=r"closed"):
        checkpoint.read("w")
