"""A forward that is interrupted leaves its sequences as they were."""

from typing import Any

import pytest
import torch


def interrupt(*_: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("layer", [0, 2, 6, 9])
def test_an_interrupted_forward_leaves_no_trace(native: Any, layer: int, monkeypatch: pytest.MonkeyPatch) -> None:
    caches = [native.copy_of(native.whole(length).cache) for length in (31, 33)]
    with monkeypatch.context() as patch:
        patch.setattr(native.backbone.layers[layer].moe, "forward_in_workspace", interrupt)
        with pytest.raises(KeyboardInterrupt):
            native.advance([[7] * 3, [7] * 35], caches)
    for cache, length in zip(caches, (31, 33), strict=True):
        saved, before = cache.state(), native.copy_of(native.whole(length).cache).state()
        assert all(torch.equal(saved[name], before[name]) for name in saved)
    runs = native.lockstep([[native.ids[31:37]], [native.ids[33:37]]], caches)
    assert [run.differences(native.whole(37), first) for run, first in zip(runs, (31, 33), strict=True)] == [
        [],
        [],
    ]


def test_the_pass_before_an_interrupted_one_is_final(driver: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = driver.copy_of(driver.whole(31).cache)
    driver.advance([driver.ids[31:33]], [cache])
    assert cache.can_truncate(32)
    for method in ("forward", "forward_in_workspace"):
        monkeypatch.setattr(driver.backbone.layers[2].moe, method, interrupt)
    with pytest.raises(KeyboardInterrupt):
        driver.advance([[7] * 3], [cache])
    # Rings that the interrupted pass reached can no longer undo the one before.
    assert not cache.can_truncate(32) and cache.can_truncate(33)
    cache.truncate(33)
