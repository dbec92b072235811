"""What can go wrong while tensors are read ahead is told where one is taken; nothing is left open or under way."""

import errno
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from direct_opens import refuse_direct_opens
from shoal.checkpoint.direct_shards import DirectShards
from shoal.checkpoint.shards import Checkpoint
from shoal.config.schema import ModelConfig
from shoal.errors import FileChangedError, OptionError, TensorError
from shoal.weights import read_ahead
from shoal.weights.load import load_backbone
from shoal.weights.read_ahead import ReadAhead

Within = Callable[[Callable[[], Any]], Any]
# Of three shards.
NAMES = ["norm.weight", "layers.0.attn.wkv.weight", "layers.0.attn.wkv.scale", "layers.1.attn.wq_a.weight"]


def look_at_nothing(_name: str, _tensor: Tensor) -> None:
    pass


def wait_quietly() -> None:
    pass


@pytest.fixture
def checkpoint(spoiled: Any) -> Iterator[Checkpoint]:
    with Checkpoint.open(spoiled.directory) as checkpoint:
        yield checkpoint


@pytest.fixture
def shards(checkpoint: Checkpoint) -> Iterator[DirectShards]:
    shards = DirectShards(checkpoint)
    yield shards
    shards.close()


def test_every_tensor_is_its_file_s(shards: DirectShards, checkpoint: Checkpoint, within: Within) -> None:
    looked = dict[str, Tensor]()
    names = [name for name in checkpoint.names() if ".experts." not in name]
    ahead = ReadAhead(shards, names, looked.__setitem__)
    for name in names:
        found = within(lambda name=name: ahead.take(name, wait_quietly))
        assert torch.equal(found, checkpoint.read(name)) and found.dtype == checkpoint.read(name).dtype
    assert ahead.arrived == sum(map(checkpoint.nbytes, names))
    assert set(looked) == set(names)
    ahead.close()


def truncate(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def replace(path: Path) -> None:
    other = path.with_suffix(".new")
    other.write_bytes(path.read_bytes())
    other.replace(path)


@pytest.mark.parametrize("change", [truncate, replace, Path.unlink])
def test_a_shard_that_changes_while_the_weights_are_loaded_stops_it(
    config: ModelConfig,
    checkpoint: Checkpoint,
    within: Within,
    monkeypatch: pytest.MonkeyPatch,
    change: Callable[[Path], None],
) -> None:
    path = checkpoint.entry("layers.3.attn.wkv.weight").path
    once, really = threading.Lock(), os.preadv

    def preadv(*given: Any) -> int:
        if once.acquire(blocking=False):
            change(path)
        return really(*given)

    monkeypatch.setattr(os, "preadv", preadv)
    with pytest.raises(FileChangedError, match=path.name):
        within(lambda: load_backbone(config, checkpoint))


@pytest.mark.parametrize(("number", "text"), [(errno.EIO, "Input/output error"), (errno.ENODEV, "No such device")])
def test_a_disk_that_fails_stops_the_load(
    config: ModelConfig,
    checkpoint: Checkpoint,
    within: Within,
    monkeypatch: pytest.MonkeyPatch,
    number: int,
    text: str,
) -> None:
    reads, really = list[int](), os.preadv

    def preadv(*given: Any) -> int:
        reads.append(1)
        if len(reads) > 5:
            raise OSError(number, os.strerror(number))
        return really(*given)

    monkeypatch.setattr(os, "preadv", preadv)
    before = open_files()
    with pytest.raises(FileChangedError, match=rf"became unreadable at byte [\d,]+: {text}"):
        within(lambda: load_backbone(config, checkpoint))
    assert open_files() == before


def open_files() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


@pytest.mark.parametrize("most", [512, 4096 * 3 + 17])
def test_short_reads_are_continued(
    shards: DirectShards, checkpoint: Checkpoint, within: Within, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    really = os.preadv

    def preadv(fd: int, views: list[memoryview], offset: int) -> int:
        return min(max(most, 4096), really(fd, views, offset))

    monkeypatch.setattr(os, "preadv", preadv)
    ahead = ReadAhead(shards, NAMES, look_at_nothing)
    for name in NAMES:
        found = within(lambda name=name: ahead.take(name, wait_quietly))
        assert torch.equal(found, checkpoint.read(name))
    ahead.close()


def test_what_fails_is_told_to_who_waits_for_another(
    shards: DirectShards, within: Within, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read_ahead, "TICK_SECONDS", 0.001)
    gate = threading.Event()

    def look(name: str, _tensor: Tensor) -> None:
        if name == NAMES[0]:
            raise TensorError("a NaN")
        assert name != NAMES[3] or gate.wait(60)

    ahead = ReadAhead(shards, NAMES, look)
    with pytest.raises(TensorError, match="a NaN"):
        within(lambda: ahead.take(NAMES[3], wait_quietly))
    gate.set()
    within(ahead.close)


def test_closing_ends_what_is_under_way(
    shards: DirectShards, checkpoint: Checkpoint, within: Within, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shoal.checkpoint.direct_file.PIECE_NBYTES", 4096)
    gate, begun, really = threading.Event(), threading.Event(), os.preadv
    reads = list[int]()

    def preadv(*given: Any) -> int:
        reads.append(1)
        begun.set()
        gate.wait(60)
        return really(*given)

    monkeypatch.setattr(os, "preadv", preadv)
    ahead = ReadAhead(shards, ["embed.weight", *NAMES], look_at_nothing)
    assert begun.wait(60)
    closing = threading.Thread(target=ahead.close)
    closing.start()
    while not ahead._is_closed:
        pass
    gate.set()
    within(closing.join)
    # Each thread finishes the piece it is at; `embed.weight` alone has eighty.
    assert len(reads) <= read_ahead.THREADS


def test_a_load_says_once_that_o_direct_is_refused(
    config: ModelConfig, checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse_direct_opens(monkeypatch)
    notices = list[str]()
    load_backbone(config, checkpoint, notice=notices.append)
    assert len(notices) == 1 and f"`{checkpoint.directory}` cannot be read past the page cache" in notices[0]


def test_memory_that_the_system_refuses_is_said(shards: DirectShards, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(nbytes: int) -> Tensor:
        raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))

    monkeypatch.setattr("shoal.weights.page_room.room_for", refuse)
    with pytest.raises(OptionError, match=r"the system refuses .* of memory for weights"):
        ReadAhead(shards, NAMES, look_at_nothing)


def test_two_disks_are_read_at_once(
    shards: DirectShards, checkpoint: Checkpoint, within: Within, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Two shards, read before all others and by no fewer threads than there are for a disk.
    slow = {checkpoint.entry(name).path for name in NAMES[1:]}
    assert len(slow) == read_ahead.THREADS
    gate, really = threading.Event(), DirectShards.read

    def read(self: DirectShards, extent: Any, *given: Any) -> None:
        assert extent.path not in slow or gate.wait(60)
        really(self, extent, *given)

    monkeypatch.setattr(Checkpoint, "device", lambda self, name: int(self.entry(name).path in slow))
    monkeypatch.setattr(DirectShards, "read", read)
    ahead = ReadAhead(shards, NAMES, look_at_nothing)
    within(lambda: ahead.take(NAMES[0], wait_quietly))
    gate.set()
    assert torch.equal(within(lambda: ahead.take(NAMES[3], wait_quietly)), checkpoint.read(NAMES[3]))
    ahead.close()
