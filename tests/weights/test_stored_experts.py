"""Experts read whole from the miniature's shards are those of the names, and a damaged one is refused by name."""

import contextlib
import errno
import fcntl
import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import replace as replaced
from pathlib import Path
from typing import Any

import pytest
from torch import Tensor

from direct_opens import refuse_direct_opens
from shoal.checkpoint.extents import Extent
from shoal.checkpoint.shards import Checkpoint
from shoal.config.layer_plan import LayerPlan
from shoal.config.schema import ModelConfig
from shoal.errors import FileChangedError, ShoalError, TensorError
from shoal.ops.mixture import ExpertWeights
from shoal.weights.arena import Arena
from shoal.weights.cached_experts import CachedExperts
from shoal.weights.expert_key import Key
from shoal.weights.expert_reader import ExpertReader
from shoal.weights.read_job import ReadJob
from shoal.weights.stored_experts import StoredExperts

Plans = tuple[LayerPlan, ...]
Within = Callable[[Callable[[], Any]], Any]


def stored_bytes(weights: ExpertWeights) -> list[bytes]:
    matrices = (weights.w1, weights.w2, weights.w3)
    return [part.numpy().tobytes() for matrix in matrices for part in (matrix.codes, matrix.scales)]


def named_bytes(checkpoint: Checkpoint, plans: Plans, key: Key) -> list[bytes]:
    names = [f"{plans[key[0]].prefix}.ffn.experts.{key[1]}.{part}" for part in ("w1", "w2", "w3")]
    return [checkpoint.read_bytes(f"{name}.{part}") for name in names for part in ("weight", "scale")]


def ask(experts: CachedExperts, layer_id: int, *expert_ids: int) -> None:
    for _ in experts.arrivals(layer_id, expert_ids):
        pass


@pytest.fixture
def read(within: Within) -> Iterator[Callable[[StoredExperts, Key, Tensor], ExpertWeights]]:
    """Reads one expert into a room, by the reader of its source."""
    readers = dict[int, ExpertReader]()

    def read(source: StoredExperts, key: Key, room: Tensor) -> ExpertWeights:
        reader = readers.setdefault(id(source), source.reader(2))
        reader.submit(ReadJob(key, room))
        (job,) = within(lambda: reader.done(wait=True))
        assert job.weights is not None, job.problem
        return job.weights  # type: ignore[no-any-return]

    yield read
    for reader in readers.values():
        reader.close()


def test_every_expert_is_that_of_its_names(miniature: Checkpoint, config: ModelConfig, plans: Plans, read: Any) -> None:
    source = StoredExperts(miniature, config, plans)
    arena = Arena(source.slot_nbytes, 2)
    counts = [config.num_draft_experts if plan.is_draft else config.n_routed_experts for plan in plans]
    assert len(source.keys) == len(set(source.keys)) == sum(counts)
    for number, key in enumerate(source.keys):
        weights = read(source, key, arena.slot(number % 2))
        assert stored_bytes(weights) == named_bytes(miniature, plans, key)
        assert sum(map(len, stored_bytes(weights))) <= source.nbytes(key) <= source.slot_nbytes


@pytest.fixture
def spoiled_experts(spoiled: Any, config: ModelConfig, plans: Plans) -> Any:
    """Opens the spoiled copy, in a store of four slots, when called."""
    opened = list[Any]()

    def open_() -> tuple[Checkpoint, CachedExperts]:
        checkpoint = Checkpoint.open(spoiled.directory)
        experts = CachedExperts(StoredExperts(checkpoint, config, plans), 4)
        opened.extend([experts, checkpoint])
        return checkpoint, experts

    yield open_
    for each in opened:
        each.close()


def test_a_nan_scale_is_named_each_time(spoiled: Any, spoiled_experts: Any, within: Within) -> None:
    name = "layers.0.ffn.experts.3.w1.scale"
    spoiled.poke(name, 7, b"\xff")
    _, experts = spoiled_experts()
    ask(experts, 0, 2)
    for _ in range(2):
        with pytest.raises(TensorError, match=rf"`{name}` is NaN \(code 255\) at \[1, 2\] in `model-"):
            within(lambda: ask(experts, 0, 1, 3))
    ask(experts, 0, 1)


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def replace(path: Path) -> None:
    other = path.with_suffix(".new")
    other.write_bytes(path.read_bytes())
    other.replace(path)


@pytest.mark.parametrize("change", [cut, replace, Path.unlink])
@pytest.mark.parametrize("opens_first", [False, True])
def test_a_shard_that_changed_is_refused_and_what_is_in_memory_stays(
    spoiled_experts: Any, within: Within, change: Callable[[Path], None], opens_first: bool
) -> None:
    checkpoint, experts = spoiled_experts()
    path = checkpoint.entry("layers.0.ffn.experts.3.w1.weight").path
    if opens_first:
        ask(experts, 0, 3)
    change(path)
    for _ in range(2):
        with pytest.raises(FileChangedError, match=path.name):
            within(lambda: ask(experts, 0, 5))
    if opens_first:
        ask(experts, 0, 3)


def put_in_place_of(path: Path, wanted: Path, flags: int) -> None:
    """Whoever has `path` open reads another file from now on."""
    fd = os.open(wanted, flags)
    for each in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            if each.readlink() == path and fcntl.fcntl(int(each.name), fcntl.F_GETFL) & os.O_DIRECT:
                os.dup2(fd, int(each.name))
    os.close(fd)


@pytest.mark.parametrize(
    ("code", "other", "flags"),
    [
        (errno.EIO, "/proc/self/mem", os.O_RDONLY),
        (errno.EISDIR, "/proc/self", os.O_RDONLY),
        (errno.EBADF, "/dev/null", os.O_WRONLY),
    ],
)
def test_a_disk_that_fails_or_is_gone_is_named_and_what_is_in_memory_stays(
    spoiled_experts: Any, within: Within, code: int, other: str, flags: int
) -> None:
    checkpoint, experts = spoiled_experts()
    ask(experts, 0, 3)
    path = checkpoint.entry("layers.0.ffn.experts.5.w1.weight").path
    put_in_place_of(path, Path(other), flags)
    for _ in range(2):
        with pytest.raises(FileChangedError, match=rf"became unreadable at byte [\d,]+: {os.strerror(code)}"):
            within(lambda: ask(experts, 0, 5))
    ask(experts, 0, 3)


def test_a_read_that_brings_less_than_the_file_has_is_named(
    spoiled_experts: Any, within: Within, tmp_path: Path
) -> None:
    checkpoint, experts = spoiled_experts()
    ask(experts, 0, 3)
    (tmp_path / "empty").touch()
    put_in_place_of(checkpoint.entry("layers.0.ffn.experts.5.w1.weight").path, tmp_path / "empty", os.O_RDONLY)
    with pytest.raises(FileChangedError, match=r"was shortened: at byte [\d,]+ found [\d,]+ bytes, expected [\d,]+"):
        within(lambda: ask(experts, 0, 5))


def test_a_file_that_refuses_o_direct_late_is_read_through_the_page_cache(
    miniature: Checkpoint, config: ModelConfig, plans: Plans, within: Within
) -> None:
    notices = list[str]()
    source = StoredExperts(miniature, config, plans, notices.append)
    # What no disk takes is an offset inside a block: the first try of these experts.
    really, tried, keys = source.extents, set[Key](), source.keys[:3]

    def extents(key: Key) -> tuple[Extent, ...]:
        is_first = key not in tried
        tried.add(key)
        return tuple(replaced(each, start=each.start + is_first) for each in really(key))

    source.extents = extents  # type: ignore[method-assign]
    # All are under way when the first is refused.
    reader, arena = source.reader(2), Arena(source.slot_nbytes, len(keys))
    for slot, key in enumerate(keys):
        reader.submit(ReadJob(key, arena.slot(slot)))
    done = list[ReadJob]()
    while len(done) < len(keys):
        done += within(lambda: reader.done(wait=True))
    reader.close()
    for job in done:
        assert job.weights is not None, job.problem
        assert stored_bytes(job.weights) == named_bytes(miniature, plans, job.key)
    assert len(notices) == 1 and "O_DIRECT: Invalid argument" in notices[0]


def test_signals_in_the_middle_of_reads_change_nothing(
    miniature: Checkpoint, config: ModelConfig, plans: Plans, read: Any
) -> None:
    source, seen = StoredExperts(miniature, config, plans), 0

    def count(*_: object) -> None:
        nonlocal seen
        seen += 1

    arena, before = Arena(source.slot_nbytes, 1), signal.signal(signal.SIGALRM, count)
    signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
    try:
        for key in source.keys[:20]:
            assert stored_bytes(read(source, key, arena.slot(0))) == named_bytes(miniature, plans, key)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert seen


def test_a_closed_checkpoint_is_an_error_and_not_a_hang(spoiled_experts: Any, within: Within) -> None:
    checkpoint, experts = spoiled_experts()
    checkpoint.close()
    with pytest.raises((ValueError, ShoalError), match="closed"):
        within(lambda: ask(experts, 0, 5))


def test_the_notice_of_a_disk_without_o_direct_comes_once(
    miniature: Checkpoint, config: ModelConfig, plans: Plans, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse_direct_opens(monkeypatch)
    notices = list[str]()
    experts = CachedExperts(StoredExperts(miniature, config, plans, notices.append), 2)
    for layer_id in (0, 5, 9):
        for group in experts.arrivals(layer_id, [1, 2, 3]):
            for expert_id, weights in group:
                assert stored_bytes(weights) == named_bytes(miniature, plans, (layer_id, expert_id))
    experts.close()
    assert len(notices) == 1 and "O_DIRECT" in notices[0]
