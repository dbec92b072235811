"""What the tensors of a routed expert are called (spec §2)."""

MATRICES = "w1", "w2", "w3"
PARTS = "weight", "scale"


def tensor_names(prefix: str) -> tuple[str, ...]:
    """The six tensors of the expert `prefix`."""
    return tuple(f"{prefix}.{matrix}.{part}" for matrix in MATRICES for part in PARTS)
