import gzip
import hashlib
import json
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from safetensors import safe_open

from miniature import MINI
from shoal.checkpoint.index import read_index
from shoal.checkpoint.inventory import TensorSpec
from shoal.checkpoint.shards import Checkpoint
from shoal.config.layouts import load_config
from shoal.errors import ConfigError, OptionError, TokenizerError
from shoal.model.batch import Batch
from shoal.synth.presets import Preset, Reduction
from shoal.synth.synthesis import Synthesis, SynthOptions, decide
from shoal.weights.load import load_backbone

RELEASE = Path(__file__).parents[1] / "data" / "release"
INDEX = "model.safetensors.index.json"
Contents = Callable[[Path], dict[str, bytes]]


def miniature_in(out: Path, seed: int = 0, shards: int | None = None) -> Synthesis:
    return decide(SynthOptions(out, Reduction(Preset.MINIATURE), MINI, seed, shards, tokenizer=MINI))


def forward(directory: Path, ids: list[int]) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """Logits of every id, and what was recorded on the way."""
    recorded: dict[str, torch.Tensor] = {}
    with Checkpoint.open(directory) as checkpoint:
        backbone = load_backbone(load_config(directory), checkpoint).backbone
        cache = backbone.new_cache()
        batch = Batch.build([ids], [cache], logits="all")
        logits = backbone.forward(batch, [cache], lambda name, tensor: recorded.update({name: tensor.clone()})).logits
    return logits, recorded


def rms(values: torch.Tensor) -> float:
    return float(values.double().square().mean().sqrt())


def test_the_miniature_loads_and_its_activations_are_sane(miniature: Path) -> None:
    logits, recorded = forward(miniature, list(range(5, 29)))
    assert logits.isfinite().all()
    streams = [rms(tensor) for name, tensor in recorded.items() if name.endswith("stream_out")]
    outputs = [rms(tensor) for name, tensor in recorded.items() if name.endswith(("attn_out", "ffn_out"))]
    experts = torch.cat([ids.flatten() for name, ids in recorded.items() if name.endswith("router.indices")])
    assert len(streams) == 12  # ten layers and two Engrams
    assert 0.7 < min(streams) < max(streams) < 4
    assert 0.03 < min(outputs) < max(outputs) < 1.5
    assert 3 < logits.std() < 8
    assert 0.05 < logits.softmax(-1).amax(-1).mean() < 0.95
    assert len(experts.unique()) == 16


@pytest.mark.parametrize(
    "reduction",
    [Reduction(Preset.SLIM, experts=4), Reduction(Preset.LAYERS, layers=5), Reduction(Preset.LAYERS, layers=1)],
    ids=["slim", "layers", "one-layer"],
)
def test_a_reduced_checkpoint_is_consistent_and_runs(reduction: Reduction, tmp_path: Path) -> None:
    synthesis = decide(SynthOptions(tmp_path / "out", reduction, config=MINI, tokenizer=MINI))
    synthesis.write()
    assert load_config(tmp_path / "out") == synthesis.config
    assert load_config(tmp_path / "out" / "inference" / "config.json").n_layers == synthesis.config.n_layers
    logits, recorded = forward(tmp_path / "out", [5, 6, 7, 8])
    assert logits.isfinite().all()
    assert rms(recorded[f"L{synthesis.config.n_layers - 1}.stream_out"]) < 4


def test_the_safetensors_library_reads_every_tensor(miniature: Path, mini_specs: dict[str, TensorSpec]) -> None:
    index = read_index(miniature / INDEX)
    assert set(index.weight_map) == set(mini_specs)
    assert index.metadata["total_size"] == sum(spec.nbytes for spec in mini_specs.values())
    with Checkpoint.open(miniature) as checkpoint:
        for file_name in index.file_names:
            with safe_open(miniature / file_name, "pt") as shard:
                for name in shard.keys():  # noqa: SIM118 - the library's handle is no mapping
                    theirs = shard.get_tensor(name)
                    assert tuple(theirs.shape) == mini_specs[name].shape
                    assert theirs.contiguous().view(torch.uint8).numpy().tobytes() == checkpoint.read_bytes(name)


def test_a_seed_is_a_checkpoint(miniature: Path, contents: Contents, tmp_path: Path) -> None:
    miniature_in(tmp_path / "same").write()
    miniature_in(tmp_path / "other", seed=1).write()
    first, same, other = (contents(path) for path in (miniature, tmp_path / "same", tmp_path / "other"))
    assert same == first
    assert other.keys() == first.keys()
    changed = {name for name in first if other[name] != first[name]}
    assert changed == {name for name in first if name.endswith(".safetensors")} | {"synth.json"}


@pytest.mark.parametrize("shards", [1, 7])
def test_tensors_do_not_depend_on_their_shards(shards: int, miniature: Path, tmp_path: Path) -> None:
    miniature_in(tmp_path, shards=shards).write()
    assert len(list(tmp_path.glob("*.safetensors"))) == shards
    with Checkpoint.open(miniature) as released, Checkpoint.open(tmp_path) as checkpoint:
        assert set(checkpoint.names()) == set(released.names())
        for name in released.names():
            assert checkpoint.read_bytes(name) == released.read_bytes(name)


@pytest.fixture(scope="module")
def sparse(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, float]]:
    """The whole release, and the seconds it took."""
    out = tmp_path_factory.mktemp("sparse") / "release"
    started = time.process_time()
    decide(SynthOptions(out, Reduction(Preset.SPARSE))).write()
    yield out, time.process_time() - started
    shutil.rmtree(out)


def test_the_sparse_release_has_the_released_headers_and_sizes(sparse: tuple[Path, float]) -> None:
    out, _ = sparse
    facts = json.loads((RELEASE / "shard_headers.json").read_text())
    assert len(list(out.glob("*.safetensors"))) == len(facts) == 48
    for fact in facts:
        path = out / f"model-{fact['shard']:05}-of-00048.safetensors"
        assert path.stat().st_size == fact["file_bytes"]
        with path.open("rb") as file:
            header = file.read(fact["header_prefix_bytes"])
        # The order inside the two Engram shards was never published.
        if "header_prefix_sha256" in fact:
            assert hashlib.sha256(header).hexdigest() == fact["header_prefix_sha256"]


def test_the_sparse_release_is_large_only_in_appearance(sparse: tuple[Path, float]) -> None:
    out, seconds = sparse
    statuses = [path.stat() for path in out.rglob("*") if path.is_file()]
    assert sum(status.st_blocks * 512 for status in statuses) < 64 << 20
    assert sum(status.st_size for status in statuses) > 510_286_023_000
    assert seconds < 30


def test_the_sparse_release_has_the_released_index_and_config(sparse: tuple[Path, float]) -> None:
    out, _ = sparse
    wanted = json.loads(gzip.decompress((RELEASE / "model.safetensors.index.sorted.json.gz").read_bytes()))
    assert json.loads((out / INDEX).read_text()) == wanted
    assert (out / "config.json").read_bytes() == (RELEASE / "config.json").read_bytes()
    flat = RELEASE / "inference" / "config.json"
    assert json.loads((out / "inference" / "config.json").read_text()) == json.loads(flat.read_text())


def test_a_row_at_the_end_of_a_94_gib_table_is_zero(sparse: tuple[Path, float]) -> None:
    with Checkpoint.open(sparse[0]) as checkpoint:
        row = checkpoint.read_rows("layers.14.engram.embed.weight", torch.tensor([384_016_681]))
    assert row.shape == (1, 256)
    assert not row.any()


class StopError(Exception):
    pass


def test_an_interrupted_run_has_no_index_and_is_completed(miniature: Path, contents: Contents, tmp_path: Path) -> None:
    def stop(done: int, total: int) -> None:
        if done > total // 2:
            raise StopError

    with pytest.raises(StopError):
        miniature_in(tmp_path).write(stop)
    interrupted = contents(tmp_path)
    assert INDEX not in interrupted
    assert not [name for name in interrupted if "partial" in name]
    shards = {name for name in interrupted if name.endswith(".safetensors")}
    assert 0 < len(shards) < 18
    steps: list[tuple[int, int]] = []
    times = {name: (tmp_path / name).stat().st_mtime_ns for name in shards}
    written = miniature_in(tmp_path).write(lambda done, total: steps.append((done, total)))
    assert written == sum(len(content) for name, content in contents(miniature).items() if name not in interrupted
                          and name.endswith(".safetensors"))  # fmt: skip
    assert {name: (tmp_path / name).stat().st_mtime_ns for name in shards} == times
    assert steps[-1][0] == steps[-1][1]
    assert steps[0][0] > sum(len(interrupted[name]) for name in shards)
    assert contents(tmp_path) == contents(miniature)


def test_what_a_killed_process_left_is_cleared_away(miniature: Path, contents: Contents, tmp_path: Path) -> None:
    shutil.copytree(miniature, tmp_path, dirs_exist_ok=True)
    (tmp_path / "model-00003-of-00018.safetensors").unlink()
    for name in ("model-00003-of-00018.safetensors", "model-00004-of-00018.safetensors", INDEX):
        (tmp_path / f".{name}.partial").write_bytes(b"half")
    miniature_in(tmp_path).write()
    assert contents(tmp_path) == contents(miniature)


def test_a_complete_checkpoint_is_left_alone(miniature: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in miniature.rglob("*")}
    assert miniature_in(miniature).write() == 0
    assert {path: path.stat().st_mtime_ns for path in miniature.rglob("*")} == before


def test_a_damaged_shard_is_made_again(miniature: Path, contents: Contents, tmp_path: Path) -> None:
    shutil.copytree(miniature, tmp_path, dirs_exist_ok=True)
    shard = tmp_path / "model-00004-of-00018.safetensors"
    shard.write_bytes(shard.read_bytes()[:-1])
    assert miniature_in(tmp_path).write() == (miniature / shard.name).stat().st_size
    assert contents(tmp_path) == contents(miniature)


def test_the_index_goes_before_a_shard_is_made_again(miniature: Path, tmp_path: Path) -> None:
    shutil.copytree(miniature, tmp_path, dirs_exist_ok=True)
    (tmp_path / "model-00004-of-00018.safetensors").unlink()

    def look(done: int, total: int) -> None:
        assert not (tmp_path / INDEX).exists()

    miniature_in(tmp_path).write(look)
    assert (tmp_path / INDEX).exists()


def test_something_else_is_not_touched(miniature: Path, contents: Contents, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("precious")
    with pytest.raises(OptionError, match="holds something else"):
        miniature_in(tmp_path).write()
    assert contents(tmp_path) == {"config.json": b"precious"}
    before = contents(miniature)
    with pytest.raises(OptionError, match="`seed` is 0, expected 1"):
        miniature_in(miniature, seed=1).write()
    assert contents(miniature) == before


def test_too_little_space_is_said_before_anything_is_written(
    miniature: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=1 << 20))
    with pytest.raises(OptionError, match=r"needs 0\.01 GiB more, and its disk has 0\.00 GiB free"):
        miniature_in(tmp_path / "out").write()
    assert not (tmp_path / "out").exists()
    # What is there does not count.
    shutil.copytree(miniature, tmp_path / "begun")
    (tmp_path / "begun" / "model-00001-of-00018.safetensors").unlink()
    assert miniature_in(tmp_path / "begun").write() > 0


def test_a_disk_that_fills_up_leaves_only_whole_files(miniature: Path, contents: Contents, tmp_path: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    # Between the sizes of the second and of the third shard.
    resource.setrlimit(resource.RLIMIT_FSIZE, (500_000, before[1]))
    try:
        with pytest.raises(OptionError, match=r"cannot write `.*model-00003-of-00018\.safetensors`: File too large"):
            miniature_in(tmp_path).write()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    found, whole = contents(tmp_path), contents(miniature)
    assert sorted(name for name in found if "model" in name) == [f"model-0000{n}-of-00018.safetensors" for n in (1, 2)]
    assert found.items() <= whole.items()
    miniature_in(tmp_path).write()
    assert contents(tmp_path) == whole


def test_a_full_disk_is_named(contents: Contents, tmp_path: Path) -> None:
    mounted = ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(tmp_path)]
    try:
        refused = subprocess.run(mounted, capture_output=True).returncode
    except FileNotFoundError:
        refused = 1
    if refused:
        pytest.skip("mounting a tmpfs needs root and `mount`")
    try:
        synthesis = miniature_in(tmp_path / "out")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=1 << 40))
            with pytest.raises(OptionError, match="No space left on device"):
                synthesis.write()
        assert not [name for name in contents(tmp_path) if "partial" in name or name.endswith(INDEX)]
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)


def test_a_tokenizer_is_copied_with_its_config(tmp_path: Path) -> None:
    options = SynthOptions(tmp_path, Reduction(Preset.SPARSE), config=MINI, tokenizer=MINI / "tokenizer.json")
    synthesis = decide(options)
    assert synthesis.has_tokenizer
    synthesis.write()
    for name in ("tokenizer.json", "tokenizer_config.json"):
        assert (tmp_path / name).read_bytes() == (MINI / name).read_bytes()


def test_without_a_tokenizer_the_synthesis_says_so(tmp_path: Path) -> None:
    synthesis = decide(SynthOptions(tmp_path, Reduction(Preset.MINIATURE), config=MINI))
    assert not synthesis.has_tokenizer
    (tmp_path / "tokenizer.json").write_bytes(b"added by hand")
    assert synthesis.has_tokenizer


def test_an_absent_tokenizer_or_config_is_named(tmp_path: Path) -> None:
    with pytest.raises(TokenizerError, match=r"cannot read the tokenizer `.*tokenizer\.json`"):
        decide(SynthOptions(tmp_path, Reduction(Preset.SPARSE), tokenizer=tmp_path))
    with pytest.raises(ConfigError, match=r"absent\.json"):
        decide(SynthOptions(tmp_path, Reduction(Preset.SPARSE), config=tmp_path / "absent.json"))


@pytest.mark.parametrize("seed", [-1, 2**64])
def test_a_seed_beyond_64_bits_is_refused(seed: int, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=rf"`seed` is {seed}, expected 0 to 2\^64-1"):
        SynthOptions(tmp_path, Reduction(Preset.SLIM), seed=seed)


def test_holes_are_made_without_torch_and_numpy(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path\n"
        "from shoal.synth.presets import Preset, Reduction\n"
        "from shoal.synth.synthesis import SynthOptions, decide\n"
        f"decide(SynthOptions(Path({str(tmp_path)!r}), Reduction(Preset.SPARSE), config=Path({str(MINI)!r}))).write()\n"
        "print(sorted({'torch', 'numpy'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
