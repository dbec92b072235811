"""Which processor this is, what instructions it has, and which native kernels run on it."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from shoal.doctor.finding import Finding, ok, warning
from shoal.doctor.kernel_file import read_text

_NAMES = ("model name", "Model", "Hardware", "CPU part")
_FLAGS = ("flags", "Features")
_RELEVANT = (
    "avx2", "fma", "f16c", "avx_vnni", "avx512f", "avx512bw", "avx512vl", "avx512dq", "avx512_vnni", "avx512_bf16",
    "avx512vbmi", "avx512_fp16", "amx_tile", "amx_int8", "asimd", "asimddp", "i8mm", "bf16", "sve",
)  # fmt: skip
PORTABLE = "portable"


@dataclass(frozen=True)
class Processor:
    """Its name, and those of its instruction sets that matter here, best last."""

    name: str
    instruction_sets: tuple[str, ...]


def read_processor(proc: Path) -> Processor:
    """What `cpuinfo` says of the first processor."""
    fields: dict[str, str] = {}
    for line in (read_text(proc / "cpuinfo") or "").splitlines():
        name, colon, value = line.partition(":")
        if colon:
            fields.setdefault(name.strip(), value.strip())
    flags = next((fields[name].split() for name in _FLAGS if name in fields), [])
    name = next((fields[name] for name in _NAMES if name in fields), "unknown")
    return Processor(name, tuple(flag for flag in _RELEVANT if flag in flags))


def examine_processor(processor: Processor, kernels: Sequence[str] | None) -> list[Finding]:
    """The processor, and its kernels: those that run here, best first; None where none were built."""
    sets = " ".join(processor.instruction_sets) or "no instruction set that matters here"
    return [ok("processor", f"{processor.name}: {sets}"), _examine_kernels(kernels)]


def _examine_kernels(kernels: Sequence[str] | None) -> Finding:
    if not kernels:
        reinstall = "reinstall with a C++ compiler and CMake: `pip install --force-reinstall shoal`"
        return warning("native kernels", "not built, so the slow torch reference runs", reinstall)
    if kernels[0] == PORTABLE:
        return warning(
            "native kernels",
            "only `portable` runs here, several times slower",
            "use a CPU with AVX2 or newer",
        )
    others = f" ({', '.join(kernels[1:])} run too)" if kernels[1:] else ""
    return ok("native kernels", f"`{kernels[0]}`{others}")
