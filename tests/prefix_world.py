"""Sequences of the random miniature without a model: what a cache holds is noise that its ids decide."""

import hashlib
from collections.abc import Sequence

import torch
from torch import Tensor

from miniature import MINI
from shoal.config.layer_plan import plan_layers
from shoal.config.layouts import load_config
from shoal.model.cache import SequenceCache
from shoal.model.page_pool import PagePool

CONFIG = load_config(MINI)
PLANS = plan_layers(CONFIG)
KEY = hashlib.sha256(b"a key").hexdigest()


def new_pool() -> PagePool:
    """Of small pages, so that short sequences have several."""
    return PagePool(CONFIG, PLANS, page_tokens=4)


def new_cache(pool: PagePool | None = None) -> SequenceCache:
    """Without a token."""
    return SequenceCache(CONFIG, PLANS, pool=pool)


def sequence(ids: Sequence[int], pool: PagePool | None = None) -> SequenceCache:
    """A cache that has seen `ids`; the same for the same ids, another for others."""
    cache, length = new_cache(pool), len(ids)
    seed = int.from_bytes(hashlib.sha256(repr(tuple(ids)).encode()).digest()[:7], "little")
    generator, state = torch.Generator().manual_seed(seed), {}
    for name, tensor in cache.state().items():
        shape = cache._expected_shape(name, tuple(tensor.shape), length)
        state[name] = torch.randint(0, 100, shape, generator=generator).to(tensor.dtype)
    cache.load(state, length)
    return cache


def same(a: SequenceCache, b: SequenceCache) -> bool:
    """Whether they hold the same bits."""
    states: tuple[dict[str, Tensor], dict[str, Tensor]] = a.state(), b.state()
    return a.length == b.length and all(torch.equal(tensor, states[1][name]) for name, tensor in states[0].items())
