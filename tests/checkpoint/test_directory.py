import pytest

from shoal.checkpoint.directory import check_scales, find_index, find_shards, locate_tensors
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
        find_shards([tmp_path], None)


def test_absent_shards_are_counted_and_the_first_named(tmp_path, write_tensors):
    write_tensors({"w": ONE_BYTE}, name="3.safetensors")
    index = parse_index(
        b'{"weight_map": {%s}}' % b",".join(b'"%d": "%d.safetensors"' % (n, n) for n in range(9)), tmp_path
    )
    with pytest.raises(CheckpointError) as caught:
        find_shards([tmp_path], index)
    assert "lacks 8 of 9 shards: `0.safetensors`, `1.safetensors`, `2.safetensors`, `4.safetensors`, " in str(
        caught.value
    )
    assert str(caught.value).endswith("`5.safetensors` and 3 more")


def test_a_shard_link_that_points_nowhere_is_absent(tmp_path):
    (tmp_path / "a.safetensors").symlink_to(tmp_path / "nowhere")
    with pytest.raises(CheckpointError, match=r"lacks 1 of 1 shards: `a.safetensors`"):
        find_shards([tmp_path], None)


def test_only_the_shards_an_index_names_are_opened(tmp_path, write_tensors):
    for name in ("a", "b"):
        write_tensors({"w": ONE_BYTE}, name=f"{name}.safetensors")
    index = parse_index(b'{"weight_map": {"w": "b.safetensors"}}', tmp_path)
    assert list(find_shards([tmp_path], None)) == ["a.safetensors", "b.safetensors"]
    assert find_shards([tmp_path], index) == {"b.safetensors": tmp_path / "b.safetensors"}


def scattered(tmp_path, *contents):
    """Directories with these files: name to bytes."""
    roots = [tmp_path / str(number) for number in range(len(contents))]
    for root, files in zip(roots, contents, strict=True):
        root.mkdir()
        for name, data in files.items():
            (root / f"{name}.safetensors").write_bytes(data)
    return roots


def test_a_shard_is_taken_from_the_first_directory_that_has_it(tmp_path):
    roots = scattered(tmp_path, {"a": b"1"}, {"a": b"2", "c": b"2"}, {"b": b"3", "c": b"3"})
    (roots[0] / "b.safetensors").symlink_to(tmp_path / "nowhere")
    found = find_shards(roots, None)
    assert found == {
        "a.safetensors": roots[0] / "a.safetensors",
        "b.safetensors": roots[2] / "b.safetensors",
        "c.safetensors": roots[1] / "c.safetensors",
    }
    assert list(found) == sorted(found)


def test_one_shard_of_two_sizes_is_refused_and_both_are_named(tmp_path):
    roots = scattered(tmp_path, {"a": b"12345"}, {"a": b"12345"}, {"a": b"1234"})
    expected = r"`.*0/a.safetensors` has 5 bytes and `.*2/a.safetensors` has 4, expected one or equal ones"
    with pytest.raises(CheckpointError, match=expected):
        find_shards(roots, None)


def test_what_is_in_no_directory_is_named_with_all_that_were_searched(tmp_path):
    roots = scattered(tmp_path, {"a": b"1"}, {"b": b"2"})
    index = parse_index(b'{"weight_map": {"x": "a.safetensors", "y": "b.safetensors", "z": "c.safetensors"}}', tmp_path)
    with pytest.raises(CheckpointError, match=r"`.*/0` and `.*/1` lack 1 of 3 shards: `c.safetensors`$"):
        find_shards(roots, index)
    with pytest.raises(CheckpointError, match=r"`.*/0` and `.*/1` hold neither `model.safetensors.index.json` nor"):
        find_shards(scattered(tmp_path / "0", {}, {}), None)


def test_a_shard_that_may_not_be_looked_at_is_named(tmp_path):
    (tmp_path / "a.safetensors").symlink_to("a.safetensors")
    with pytest.raises(CheckpointError, match=r"`.*a.safetensors` cannot be looked at: Too many levels"):
        find_shards([tmp_path], None)


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
