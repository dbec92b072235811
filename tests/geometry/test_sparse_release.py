"""The release at its real size: 475 GiB of holes on the disk, loaded and run for one token."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from shoal.checkpoint.shards import Checkpoint
from shoal.config.layouts import load_config
from shoal.synth.presets import Preset, Reduction
from shoal.synth.synthesis import SynthOptions, decide

TOKENIZER = Path(__file__).parents[1] / "data" / "release" / "tokenizer.json"
DENSE_NBYTES = 9_846_748_608
SPARE = 1.10

RUN = """
import json, sys
from pathlib import Path
import torch
from shoal.checkpoint.shards import Checkpoint
from shoal.config.layouts import load_config
from shoal.model.batch import Batch
from shoal.ops.choose import arithmetic_named
from shoal.weights.load import load_backbone

torch.set_num_threads(1)
directory = Path(sys.argv[1])
with Checkpoint.open(directory) as checkpoint:
    loaded = load_backbone(load_config(directory), checkpoint, arithmetic=arithmetic_named("native"))
    # Not `ru_maxrss`, which counts that of the process that started this one.
    [peak] = [int(line.split()[1]) * 1024 for line in open("/proc/self/status") if line.startswith("VmHWM")]
    cache = loaded.backbone.new_cache()
    logits = loaded.backbone.forward(Batch.build([[5]], [cache]), [cache]).logits
report = loaded.report
print(json.dumps({
    "dense": sum(report.nbytes.values()), "peak": peak, "length": cache.length, "logits": list(logits.shape),
    "finite": bool(logits.isfinite().all()), "tensors": [report.read, report.left, report.ignored],
}))
"""


@pytest.fixture(scope="module")
def sparse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The whole release, with the last row of each Engram table planted."""
    directory = tmp_path_factory.mktemp("release") / "sparse"
    decide(SynthOptions(directory, Reduction(Preset.SPARSE), tokenizer=TOKENIZER)).write()
    for number, layer in enumerate(load_config(directory).engram_layer_ids):
        with Checkpoint.open(directory) as checkpoint:
            entry = checkpoint.entry(f"layers.{layer}.engram.embed.weight")
        with entry.path.open("r+b") as shard:
            shard.seek(entry.end - 256)
            shard.write(bytes([0x38 + number] * 256))
    return directory


def test_the_last_row_of_a_table_of_ninety_gib_is_read(sparse: Path) -> None:
    config = load_config(sparse)
    with Checkpoint.open(sparse) as checkpoint:
        for number, layer in enumerate(config.engram_layer_ids):
            name = f"layers.{layer}.engram.embed.weight"
            last = config.engram_num_embeddings[number] - 1
            row = checkpoint.read_rows(name, torch.tensor([last, 0]))
            assert row.tolist() == [[0x38 + number] * 256, [0] * 256]


@pytest.mark.slow
def test_it_loads_within_its_dense_bytes_and_runs_a_token_through_all_layers(sparse: Path) -> None:
    done = subprocess.run([sys.executable, "-c", RUN, str(sparse)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["dense"] == DENSE_NBYTES
    assert result["peak"] <= SPARE * DENSE_NBYTES
    assert result["tensors"] == [1_254, 92_164, 2_667]
    assert (result["length"], result["logits"], result["finite"]) == (1, [1, 129_280], True)
