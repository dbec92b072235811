import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from miniature import MINI
from shoal.cli.config import command
from shoal.errors import ConfigError

TESTS = Path(__file__).parent.parent
RELEASE = TESTS / "data" / "release"

app = typer.Typer()
app.command("config")(command)


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def changed(tmp_path: Path, **values: object) -> Path:
    """The flat released file with other values."""
    path = tmp_path / "config.json"
    content = json.loads((RELEASE / "inference" / "config.json").read_text())
    path.write_text(json.dumps(content | values))
    return path


def test_the_release_is_summed_up_and_consistent() -> None:
    result = run(RELEASE)
    assert result.exit_code == 0
    assert result.stdout == (
        f"{RELEASE / 'config.json'} (nested layout)\n"
        "  40 layers + 3 draft, dim 5120, 64 heads of 512, 384 experts (6 active); "
        "Engram on layers [1, 14], vision 32 layers, DSpark block 5 over layers [37, 38, 39]\n"
        "  [ok] the config is self-consistent\n"
    )


def test_the_flat_file_says_the_same_but_for_its_layout() -> None:
    nested, flat = run(RELEASE).stdout.splitlines(), run(RELEASE / "inference").stdout.splitlines()
    assert flat[0] == f"{RELEASE / 'inference' / 'config.json'} (flat layout)"
    assert flat[1:] == nested[1:]


def test_the_miniature_is_consistent() -> None:
    assert run(MINI).stdout.endswith("  [ok] the config is self-consistent\n")


def test_each_problem_is_a_line_and_the_exit_code_is_1(tmp_path: Path) -> None:
    result = run(changed(tmp_path, n_heads=60, hidden_act="x", dtype="int4"))
    assert result.exit_code == 1
    assert result.stdout.splitlines()[2:] == [
        "  [problem] `n_heads` is 60, wanted a multiple of `o_groups` 8",
        '  [problem] `dtype` is "int4", wanted "fp8": nothing else is supported',
    ]


def test_features_that_are_off_are_said_to_be(tmp_path: Path) -> None:
    result = run(changed(tmp_path, vision_n_layers=0, dspark_block_size=0, engram_layer_ids=[]))
    assert "; no Engram, no vision, no DSpark\n" in result.stdout


def test_json_is_one_object_with_everything() -> None:
    result = run(RELEASE, "--json")
    assert result.exit_code == 0
    content = json.loads(result.stdout)
    assert set(content) == {"path", "layout", "config", "layers", "problems"}
    assert (content["path"], content["layout"]) == (str(RELEASE / "config.json"), "nested")
    assert (len(content["config"]), content["config"]["kv_source_layers"]) == (76, [2, 8, 14, 20])
    assert [layer["mode"] for layer in content["layers"][:4]] == ["SWA", "SWA", "Full", "Reuse"]
    assert (len(content["layers"]), content["layers"][24]["candidate_source"]) == (43, 20)
    assert content["problems"] == []


def test_json_without_a_plan_when_layers_disagree(tmp_path: Path) -> None:
    result = run(changed(tmp_path, n_layers=39), "--json")
    assert result.exit_code == 1
    content = json.loads(result.stdout)
    assert content["layers"] is None
    assert content["problems"]


@pytest.mark.parametrize("name", ["absent", "."])
def test_no_config_is_a_config_error_and_prints_no_answer(tmp_path: Path, name: str) -> None:
    result = run(tmp_path / name)
    assert isinstance(result.exception, ConfigError)
    assert result.stdout == ""


def test_without_a_path_it_is_a_usage_error() -> None:
    assert run().exit_code == 2
