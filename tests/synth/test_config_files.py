import json
from pathlib import Path

import pytest

import shoal.errors
from shoal.config.layouts import load_config, parse_config
from shoal.synth.config_files import FLAT_NAME, NESTED_NAME, config_files, read_source
from shoal.synth.presets import Preset, Reduction

DATA = Path(shoal.errors.__file__).parent / "data"


@pytest.mark.parametrize("name", ["release", "miniature"])
def test_an_unchanged_config_is_written_as_it_was_read(name: str) -> None:
    source = read_source(DATA / name)
    files = config_files(source.config, source)
    nested, flat = DATA / name / NESTED_NAME, DATA / name / FLAT_NAME
    assert json.loads(files[NESTED_NAME]) == json.loads(nested.read_text())
    assert json.loads(files[FLAT_NAME]) == json.loads(flat.read_text())
    if name == "release":
        assert files[NESTED_NAME] == nested.read_bytes()


def test_both_files_say_the_reduced_config() -> None:
    source = read_source(DATA / "release")
    config, _ = Reduction(Preset.LAYERS, layers=8).apply(source.config)
    files = config_files(config, source)
    assert parse_config(json.loads(files[NESTED_NAME]), "nested") == config
    assert parse_config(json.loads(files[FLAT_NAME]), "flat").as_reference_dict() == config.as_reference_dict()
    # What the config does not know is kept.
    assert json.loads(files[NESTED_NAME])["text_config"]["initializer_range"] == 0.02


def test_a_flat_file_alone_gives_both(tmp_path: Path) -> None:
    source = read_source(DATA / "miniature" / FLAT_NAME)
    for name, content in config_files(source.config, source).items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(content)
        assert load_config(tmp_path / name) == source.config


def test_the_object_that_was_read_is_not_changed() -> None:
    source = read_source(DATA / "release")
    before = json.dumps(source.nested)
    config, _ = Reduction(Preset.SLIM).apply(source.config)
    config_files(config, source)
    assert json.dumps(source.nested) == before
