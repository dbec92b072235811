from pathlib import Path

import pytest
import typer
from safetensors.torch import load_file, save_file
from typer.testing import CliRunner

from miniature import MINI
from shoal.cli.trace import command
from shoal.errors import CheckpointError, HeaderError, OptionError, PromptError, TensorError
from shoal.tracing.trace_file import TraceFile

GOLDENS = Path(__file__).parents[1] / "data" / "oracle" / "goldens"


@pytest.fixture(autouse=True)
def _private_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def _run(*arguments: object) -> tuple[int, str, str]:
    app = typer.Typer()
    app.command()(command)
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout, result.stderr


def test_a_trace_holds_what_was_asked_for_and_says_what_ran(tmp_path: Path) -> None:
    out = tmp_path / "t.safetensors"
    options = ("--chunks", "2,1", "--only", "L2.*", "--only", "logits", "--out", out)
    code, stdout, stderr = _run("--ids", "0,331,419", *options)
    assert (code, stdout) == (0, f"{out}\n")
    assert "built-in miniature" in stderr and "tensors of 3 tokens" in stderr
    with TraceFile(out) as file:
        assert {name.split(".")[0] for name in file} == {"L2", "logits"}
        assert file["logits"].shape == (3, 1536)
        facts = dict(file.metadata)
        assert facts.pop("shoal_version")
        assert facts == {"checkpoint": "built-in miniature", "arithmetic": "wide", "chunks": "2,1"}


def test_a_trace_of_the_goldens_prompt_compares_as_identical(tmp_path: Path) -> None:
    golden = GOLDENS / "prefill_002.safetensors"
    ids, out = tmp_path / "ids.txt", tmp_path / "t.safetensors"
    ids.write_text(" ".join(str(token) for token in load_file(golden)["input_ids"].tolist()) + "\n", encoding="utf-8")
    names = ["*.stream_out", "*.topk", "*.index_score", "*.candidates", "*.router.indices", "input_ids"]
    only = [argument for name in names for argument in ("--only", name)]
    assert _run(MINI, "--ids-file", ids, *only, "--out", out)[0] == 0
    code, stdout, _ = _run("--compare", out, golden)
    assert code == 0 and stdout.startswith("identical: ")
    assert f"only in `{golden}`" in stdout


def test_a_difference_is_printed_and_is_exit_code_1(tmp_path: Path) -> None:
    golden = load_file(GOLDENS / "prefill_003.safetensors")
    golden["L4.attn_out"][2, 5] += 1
    golden["L4.stream_out"][0] = 0
    changed = tmp_path / "changed.safetensors"
    save_file(golden, changed)
    code, stdout, _ = _run("--compare", GOLDENS / "prefill_003.safetensors", changed)
    assert code == 1
    assert "2 of " in stdout and "first `L4.attn_out`: L2 " in stdout and "1 of 3 rows" in stdout


def test_a_prompt_starts_with_bos(tmp_path: Path) -> None:
    out = tmp_path / "t.safetensors"
    assert _run("--prompt", "The compiler", "--only", "input_ids", "--out", out)[0] == 0
    assert load_file(out)["input_ids"][0] == 0


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("--ids", "1"),
        ("--ids", "1", "--prompt", "x", "--out", "t"),
        ("--ids", "1,2", "--chunks", "1", "--out", "t"),
        ("--ids", "1,2", "--chunks", "2,0", "--out", "t"),
        ("--ids", "1,2", "--chunks", "one", "--out", "t"),
        ("--ids", "1", "--arithmetic", "exact", "--out", "t"),
        ("--compare", "a", "b", "--ids", "1"),
        ("--compare", "a"),
    ],
)
def test_a_usage_error_is_exit_code_2_and_writes_nothing(
    arguments: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, stdout, stderr = _run(*arguments)
    assert (code, stdout) == (2, "") and stderr
    assert list(tmp_path.iterdir()) == []


def test_bad_input_is_a_named_error(tmp_path: Path) -> None:
    out, text = tmp_path / "t.safetensors", tmp_path / "ids"
    text.write_bytes(b"1,\xff")
    with pytest.raises(PromptError, match="is not UTF-8"):
        _run("--ids-file", text, "--out", out)
    with pytest.raises(PromptError, match=r"cannot read `.*nowhere`"):
        _run("--ids-file", tmp_path / "nowhere", "--out", out)
    with pytest.raises(PromptError, match="`x`, expected a whole number"):
        _run("--ids", "1,x", "--out", out)
    with pytest.raises(PromptError, match="token id 5000 at position 1"):
        _run("--ids", "1,5000", "--out", out)
    with pytest.raises(OptionError, match="there is no directory"):
        _run("--ids", "1", "--out", tmp_path / "nowhere" / "t")
    with pytest.raises(CheckpointError, match="does not exist"):
        _run(tmp_path / "nowhere", "--ids", "1", "--out", out)
    assert not out.exists()


def test_files_that_are_no_traces_are_a_named_error(tmp_path: Path) -> None:
    golden = GOLDENS / "prefill_001.safetensors"
    broken = tmp_path / "broken.safetensors"
    broken.write_bytes(golden.read_bytes()[:-1])
    with pytest.raises(HeaderError, match="is truncated"):
        _run("--compare", golden, broken)
    with pytest.raises(HeaderError, match="cannot be opened"):
        _run("--compare", golden, tmp_path / "nowhere")
    with pytest.raises(TensorError, match=r"expected one of BOOL"):
        _run("--compare", GOLDENS / "ops.safetensors", GOLDENS / "ops.safetensors")
