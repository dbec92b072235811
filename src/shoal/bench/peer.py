"""llama.cpp's experts as a peer: the library that `benchmarks/peers/build.sh` builds, through ctypes."""

import ctypes
from pathlib import Path
from typing import Self

import torch
from jaxtyping import Float32, Int32
from torch import Tensor

from shoal.bench.region import ExpertShape
from shoal.bench.workbench import NotMeasured

LIBRARY, VERSION = "libshoal_peer_ggml.so", "version"
BUILD = "`sh benchmarks/peers/build.sh DIRECTORY` builds it for `--peers DIRECTORY`"


class PeerLayer:
    """The routed experts of a layer in MXFP4, in the layout that llama.cpp chooses on this processor."""

    def __init__(self, library: ctypes.CDLL, layer: int, shape: ExpertShape, count: int, layout: str) -> None:
        self.library, self.shape, self.count, self.layout = library, shape, count, layout
        self._layer = layer

    @classmethod
    def create(cls, directory: Path | None, shape: ExpertShape, count: int, threads: int) -> Self:
        """Repacked where ggml can. NotMeasured where the library is not there or memory is short."""
        library = _load(directory)
        for layout, repack in (("repacked", 1), ("as stored", 0)):
            layer = library.peer_layer_create(count, shape.dim, shape.inter, threads, repack)
            if layer:
                return cls(library, layer, shape, count, layout)
        raise NotMeasured(f"llama.cpp cannot take memory for {count} experts")

    def pause(self) -> None:
        """Stop its threads from waiting for the next step at full speed, until that comes."""
        self.library.peer_layer_pause(self._layer)

    def close(self) -> None:
        """Gives the memory back."""
        self.library.peer_layer_free(self._layer)

    def run(self, tokens: int, active: int) -> "PeerRun":
        """A step of so many tokens and experts a token."""
        return PeerRun(self, self.library.peer_run_create(self._layer, tokens, active), tokens, active)


class PeerRun:
    """The graph of one step."""

    def __init__(self, layer: PeerLayer, run: int, tokens: int, active: int) -> None:
        self.layer, self.tokens, self.active = layer, tokens, active
        self._run = run

    def __call__(self, x: Float32[Tensor, "tokens dim"], ids: Int32[Tensor, "tokens active"]) -> None:
        """Compute it."""
        assert x.shape == (self.tokens, self.layer.shape.dim) and x.dtype == torch.float32 and x.is_contiguous()
        assert ids.shape == (self.tokens, self.active) and ids.dtype == torch.int32 and ids.is_contiguous()
        failed = self.layer.library.peer_run(self._run, x.data_ptr(), ids.data_ptr())
        assert not failed, failed

    def close(self) -> None:
        """Gives the memory back."""
        self.layer.library.peer_run_free(self._run)


def peer_version(directory: Path) -> str:
    """The package that was built."""
    return (directory / VERSION).read_text(encoding="utf-8").strip()


def _load(directory: Path | None) -> ctypes.CDLL:
    if directory is None:
        raise NotMeasured(f"no llama.cpp to compare with: {BUILD}")
    path = directory / LIBRARY
    if not path.is_file():
        raise NotMeasured(f"`{path}` is not there: {BUILD}")
    library, pointer = ctypes.CDLL(str(path)), ctypes.c_void_p
    library.peer_layer_create.restype = pointer
    library.peer_layer_create.argtypes = [ctypes.c_size_t] * 3 + [ctypes.c_int] * 2
    library.peer_layer_pause.argtypes = [pointer]
    library.peer_layer_free.argtypes = [pointer]
    library.peer_run_create.restype = pointer
    library.peer_run_create.argtypes = [pointer, ctypes.c_size_t, ctypes.c_size_t]
    library.peer_run.argtypes = [pointer] * 3
    library.peer_run_free.argtypes = [pointer]
    return library
