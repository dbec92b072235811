import json
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from miniature import MINI
from shoal.cli.engram import command
from shoal.errors import ConfigError, OptionError

DATA = Path(__file__).parents[1] / "data"
RELEASE = DATA / "release"


@pytest.fixture(autouse=True)
def _private_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def mini_copy(tmp_path: Path) -> Path:
    """A directory with the miniature's flat config, to tamper with."""
    (tmp_path / "config.json").write_bytes((MINI / "inference" / "config.json").read_bytes())
    return tmp_path


def _change(folder: Path, **changes: object) -> None:
    content = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    (folder / "config.json").write_text(json.dumps(content | changes), encoding="utf-8")


def _run(*arguments: object) -> tuple[int, str]:
    app = typer.Typer()
    app.command()(command)
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout


def test_the_release_passes_with_every_published_figure() -> None:
    code, output = _run("--config", RELEASE / "config.json", "--tokenizer", RELEASE)
    assert code == 0
    for line in (
        "layer 1: 384006168 buckets in 24 columns (2- to 4-grams, 8 heads), primes 16000057 .. 16000463",
        "layer 14: 384016682 buckets in 24 columns (2- to 4-grams, 8 heads), primes 16000477 .. 16000889",
        "  rows: derived 384006168, declared 384006168",
        "  table: 91.55 GiB (256 bytes a row), scales 2.86 GiB",
        "  multipliers: 67716810739261 51510806800915 30921347202721 82619226485591",
        "token map: 129280 ids to 99092 keys, pad 2 is compressed id 2",
        "sampled: 4096 tokens, 196608 rows, 0 out of range",
    ):
        assert line in output.splitlines()
    assert output.endswith("\n[PASS]\n")


def test_the_miniature_passes_without_a_tokenizer() -> None:
    code, output = _run("--config", MINI)
    assert code == 0
    assert "token map" not in output
    assert output.splitlines()[-1] == "[PASS]"


def test_a_tokenizer_is_found_by_directory_or_file(mini_copy: Path) -> None:
    assert _run("--config", mini_copy, "--tokenizer", MINI) == _run(
        "--config", mini_copy, "--tokenizer", MINI / "tokenizer.json"
    )


@pytest.mark.parametrize("rows", [[3688, 3903], [3689, 3904], [3688]])
def test_a_tampered_row_count_fails(mini_copy: Path, rows: list[int]) -> None:
    _change(mini_copy, engram_num_embeddings=rows)
    code, output = _run("--config", mini_copy)
    assert code == 1
    assert f"declared={rows} derived=[3688, 3904]" in output
    assert output.splitlines()[-1] == "[FAIL]"


def test_a_table_cut_short_is_seen_by_the_samples(mini_copy: Path) -> None:
    _change(mini_copy, engram_num_embeddings=[3688, 100])
    assert "layer 4 hashes to row" in _run("--config", mini_copy)[1]


def test_a_map_of_another_size_fails(mini_copy: Path) -> None:
    _change(mini_copy, engram_compressed_vocab_size=836)
    code, output = _run("--config", mini_copy, "--tokenizer", MINI)
    assert code == 1
    assert "has 835 keys, expected `engram_compressed_vocab_size` 836" in output
    assert output.splitlines()[-1] == "[FAIL]"


@pytest.mark.parametrize("tokenizer", [RELEASE, DATA / "nowhere"])
def test_a_foreign_or_absent_tokenizer_fails(tokenizer: Path) -> None:
    code, output = _run("--config", MINI, "--tokenizer", tokenizer)
    assert code == 1
    assert "tokenizer.json" in output or "nowhere" in output
    assert output.splitlines()[-1] == "[FAIL]"


def test_an_absent_config_is_an_error_of_the_command(tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        _run("--config", tmp_path / "config.json")


def test_the_json_report_says_what_the_text_says(tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    file.write_text("older")
    _run("--config", MINI, "--tokenizer", MINI, "--json", file)
    report: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    assert report["passed"] is True
    assert report["problems"] == []
    assert [layer["rows_derived"] for layer in report["layers"]] == [3688, 3904]
    assert report["token_map"]["compressed_vocab_size"] == 835
    assert report["sampled"]["out_of_range"] == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cache", "report.json"]


def test_a_report_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"cannot write `.*nowhere/report\.json`"):
        _run("--config", MINI, "--json", tmp_path / "nowhere" / "report.json")
