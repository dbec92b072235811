def isas() -> list[str]:
    """Instruction sets this machine runs, best first; the last is portable."""

def quantize_q8(isa: str, x: int, codes: int, scales: int, rows: int, columns: int) -> None:
    """Q8 of bf16 rows at address `x` into `codes` and `scales`."""
