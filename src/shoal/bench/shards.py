"""The files of a checkpoint."""

from pathlib import Path

from shoal.checkpoint.shards import Checkpoint


def shards_of(checkpoint: Checkpoint) -> list[Path]:
    """Those that hold its tensors, in whatever directories they lie."""
    return sorted({checkpoint.entry(name).path for name in checkpoint.names()})
