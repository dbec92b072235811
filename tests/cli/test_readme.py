"""The README's commands and its Python run as they are printed, on the miniature."""

import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import shoal
from shoal.assemble import MINIATURE

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
COMMANDS = [line.split("#")[0].strip() for line in README.splitlines() if line.startswith("shoal ")]
RELEASE = ROOT / "tests" / "data" / "release"


def arguments(command: str, folder: Path) -> tuple[list[str], bytes]:
    """The words of a command after `shoal`, its names filled in, and its standard input."""
    command, _, source = command.partition(" < ")
    names = {"CHECKPOINT": MINIATURE, "CONFIG": RELEASE, "OUT": folder / "out"}
    words = [str(names.get(word, word)) for word in shlex.split(command)[1:]]
    words = [str(folder / word) if word.endswith((".txt", ".safetensors")) else word for word in words]
    if words[0] == "generate":
        words += ["--max-new-tokens", "2"]
    if words[0] == "eval":
        words[words.index("--limit") + 1] = "2"
    return words, (folder / source).read_bytes() if source else b""


@pytest.fixture
def folder(tmp_path: Path, run_shoal: Callable[..., Any]) -> Path:
    """Where the files lie that the commands name."""
    for name in ("question.txt", "prompt.txt"):
        (tmp_path / name).write_text("What is a shoal?", encoding="utf-8")
    for name in ("run.safetensors", "other.safetensors"):
        run_shoal("trace", "--ids", "0,331", "--only", "logits", "--out", tmp_path / name)
    return tmp_path


def test_the_readme_shows_every_command(run_shoal: Callable[..., Any]) -> None:
    shown = {command.split()[1] for command in COMMANDS}
    listed = set(re.findall(r"^  ([a-z]+)  ", run_shoal("--help").out.split("Commands:")[1], re.MULTILINE))
    assert shown == listed


# One downloads, the other serves until it is told to end: their own tests hold them.
LEFT_OUT = {"pull", "serve"}


@pytest.mark.parametrize("command", [command for command in COMMANDS if command.split()[1] not in LEFT_OUT])
def test_a_command_of_the_readme_runs(command: str, folder: Path, run_shoal: Callable[..., Any]) -> None:
    words, stdin = arguments(command, folder)
    outcome = run_shoal(*words, stdin=stdin)
    assert outcome.code == 0, outcome.err


def test_the_python_of_the_readme_runs(capsys: pytest.CaptureFixture[str]) -> None:
    source = README.split("```python\n")[1].split("```")[0].replace("path/to/checkpoint", str(MINIATURE))
    source = source.replace('"Hello"}])', '"Hello"}], max_new_tokens=2)')
    names: dict[str, Any] = {"shoal": shoal}
    exec(compile(source, "README.md", "exec"), names)
    assert capsys.readouterr().out
    assert names["internals"]["logits"].shape == (3, 1536)
