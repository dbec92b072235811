from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from miniature import MINI
from shoal.cli.synth import command
from shoal.errors import OptionError

app = typer.Typer(rich_markup_mode=None)
app.command("synth")(command)


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_stdout_is_what_was_made_and_stderr_how(tmp_path: Path) -> None:
    done = run(tmp_path / "out", "--preset", "miniature")
    assert done.exit_code == 0
    assert done.stdout == f"{tmp_path / 'out'}: miniature, 14 shards, 0.01 GiB\n"
    assert done.stderr.startswith("6 layers of 16 experts, 0.01 GiB\n")
    assert "\nwrote 0.01 GiB in " in done.stderr
    again = run(tmp_path / "out", "--preset", "miniature")
    assert again.stdout == done.stdout
    assert again.stderr.endswith("nothing was missing\n")


def test_quiet_says_nothing_on_stderr(tmp_path: Path) -> None:
    done = run(tmp_path / "out", "--preset", "sparse", "--config", MINI, "--quiet")
    assert (done.exit_code, done.stderr) == (0, "")


def test_the_kept_layers_are_named(tmp_path: Path) -> None:
    arguments = ("--preset", "layers", "--config", MINI, "--layers", "5", "--experts", "4", "--shards", "2")
    done = run(tmp_path / "out", *arguments)
    assert "5 layers of 4 experts" in done.stderr
    layers = "0 (SWA), 1 (SWA, Engram), 2 (Full of ratio 2), 3 (Reuse of ratio 2), 4 (Full of ratio 2, Engram)"
    assert f"layers {layers} of the config, numbered from 0\n" in done.stderr
    assert len(list((tmp_path / "out").glob("*.safetensors"))) == 2


def test_a_missing_tokenizer_is_said_until_it_is_there(tmp_path: Path) -> None:
    note = "generating text needs the model's `tokenizer.json`"
    arguments = (tmp_path / "out", "--preset", "sparse", "--config", MINI)
    assert note in run(*arguments).stderr
    assert note not in run(*arguments, "--tokenizer", MINI).stderr
    assert (tmp_path / "out" / "tokenizer.json").is_file()
    assert note not in run(*arguments).stderr


def test_seeds_are_options(tmp_path: Path) -> None:
    arguments = (tmp_path / "out", "--preset", "layers", "--layers", "1", "--config", MINI)
    assert run(*arguments, "--seed", "7").exit_code == 0
    refused = run(*arguments, "--seed", "8")
    assert isinstance(refused.exception, OptionError)
    assert "`seed` is 7, expected 8" in refused.exception.message


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--preset", "sparse", "--experts", "8"], "sparse cuts nothing"),
        (["--preset", "miniature", "--layers", "2"], "miniature cuts nothing"),
        (["--preset", "huge"], "huge"),
        (["--preset", "slim", "--seed", "-1"], "seed"),
        ([], "--preset"),
    ],
)
def test_a_wrong_option_is_a_usage_error(arguments: list[str], words: str, tmp_path: Path) -> None:
    done = run(tmp_path / "out", *arguments)
    assert done.exit_code == 2
    assert words in done.stderr
    assert not (tmp_path / "out").exists()
