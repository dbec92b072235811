"""Does a checkpoint hold exactly the tensors its configuration implies? Nothing is read before this is settled."""

from shoal.checkpoint.inventory import ENGRAM, ROUTED, VISION, TensorSpec, inventory
from shoal.checkpoint.shards import Checkpoint
from shoal.config.schema import ModelConfig
from shoal.errors import TensorError

SHOWN = 3


def expected_tensors(config: ModelConfig, checkpoint: Checkpoint) -> dict[str, TensorSpec]:
    """The inventory by name, checked: all there, nothing else there, every dtype and shape as it must be.

    Raises TensorError naming the tensors.
    """
    expected = {spec.name: spec for spec in inventory(config)}
    present = set(checkpoint.names())
    _refuse("missing from", [name for name in expected if name not in present], checkpoint)
    _refuse("not expected in", [name for name in checkpoint.names() if name not in expected], checkpoint)
    for spec in expected.values():
        entry = checkpoint.entry(spec.name)
        if (entry.dtype, entry.shape) != (spec.dtype, spec.shape):
            raise TensorError(
                f"`{spec.name}` is {entry.dtype} {list(entry.shape)}, expected {spec.dtype} {list(spec.shape)} "
                f"in `{entry.path.name}`",
                hint="is this `config.json` the one of this checkpoint?",
            )
    return expected


def is_left_in_shards(spec: TensorSpec) -> bool:
    """Whether the tensor is served from the shards instead of being read."""
    return is_backbone(spec) and (spec.kind == ROUTED or (spec.kind == ENGRAM and ".embed." in spec.name))


def is_backbone(spec: TensorSpec) -> bool:
    """Whether the text backbone uses the tensor: neither draft nor vision."""
    return not spec.name.startswith("mtp.") and spec.kind != VISION


def _refuse(problem: str, names: list[str], checkpoint: Checkpoint) -> None:
    if not names:
        return
    shown = ", ".join(f"`{name}`" for name in names[:SHOWN])
    more = f" and {len(names) - SHOWN:,} more" if len(names) > SHOWN else ""
    raise TensorError(
        f"{shown}{more} {problem} the checkpoint `{checkpoint.directory}`",
        hint="is this `config.json` the one of this checkpoint, and is the download complete?",
    )
