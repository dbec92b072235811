"""What is wrong is one sentence on stderr and exit code 1 (2 for usage), never a traceback."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from miniature import MINI

RELEASE = Path(__file__).parents[1] / "data" / "release"
SHORT = ("--ids", "0,5", "--max-new-tokens", "1")


@pytest.fixture
def refused(run_shoal):
    """Runs `shoal generate` and returns its error, having seen that it is one and all there is."""

    def run(*arguments: object, stdin: bytes = b"") -> str:
        code, out, err = run_shoal("generate", *arguments, "--quiet", stdin=stdin)
        assert (code, out) == (1, ""), err
        assert err.startswith("error: ")
        assert "Traceback" not in err
        return err

    return run


def test_a_missing_directory(refused, tmp_path: Path) -> None:
    assert f"the checkpoint `{tmp_path / 'none'}` does not exist" in refused(tmp_path / "none", *SHORT)


def test_a_file_in_place_of_a_directory(refused) -> None:
    assert "config.json` is not a directory" in refused(MINI / "config.json", *SHORT)


def test_an_empty_directory(refused, tmp_path: Path) -> None:
    assert "holds neither `config.json`" in refused(tmp_path, *SHORT)


def test_an_empty_config(refused, spoilt) -> None:
    spoilt.write("config.json", b"")
    assert "config.json` is empty" in refused(spoilt.path, *SHORT)


def test_a_config_of_another_model(refused, spoilt) -> None:
    spoilt.replace("config.json", '"deepseek_v41"', '"llama"')
    assert 'describes another model: `model_type` is "llama"' in refused(spoilt.path, *SHORT)


def test_a_config_of_another_size_of_the_model(refused, spoilt) -> None:
    spoilt.write("config.json", (RELEASE / "config.json").read_bytes())
    spoilt.write("tokenizer.json", (RELEASE / "tokenizer.json").read_bytes())
    assert "the checkpoint" in (error := refused(spoilt.path, *SHORT))
    assert "hint: is this `config.json` the one of this checkpoint" in error


def test_a_renamed_tensor(refused, spoilt) -> None:
    spoilt.edit_header("head.weight", lambda header: header.update({"nrom.weight": header.pop("norm.weight")}))
    spoilt.replace("model.safetensors.index.json", '"norm.weight"', '"nrom.weight"')
    assert "`norm.weight` missing from the checkpoint" in refused(spoilt.path, *SHORT)


def test_a_tensor_renamed_in_its_shard_only(refused, spoilt) -> None:
    spoilt.edit_header("head.weight", lambda header: header.update({"nrom.weight": header.pop("norm.weight")}))
    assert "`norm.weight` is not in `model-00013-of-00018.safetensors`" in refused(spoilt.path, *SHORT)


def test_a_wrong_dtype(refused, spoilt) -> None:
    spoilt.edit_header("norm.weight", lambda header: header["norm.weight"].update(dtype="F16"))
    assert "`norm.weight` is F16 [160], expected BF16 [160] in `model-00013" in refused(spoilt.path, *SHORT)


def test_a_truncated_shard(refused, spoilt) -> None:
    name = "model-00013-of-00018.safetensors"
    spoilt.write(name, (MINI / name).read_bytes()[:-1])
    assert name in refused(spoilt.path, *SHORT)


def test_a_missing_shard(refused, spoilt) -> None:
    (spoilt.path / "model-00013-of-00018.safetensors").unlink()
    assert "lacks 1 of 18 shards: `model-00013-of-00018.safetensors`" in refused(spoilt.path, *SHORT)


def test_a_nan_in_a_dense_scale(refused, spoilt) -> None:
    spoilt.fill("layers.0.attn.wq_a.scale", 255)
    assert "`layers.0.attn.wq_a.scale` is NaN (code 255) at [0, 0]" in refused(spoilt.path, *SHORT)


def test_a_nan_in_an_experts_scale(refused, spoilt) -> None:
    for expert in range(16):
        spoilt.fill(f"layers.0.ffn.experts.{expert}.w2.scale", 255)
    error = refused(spoilt.path, *SHORT)
    assert re.search(r"`layers\.0\.ffn\.experts\.\d+\.w2\.scale` is NaN \(code 255\) at \[0, 0\]", error)


@pytest.mark.parametrize("resident", [[], ["--resident-engram"]])
def test_a_nan_in_an_engram_scale(refused, spoilt, resident: list[str]) -> None:
    spoilt.fill("layers.1.engram.embed.scale", 255)
    error = refused(spoilt.path, *SHORT, *resident)
    assert re.search(r"row [\d,]+ of `layers\.1\.engram\.embed` holds a NaN", error)


def test_weights_that_give_no_number(refused, spoilt) -> None:
    spoilt.fill("head.weight", 255)
    assert "the logits for position 2 are not finite" in refused(spoilt.path, *SHORT)


def test_no_tokenizer(refused, spoilt) -> None:
    (spoilt.path / "tokenizer.json").unlink()
    assert "there is no tokenizer `" in refused(spoilt.path, *SHORT)


def test_a_tokenizer_of_another_vocabulary(refused, spoilt) -> None:
    spoilt.write("tokenizer.json", (RELEASE / "tokenizer.json").read_bytes())
    error = refused(spoilt.path, *SHORT)
    assert "expected `vocab_size` 1024: it belongs to another vocabulary" in error


def test_a_tokenizer_that_does_not_hold_together(refused, spoilt) -> None:
    spoilt.replace("tokenizer.json", '"The"', '"Tqz"')
    assert "tokenizer.json` is not a tokenizer: " in refused(spoilt.path, *SHORT)


@pytest.mark.parametrize("prompt", [["--prompt", ""], ["--ids", ""], ["-"], ["--chat", "--prompt", ""]])
def test_an_empty_prompt(refused, prompt: list[str]) -> None:
    assert "the prompt is empty" in refused(*prompt)


def test_an_empty_prompt_file(refused, tmp_path: Path) -> None:
    (tmp_path / "prompt").touch()
    assert "the prompt is empty" in refused("--prompt-file", tmp_path / "prompt")


def test_a_prompt_beyond_the_context(refused) -> None:
    error = refused("--ids", ",".join(["5"] * 2049))
    assert "the prompt has 2,049 tokens, expected at most 2,047" in error


@pytest.mark.parametrize("token_id", [-1, 1536])
def test_an_id_outside_the_vocabulary(refused, token_id: int) -> None:
    assert f"token id {token_id} at position 1 of the prompt" in refused(f"--ids=0,{token_id}")


def test_ids_that_are_not_numbers(refused) -> None:
    assert "id 2 of the prompt is `five`, expected a whole number" in refused("--ids", "0,five")


def test_standard_input_that_is_not_text(refused) -> None:
    error = refused("-", stdin=b"abc\xff")
    assert "the prompt from standard input is not UTF-8: byte 0xff at offset 3" in error


def test_a_prompt_file_that_is_not_text(refused, tmp_path: Path) -> None:
    (tmp_path / "prompt").write_bytes(b"\x80")
    assert "prompt` is not UTF-8: byte 0x80 at offset 0" in refused("--prompt-file", tmp_path / "prompt")


def test_an_argument_that_is_not_text(refused) -> None:
    assert "the text is not Unicode" in refused("--prompt", "a\udcff")


def test_a_prompt_file_that_is_not_there(refused, tmp_path: Path) -> None:
    error = refused("--prompt-file", tmp_path / "none")
    assert f"cannot read the prompt file `{tmp_path / 'none'}`: No such file or directory" in error


@pytest.mark.parametrize(
    ("stats", "reason"), [("none/stats.json", "No such file or directory"), (".", "it is a directory")]
)
def test_statistics_that_cannot_be_written_are_refused_before_loading(
    refused, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stats: str, reason: str
) -> None:
    monkeypatch.setattr("shoal.api.load", lambda *_, **__: pytest.fail("loaded"))
    assert f"cannot write `{tmp_path / stats}`: {reason}" in refused(*SHORT, "--stats", tmp_path / stats)


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--prompt", "a", "--ids", "1"],
        ["--prompt", "a", "-"],
        ["--ids", "1", "--chat"],
        ["-", str(MINI)],
        [str(MINI), "text"],
        ["--prompt", "a", "--max-new-tokens", "0"],
        ["--prompt", "a", "--max-new-tokens", "many"],
        ["--prompt", "a", "--temperature", "-1"],
        ["--prompt", "a", "--temperature", "nan"],
        ["--prompt", "a", "--top-p", "0"],
        ["--prompt", "a", "--seed", "-1"],
        ["--prompt", "a", "--expert-memory", "0"],
        ["--prompt", "a", "--threads", "0"],
        ["--prompt", "a", "--unknown"],
    ],
)
def test_wrong_usage_is_exit_code_2_and_loads_nothing(
    run_shoal, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    monkeypatch.setattr("shoal.api.load", lambda *_, **__: pytest.fail("loaded"))
    code, out, err = run_shoal("generate", *arguments)
    assert (code, out) == (2, "")
    assert "Error: " in err
    assert "Traceback" not in err


def test_a_path_beyond_ascii_works(run_shoal, tmp_path: Path) -> None:
    directory = tmp_path / "模型 é"
    shutil.copytree(MINI, directory)
    (directory / "frage.txt").write_text("Hé", encoding="utf-8")
    stats = directory / "zählung.json"
    code, out, err = run_shoal(
        *("generate", directory, "--prompt-file", directory / "frage.txt", "--max-new-tokens", 1),
        *("--stats", stats, "--quiet"),
    )
    assert (code, err) == (0, "")
    assert out and stats.exists()


def test_the_process_itself_ends_with_the_sentence(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "shoal.cli", "generate", "--quiet", "-"],
        input=b"abc\xff",
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr == b"error: the prompt from standard input is not UTF-8: byte 0xff at offset 3\n"
