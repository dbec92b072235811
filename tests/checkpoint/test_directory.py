import pytest

from shoal.checkpoint.directory import check_scales, find_index, locate_tensors, shard_names
from shoal.checkpoint.header import TensorEntry, read_header
from shoal.checkpoint.index import parse_index
from shoal.errors import CheckpointError, ShardIndexError, TensorError

ONE_BYTE = ("U8", [1], b"x")


def test_a_directory_that_is_none_is_named(tmp_path):
    with pytest.raises(CheckpointError, match=r"`.*absent` does not exist, expected a checkpoint directory"):
        find_index(tmp_path / "absent")
    (tmp_path / "file").touch()
    with pytest.raises(CheckpointError, match=r"`.*file` is not a directory"):
        find_index(tmp_path / "file")


def test_an_index_link_that_points_nowhere_is_not_taken_for_no_index(tmp_path):
    assert find_index(tmp_path) is None
    (tmp_path / "model.safetensors.index.json").symlink_to(tmp_path / "nowhere")
    with pytest.raises(ShardIndexError, match=r"cannot be read"):
        find_index(tmp_path)


def test_an_empty_directory_is_named(tmp_path):
    with pytest.raises(CheckpointError, match=r"holds neither `model.safetensors.index.json` nor any"):
        shard_names(tmp_path, None)


def test_absent_shards_are_counted_and_the_first_named(tmp_path, write_tensors):
    write_tensors({"w": ONE_BYTE}, name="3.safetensors")
    index = parse_index(
        b'{"weight_map": {%s}}' % b",".join(b'"%d": "%d.safetensors"' % (n, n) for n in range(9)), tmp_path
    )
    with pytest.raises(CheckpointError) as caught:
        shard_names(tmp_path, index)
    assert "lacks 8 of 9 shards: `0.safetensors`, `1.safetensors`, `2.safetensors`, `4.safetensors`, " in str(
        caught.value
    )
    assert str(caught.value).endswith("`5.safetensors` and 3 more")


def test_a_shard_link_that_points_nowhere_is_absent(tmp_path):
    (tmp_path / "a.safetensors").symlink_to(tmp_path / "nowhere")
    with pytest.raises(CheckpointError, match=r"lacks 1 of 1 shards: `a.safetensors`"):
        shard_names(tmp_path, None)


def test_only_the_shards_an_index_names_are_opened(tmp_path, write_tensors):
    for name in ("a", "b"):
        write_tensors({"w": ONE_BYTE}, name=f"{name}.safetensors")
    assert shard_names(tmp_path, None) == ("a.safetensors", "b.safetensors")
    assert shard_names(tmp_path, parse_index(b'{"weight_map": {"w": "b.safetensors"}}', tmp_path)) == ("b.safetensors",)


def test_a_tensor_missing_from_its_shard_is_named(tmp_path, write_tensors):
    headers = {
        f"{name}.safetensors": read_header(write_tensors({name: ONE_BYTE}, name=f"{name}.safetensors")) for name in "ab"
    }
    index = parse_index(b'{"weight_map": {"a": "a.safetensors", "b": "a.safetensors"}}', tmp_path / "index")
    with pytest.raises(ShardIndexError, match=r"`b` is not in `a.safetensors`, to which `.*index` assigns it"):
        locate_tensors(index, headers)


def test_an_index_decides_between_two_shards_and_leaves_out_what_it_does_not_name(tmp_path, write_tensors):
    headers = {
        name: read_header(write_tensors({"w": ONE_BYTE, name: ONE_BYTE}, name=name))
        for name in ("a.safetensors", "b.safetensors")
    }
    index = parse_index(b'{"weight_map": {"w": "b.safetensors"}}', tmp_path)
    entries = locate_tensors(index, headers)
    assert [(name, entry.path.name) for name, entry in entries.items()] == [("w", "b.safetensors")]
    with pytest.raises(TensorError, match=r"`w` is in `.*a.safetensors` and in `.*b.safetensors`, expected once"):
        locate_tensors(None, headers)


def entries(tmp_path, **dtypes):
    return {name: TensorEntry(name, dtype, (1,), 0, 1, tmp_path) for name, dtype in dtypes.items()}


@pytest.mark.parametrize("dtype", ["F8_E4M3", "I8"])
def test_a_packed_weight_without_its_scale_is_named(tmp_path, dtype):
    with pytest.raises(TensorError, match=rf"`a.weight` \({dtype}\) is in .* but `a.scale`"):
        check_scales(entries(tmp_path, **{"a.weight": dtype, "b.scale": "F8_E8M0", "b.weight": "I8"}))
    check_scales(entries(tmp_path, **{"a.weight": dtype, "a.scale": "F8_E8M0"}))


def test_a_plain_weight_needs_no_scale(tmp_path):
    check_scales(entries(tmp_path, **{"a.weight": "BF16", "hc_attn_scale": "F32"}))


def test_a_scale_without_its_weight_is_named(tmp_path):
    with pytest.raises(TensorError, match=r"`a.scale` \(F8_E8M0\) is in .* but `a.weight`"):
        check_scales(entries(tmp_path, **{"a.scale": "F8_E8M0"}))


def test_a_scale_of_another_dtype_is_named(tmp_path):
    with pytest.raises(TensorError, match=r"`a.scale` is F32 in .* expected F8_E8M0"):
        check_scales(entries(tmp_path, **{"a.weight": "I8", "a.scale": "F32"}))
