"""A sequence saved here and restored in another process gives the bits of one that was never saved."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from safetensors.torch import load_file

from shoal.config.schema import ModelConfig
from shoal.model.snapshot import save_snapshot

# Open and closed groups, a ring not yet full, just full and wrapped; the last is cut back before it is saved.
LENGTHS = (1, 31, 32, 33)
CUT_BACK = 37
MORE = 5

CONTINUE = """
import json, sys
from pathlib import Path
from safetensors.torch import save_file
import torch
from shoal.checkpoint.shards import Checkpoint
from shoal.config.layouts import load_config
from shoal.model.batch import Batch
from shoal.model.snapshot import load_snapshot
from shoal.ops.choose import arithmetic_named
from shoal.weights.load import load_backbone

torch.set_num_threads(1)
job = json.loads(sys.stdin.read())
config = load_config(Path(job["model"]))
backbone = load_backbone(config, Checkpoint.open(job["model"]), arithmetic=arithmetic_named(job["arithmetic"])).backbone
caches = [backbone.new_cache() for _ in job["snapshots"]]
for path, cache in zip(job["snapshots"], caches):
    load_snapshot(Path(path), config, cache)
batch = Batch.build(job["chunks"], caches, logits="all")
out = {"logits": backbone.forward(batch, caches).logits}
for number, cache in enumerate(caches):
    out |= {f"{number}.{name}": tensor for name, tensor in cache.state().items()}
save_file(out, job["out"])
"""


def test_another_process_continues_with_the_same_bits(
    native: Any, config: ModelConfig, miniature: Path, tmp_path: Path
) -> None:
    runs = native.lockstep([native.prompt([length]) for length in LENGTHS])
    caches = [run.cache for run in runs]
    native.advance([[*native.ids[33:CUT_BACK], 7, 7]], [caches[-1]])
    caches[-1].truncate(CUT_BACK)
    paths = [tmp_path / f"{number}.safetensors" for number in range(len(caches))]
    for cache, path in zip(caches, paths, strict=True):
        save_snapshot(cache, config, path)
    chunks = [native.ids[cache.length : cache.length + MORE] for cache in caches]
    out = tmp_path / "out.safetensors"
    job = {
        "model": str(miniature),
        "arithmetic": native.backbone.arithmetic.name,
        "snapshots": [str(path) for path in paths],
        "chunks": chunks,
        "out": str(out),
    }
    subprocess.run([sys.executable, "-c", CONTINUE], input=json.dumps(job), text=True, check=True)
    there = load_file(out)

    here = native.advance(chunks, caches)
    longest = native.whole(CUT_BACK + MORE)
    for number, (cache, logits) in enumerate(zip(caches, here, strict=True)):
        first = cache.length - MORE
        assert (logits == longest.logits[first : cache.length]).all(), first
        assert (there["logits"][number * MORE : (number + 1) * MORE] == logits).all(), first
        for name, tensor in cache.state().items():
            assert (there[f"{number}.{name}"] == tensor).all(), (first, name)
