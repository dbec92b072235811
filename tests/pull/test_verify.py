import json
import shutil
from pathlib import Path

import pytest

from miniature import MINI
from shoal.checkpoint.index import parse_index, read_index
from shoal.errors import ConfigError, HeaderError, ShardIndexError
from shoal.pull.verify import check_model, check_shard

INDEX = read_index(MINI / "model.safetensors.index.json")
SHARD = "model-00013-of-00018.safetensors"


def test_the_miniature_is_a_model_and_every_shard_is_right() -> None:
    check_model(MINI, INDEX)
    check_model(MINI, None)
    tensors = {name for shard in INDEX.file_names for name in check_shard(MINI / shard, shard, INDEX).tensors}
    assert tensors == set(INDEX.weight_map)


def test_a_config_that_contradicts_itself_is_refused(tmp_path: Path) -> None:
    content = json.loads((MINI / "config.json").read_text())
    content["text_config"]["engram_layer_ids"] = [99]
    (tmp_path / "config.json").write_text(json.dumps(content))
    with pytest.raises(ConfigError, match="contradicts itself"):
        check_model(tmp_path, INDEX)


def test_the_name_in_messages_is_the_shards_own(tmp_path: Path) -> None:
    (tmp_path / "part").write_bytes((MINI / SHARD).read_bytes()[:-5])
    with pytest.raises(HeaderError, match=f"`{SHARD}` is truncated, 5 bytes are missing"):
        check_shard(tmp_path / "part", SHARD, INDEX)


def test_bytes_after_the_last_tensor_are_refused(tmp_path: Path) -> None:
    shutil.copy(MINI / SHARD, tmp_path / "part")
    with (tmp_path / "part").open("ab") as file:
        file.write(b"abc")
    with pytest.raises(HeaderError, match="3 bytes after its last tensor"):
        check_shard(tmp_path / "part", SHARD, INDEX)


def test_a_shard_holds_exactly_what_the_index_says() -> None:
    blob = INDEX.path.read_bytes()
    more = parse_index(blob.replace(b'"norm.weight"', b'"worm.weight"'), Path("index"))
    with pytest.raises(ShardIndexError, match=f"`{SHARD}` also holds `norm.weight`, expected exactly the 2 tensors"):
        check_shard(MINI / SHARD, SHARD, more)
    fewer = parse_index(blob.replace(b'"norm.weight"', b'"form.weight"'), Path("index"))
    with pytest.raises(ShardIndexError, match=f"`{SHARD}` lacks `form.weight`"):
        check_shard(MINI / SHARD, SHARD, fewer)
