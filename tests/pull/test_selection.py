import json
from itertools import combinations
from pathlib import Path

import pytest

from miniature import MINI
from shoal.checkpoint.index import parse_index, read_index
from shoal.errors import CheckpointError
from shoal.pull.remote_file import RemoteFile
from shoal.pull.selection import Part, select, shards_of

INDEX = read_index(MINI / "model.safetensors.index.json")
FILES = tuple(RemoteFile(name, 1, None) for name in (*INDEX.file_names, "config.json", "inference/config.json"))


def numbers(parts: list[Part]) -> list[int]:
    return sorted(int(name.split("-")[1]) for name in shards_of(INDEX, parts))


def test_each_part_is_the_shards_that_hold_its_tensors() -> None:
    # The image markers lie beside the embedding, in the second shard.
    assert numbers([Part.VISION]) == [1, 2]
    assert numbers([Part.DRAFT]) == [14, 15, 16]
    assert numbers([Part.ENGRAM]) == [17, 18]
    assert numbers([Part.TEXT]) == [*range(2, 14), 17, 18]


def test_all_parts_are_all_shards() -> None:
    assert numbers(list(Part)) == list(range(1, 19))


def test_several_parts_are_the_shards_of_any() -> None:
    for one, other in combinations(Part, 2):
        assert set(numbers([one, other])) == set(numbers([one])) | set(numbers([other]))


def test_small_files_always_come() -> None:
    chosen = {file.path for file in select(FILES, INDEX, [Part.DRAFT])}
    assert chosen == {*shards_of(INDEX, [Part.DRAFT]), "config.json", "inference/config.json"}


def test_without_parts_everything_comes() -> None:
    assert select(FILES, None, []) == FILES


def test_parts_need_an_index() -> None:
    with pytest.raises(CheckpointError, match="has no index, expected one to find `vision` with"):
        select(FILES, None, [Part.VISION])


def test_a_part_that_the_model_lacks_is_named() -> None:
    blob = json.dumps({"weight_map": {"embed.weight": FILES[0].path}}).encode()
    with pytest.raises(CheckpointError, match="no tensor of `draft` is in `index`"):
        select(FILES, parse_index(blob, Path("index")), [Part.DRAFT])


def test_shards_that_the_repository_lacks_are_named() -> None:
    with pytest.raises(CheckpointError, match="names 1 shards that the repository lacks, the first is `model-00001"):
        select(FILES[1:], INDEX, [Part.TEXT])
