import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.checkpoint.header import DTYPE_BITS
from shoal.checkpoint.inventory import TensorSpec
from shoal.checkpoint.shard_layout import PlacedTensor, ShardLayout, lay_out
from shoal.config.schema import ModelConfig
from shoal.errors import OptionError
from shoal.synth.resharding import reshard


def layout_of(sizes: list[int]) -> list[ShardLayout]:
    specs = [TensorSpec(f"t{number}", "I8", (size,), "kind") for number, size in enumerate(sizes)]
    return [ShardLayout("one.safetensors", tuple(PlacedTensor(spec, 0, 0) for spec in specs))]


@given(sizes=st.lists(st.integers(0, 1000), min_size=1, max_size=40), data=st.data())
def test_every_tensor_is_in_one_shard_and_none_is_empty(sizes: list[int], data: st.DataObject) -> None:
    count = data.draw(st.integers(1, len(sizes)))
    shards = reshard(layout_of(sizes), count)
    assert [tensor.spec.name for shard in shards for tensor in shard.tensors] == [f"t{n}" for n in range(len(sizes))]
    assert len(shards) == count
    for shard in shards:
        starts = [tensor.start for tensor in shard.tensors]
        assert starts == [0, *(tensor.end for tensor in shard.tensors)][:-1]
        assert all(tensor.end - tensor.start == tensor.spec.nbytes for tensor in shard.tensors)


@given(st.integers(1, 50))
def test_small_tensors_make_equal_shards(count: int) -> None:
    nbytes = [shard.payload_nbytes for shard in reshard(layout_of([7] * 1000), count)]
    assert max(nbytes) - min(nbytes) <= 7


@settings(max_examples=15)
@given(st.integers(1, 200))
def test_every_element_of_the_miniature_is_aligned(count: int) -> None:
    for shard in reshard(SHARDS, count):
        for tensor in shard.tensors:
            assert tensor.start % (DTYPE_BITS[tensor.spec.dtype] // 8) == 0


@pytest.fixture(scope="module", autouse=True)
def _shards(mini_config: ModelConfig) -> None:
    SHARDS.extend(lay_out(mini_config))


SHARDS: list[ShardLayout] = []


def test_names_count_the_shards() -> None:
    names = [shard.file_name for shard in reshard(SHARDS, 3)]
    assert names == [f"model-0000{number}-of-00003.safetensors" for number in (1, 2, 3)]


@pytest.mark.parametrize("count", [0, 4])
def test_a_shard_without_a_tensor_is_refused(count: int) -> None:
    with pytest.raises(OptionError, match=f"`shards` is {count}, expected 1 to 3"):
        reshard(layout_of([1, 2, 3]), count)
