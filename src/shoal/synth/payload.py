"""The bytes of tensors: slices of seeded pools, so that they come as fast as memory can be copied.

A pool holds a prime number of elements, and a tensor is read out of it in a ring from a place of its own: what it holds
depends on the seed, its name, dtype and shape, never on what was written before it or in which portions.
"""

import math
from collections.abc import Iterator
from functools import cache, lru_cache
from hashlib import blake2b
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from shoal.checkpoint.header import DTYPE_BITS
from shoal.checkpoint.inventory import ROUTED, TensorSpec
from shoal.formats.float4 import decode_e2m1
from shoal.formats.float8 import E8M0_BIAS, E8M0_NAN, decode_e4m3, encode_e4m3
from shoal.synth.distributions import FLOATS, Distribution, distribution_of

POOL_ELEMENTS = {"F8_E4M3": 16_777_213, "I8": 16_777_213, "F8_E8M0": 2_097_143, "BF16": 2_097_143, "F32": 524_287}
"""Primes: no two rows of a weight, and few of a table, begin at the same element of the pool."""
MAX_POOLS = 48
_CODE_SPREAD = 64.0
"""Of the E4M3 codes alone; the largest of their 256 quantiles is 184, far from what would round to NaN."""
_SCALE_STEPS = (-1, 0, 0, 1)
"""Exponents of a tensor's scales about their middle, equally often."""

Table = npt.NDArray[Any]
"""What each value of a random byte, or of a random pair of bytes, stands for."""


class _Kind(NamedTuple):
    """What tensors that share a pool have in common."""

    dtype: str
    distribution: Distribution | None  # None for codes, whose scales set the spread, and for scales
    exponent: int  # the middle of the scales; 0 for all others


class Payload:
    """The bytes of every tensor of one seed."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._pool = lru_cache(MAX_POOLS)(self._build_pool)

    def portions(self, spec: TensorSpec) -> Iterator[memoryview]:
        """The tensor's bytes as stored, row-major, in portions of at most a pool; no NaN among them."""
        pool, width = self._pool(_kind(spec)), DTYPE_BITS[spec.dtype] // 8
        start = self._first_element(spec.name, POOL_ELEMENTS[spec.dtype]) * width
        left = math.prod(spec.shape) * width
        while left:
            portion = pool[start : start + left]
            yield portion.data
            left, start = left - len(portion), 0

    def _first_element(self, name: str, num_elements: int) -> int:
        digest = blake2b(name.encode(), key=self.seed.to_bytes(8, "little"), digest_size=8).digest()
        return int.from_bytes(digest, "little") % num_elements

    def _build_pool(self, kind: _Kind) -> npt.NDArray[np.uint8]:
        table = _table(kind)
        return table[self._random_bits(kind.dtype, 1 if len(table) == 256 else 2)].view(np.uint8)

    def _random_bits(self, dtype: str, width: int) -> npt.NDArray[np.uint8] | npt.NDArray[np.uint16]:
        """A pool of uniform integers of `width` bytes. SFC64's raw output is what numpy promises never to change."""
        generator = np.random.SFC64(np.random.SeedSequence([self.seed, int.from_bytes(dtype.encode(), "little")]))
        nbytes = POOL_ELEMENTS[dtype] * width
        raw = generator.random_raw(-(-nbytes // 8)).astype("<u8").view(np.uint8)[:nbytes]
        return raw if width == 1 else raw.view("<u2")


def _kind(spec: TensorSpec) -> _Kind:
    if spec.dtype in FLOATS:
        return _Kind(spec.dtype, distribution_of(spec), 0)
    return _Kind(spec.dtype, None, _middle_exponent(spec) if spec.dtype == "F8_E8M0" else 0)


def _middle_exponent(spec: TensorSpec) -> int:
    """Of a weight's scales, so that codes times scales have its spread to within a factor of √2."""
    step_spread = _rms(torch.tensor([2.0**step for step in _SCALE_STEPS]))
    code_spread = _rms(_decoded_codes("I8" if spec.kind == ROUTED else "F8_E4M3"))
    return round(math.log2(distribution_of(spec).spread / (code_spread * step_spread)))


def _rms(values: torch.Tensor) -> float:
    return float(values.double().square().mean().sqrt())


@cache
def _decoded_codes(dtype: str) -> torch.Tensor:
    """Every code that a pool of `dtype` holds, equally often, as float32."""
    if dtype == "I8":
        return decode_e2m1(torch.arange(16, dtype=torch.uint8))
    return decode_e4m3(torch.from_numpy(_table(_Kind(dtype, None, 0))))


def _table(kind: _Kind) -> Table:
    if kind.dtype == "I8":
        # Two codes a byte, every one of them a number.
        return np.arange(256, dtype=np.uint8)
    if kind.dtype == "F8_E4M3":
        return encode_e4m3(_quantiles(256, Distribution(0.0, _CODE_SPREAD)).float()).numpy()
    if kind.dtype == "F8_E8M0":
        codes = [E8M0_BIAS + kind.exponent + step for step in _SCALE_STEPS]
        assert 0 <= min(codes) <= max(codes) < E8M0_NAN, kind
        return np.resize(np.array(codes, dtype=np.uint8), 256)
    assert kind.distribution is not None, kind
    values = _quantiles(65536, kind.distribution)
    if kind.dtype == "F32":
        return values.float().numpy().astype("<f4")
    return values.bfloat16().view(torch.int16).numpy().astype("<i2")


def _quantiles(count: int, distribution: Distribution) -> torch.Tensor:
    """`count` values of a normal distribution that are equally likely, float64 [count]."""
    return distribution.mean + distribution.spread * _standard_quantiles(count)


@cache
def _standard_quantiles(count: int) -> torch.Tensor:
    inverse = NormalDist().inv_cdf
    return torch.tensor([inverse((place + 0.5) / count) for place in range(count)], dtype=torch.float64)
