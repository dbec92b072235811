"""Memory, writer and disk together: what comes and goes while it is written is sound, and is there after a restart."""

import threading
from pathlib import Path

from prefix_world import CONFIG, KEY, new_cache, new_pool, same, sequence
from shoal.engine.prefix import PrefixCache
from shoal.engine.prefix_directory import PrefixDirectory
from shoal.engine.prefix_disk import PrefixDisk
from shoal.engine.prefix_tree import Ids
from shoal.model.page_pool import PagePool
from watchdog import within

Ids_ = tuple[int, ...]


def prefix_cache(path: Path, pool: PagePool, nbytes: int = 1 << 26) -> tuple[PrefixCache, PrefixDisk, list[str]]:
    said = list[str]()
    disk = PrefixDisk(PrefixDirectory(path, 1 << 30, said.append), KEY, CONFIG, said.append)
    return PrefixCache(lambda: new_cache(pool), nbytes, disk), disk, said


def keep(cache: PrefixCache, pool: PagePool, ids: Ids_, lasting: bool = True) -> None:
    running = sequence(ids, pool)
    cache.keep(ids, running, lasting)
    running.release()


def test_what_lasts_is_found_after_a_restart_and_nothing_else(tmp_path: Path) -> None:
    pool = new_pool()
    cache, _, _ = prefix_cache(tmp_path, pool)
    keep(cache, pool, (1,) * 9)
    keep(cache, pool, (1,) * 12, lasting=False)
    cache.close()
    assert pool.num_used == 0
    cache, _, said = prefix_cache(tmp_path, pool)
    hit = cache.find((1,) * 20)
    assert hit is not None and hit[1] == 9 and same(hit[0], sequence((1,) * 9))
    assert cache.statistics().snapshots == 1 and said == []
    cache.close()
    hit[0].release()
    assert pool.num_used == 0


def test_a_second_hit_reads_no_file(tmp_path: Path) -> None:
    pool = new_pool()
    cache, _, _ = prefix_cache(tmp_path, pool)
    keep(cache, pool, (1,) * 9)
    cache.close()
    cache, disk, _ = prefix_cache(tmp_path, pool)
    for _ in range(3):
        assert cache.find((1,) * 20) is not None
    assert disk.statistics().hits == 1 and cache.statistics().hits == 3
    cache.close()


def test_what_a_file_gave_stays_while_it_is_in_use(tmp_path: Path) -> None:
    pool = new_pool()
    cache, _, _ = prefix_cache(tmp_path, pool)
    keep(cache, pool, (1,) * 9)
    cache.close()
    cache, _, _ = prefix_cache(tmp_path, pool)
    hit = cache.find((1,) * 20)
    assert hit is not None and not cache.evict()
    del hit
    assert cache.evict()
    cache.close()


def test_a_longer_file_is_taken_before_what_is_in_memory_and_a_damaged_one_is_not(tmp_path: Path) -> None:
    pool = new_pool()
    cache, _, _ = prefix_cache(tmp_path, pool)
    keep(cache, pool, (1,) * 9)
    keep(cache, pool, (1,) * 12)
    cache.close()
    cache, _, said = prefix_cache(tmp_path, pool)
    keep(cache, pool, (1,) * 5)
    (longest,) = tmp_path.glob("*-12-*")
    longest.write_bytes(b"damaged")
    hit = cache.find((1,) * 20)
    assert hit is not None and hit[1] == 9 and len(said) == 1
    cache.close()


def test_what_was_written_once_is_not_written_again(tmp_path: Path) -> None:
    pool = new_pool()
    cache, disk, _ = prefix_cache(tmp_path, pool)
    for _ in range(3):
        keep(cache, pool, (1,) * 9)
        assert cache.flush()
    assert disk.statistics().written == 1
    cache.close()


def test_what_is_being_written_is_not_evicted_and_what_waits_is(tmp_path: Path) -> None:
    pool = new_pool()
    cache, disk, _ = prefix_cache(tmp_path, pool)
    begun, may_go_on, write = threading.Event(), threading.Event(), disk.write

    def slow(ids: Ids, state: dict) -> bool:
        begun.set()
        may_go_on.wait(10)
        return write(ids, state)

    disk.write = slow
    keep(cache, pool, (1,) * 9)
    begun.wait(10)
    keep(cache, pool, (2,) * 9)
    assert cache.evict() and not cache.evict() and cache.statistics().snapshots == 1
    may_go_on.set()
    assert cache.flush() and cache.evict() and pool.num_used == 0
    cache.close()
    assert disk.statistics().written == 1


def test_files_are_sound_whatever_comes_and_goes_meanwhile(tmp_path: Path) -> None:
    pool = new_pool()
    sequences = [tuple([number % 3] * (5 + number)) for number in range(12)]
    cache, _, _ = prefix_cache(tmp_path, pool, nbytes=4 * sequence((0,) * 17).nbytes)

    def churn() -> None:
        for ids in sequences:
            keep(cache, pool, ids)
            hit = cache.find((*ids, 9))
            if hit is not None:
                hit[0].release()

    within(churn, 60)
    cache.close()
    assert pool.num_used == 0
    cache, disk, said = prefix_cache(tmp_path, pool)
    for ids in sequences:
        hit = cache.find((*ids, 9))
        assert hit is None or same(hit[0], sequence(ids[: hit[1]]))
    assert said == [] and disk.statistics().files >= 1
    cache.close()


def test_the_end_does_not_wait_for_a_disk_that_hangs(tmp_path: Path) -> None:
    pool = new_pool()
    cache, disk, _ = prefix_cache(tmp_path, pool)
    may_go_on = threading.Event()
    disk.write = lambda ids, state: may_go_on.wait(20)
    keep(cache, pool, (1,) * 9)
    keep(cache, pool, (2,) * 9)
    within(lambda: cache.close(0.1), 10)
    may_go_on.set()
