import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.checkpoint.index import parse_index, read_index
from shoal.errors import ShardIndexError


def test_the_miniature_has_1568_tensors_in_18_shards(miniature):
    index = read_index(miniature / "model.safetensors.index.json")
    assert len(index.weight_map) == 1568
    assert index.file_names == tuple(f"model-{n:05}-of-00018.safetensors" for n in range(1, 19))
    assert index.metadata == {"total_size": 9199098}


def test_metadata_may_be_absent(write_index):
    assert read_index(write_index({"weight_map": {"w": "a.safetensors"}})).metadata == {}


@pytest.mark.parametrize(
    "file_name",
    [
        "../a.safetensors",
        "/etc/a.safetensors",
        "sub/a.safetensors",
        "sub\\a.safetensors",
        "..safetensors",
        ".safetensors",
        "a.safetensors\0",
        "a\0.safetensors",
        "\ud800.safetensors",
        "a.bin",
        "",
        "a.safetensors/",
        None,
        7,
        ["a.safetensors"],
    ],
)
def test_a_file_name_that_is_not_plain_is_refused(write_index, file_name):
    with pytest.raises(ShardIndexError, match=r"`v` is assigned to .* expected the plain name of a"):
        read_index(write_index({"weight_map": {"w": "a.safetensors", "v": file_name}}))


@pytest.mark.parametrize(
    "index", [{}, {"weight_map": {}}, {"weight_map": []}, {"weight_map": None}, {"weight_map": "w"}]
)
def test_an_index_without_tensors_is_refused(write_index, index):
    with pytest.raises(ShardIndexError, match=r"`weight_map` of .* expected an object"):
        read_index(write_index(index))


def test_metadata_that_is_no_object_is_refused(write_index):
    with pytest.raises(ShardIndexError, match=r"`metadata` of .* is \[\], expected an object"):
        read_index(write_index({"metadata": [], "weight_map": {"w": "a.safetensors"}}))


def test_a_tensor_assigned_twice_is_refused(write_index):
    with pytest.raises(ShardIndexError, match=r"has the key `w` twice"):
        read_index(write_index(b'{"weight_map": {"w": "a.safetensors", "w": "b.safetensors"}}'))


def test_an_index_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(ShardIndexError, match=r"`.*index.json` cannot be read: No such file"):
        read_index(tmp_path / "index.json")
    os.mkfifo(tmp_path / "pipe.json")
    with pytest.raises(ShardIndexError, match=r"not a regular file"):
        read_index(tmp_path / "pipe.json")


def test_a_huge_index_is_refused_unread(tmp_path):
    path = tmp_path / "index.json"
    path.touch()
    os.truncate(path, 1 << 40)
    with pytest.raises(ShardIndexError, match=r"claims 1,099,511,627,776 bytes"):
        read_index(path)


@given(st.data())
def test_a_mutated_index_is_read_or_refused(miniature, data):
    blob = bytearray(b'{"metadata": {"total_size": 1}, "weight_map": {"w": "a.safetensors", "v": "b.safetensors"}}')
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(blob)))
        blob[at : at + data.draw(st.integers(0, 8))] = data.draw(
            st.binary(max_size=4) | st.sampled_from([b"{" * 40, b"../"])
        )
    try:
        index = parse_index(bytes(blob), miniature)
    except ShardIndexError as problem:
        assert problem.message.isprintable()
        return
    assert not any("/" in name or "\0" in name for name in index.file_names)
