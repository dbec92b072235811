import fcntl
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from shoal.checkpoint.audit import AuditOptions, audit
from shoal.checkpoint.header import read_header
from shoal.errors import CheckpointError, ConfigError, OptionError, ShardIndexError
from shoal.pull import part_file

SHARD = "model-00005-of-00018.safetensors"
INDEX = "model.safetensors.index.json"


def test_a_full_pull_brings_every_byte_and_is_a_checkpoint(pull, hub) -> None:
    outcome = pull.run()
    assert outcome.missing == outcome.failures == ()
    assert pull.names() == set(hub.files)
    assert all((pull.out / name).read_bytes() == content for name, content in hub.files.items())
    assert pull.parts() == []
    assert audit(pull.out, AuditOptions()).holds(require_complete=True)
    shards = [name for name in hub.files if name.endswith("safetensors")]
    assert sorted(line.split(":")[0] for line in pull.said) == sorted(shards)
    num_tensors = len(read_header(pull.out / SHARD).tensors)
    assert f"{SHARD}: 0.593 MiB, sha256 and header right, {num_tensors} tensors" in pull.said


def test_what_is_here_is_not_fetched_again(pull, hub) -> None:
    pull.run()
    hub.requests.clear()
    (pull.out / SHARD).unlink()
    assert pull.run().missing == ()
    assert {path for path, _ in hub.requests} == {SHARD}


def test_a_cut_connection_goes_on_where_it_broke_off(pull, hub) -> None:
    hub.cut_after[SHARD] = [1000, 0, 5000]
    assert pull.run().missing == ()
    starts = [wanted.removeprefix("bytes=").split("-")[0] for path, wanted in hub.requests if path == SHARD]
    assert starts == ["0", "1000", "1000", "6000"]
    assert (pull.out / SHARD).read_bytes() == hub.files[SHARD]
    assert sum("broke off at byte" in line for line in pull.said) == 3


def test_a_pull_that_ended_is_taken_up_by_the_next_one(pull, hub) -> None:
    hub.cut_after[SHARD] = [300_000] + 9 * [0]
    outcome = pull.run()
    assert isinstance(outcome.failures[0], OptionError)
    assert "broke off at byte 300,000 of" in outcome.failures[0].message
    assert SHARD in {file.path for file in outcome.missing} and SHARD not in pull.names()
    assert any(name.startswith(SHARD) for name in pull.parts())
    hub.cut_after.clear()
    hub.requests.clear()
    assert pull.run().missing == ()
    assert [wanted.split("-")[0] for path, wanted in hub.requests if path == SHARD] == ["bytes=300000"]
    assert (pull.out / SHARD).read_bytes() == hub.files[SHARD]


def test_a_busy_hub_is_asked_again(pull, hub) -> None:
    hub.statuses[SHARD] = [503, 429]
    assert pull.run().missing == ()


def test_a_hub_without_ranges_does(pull, hub) -> None:
    hub.ignores_range = True
    hub.cut_after[SHARD] = [2_000, 100_000]
    assert pull.run().missing == ()
    assert (pull.out / SHARD).read_bytes() == hub.files[SHARD]


@pytest.mark.parametrize("path", [SHARD, "tokenizer.json"])
def test_damaged_bytes_never_get_the_name(pull, hub, path: str) -> None:
    hub.corrupt.add(path)
    outcome = pull.run()
    (failure,) = outcome.failures
    assert isinstance(failure, CheckpointError)
    kind = "sha256" if path == SHARD else "git blob id"
    assert f"`{path}` arrived with the {kind}" in failure.message
    assert path not in pull.names() and pull.parts() == []
    hub.corrupt.clear()
    assert pull.run().missing == ()


def test_a_damaged_shard_does_not_stop_the_others(pull, hub) -> None:
    hub.corrupt.add(SHARD)
    assert [file.path for file in pull.run().missing] == [SHARD]
    assert pull.names() == set(hub.files) - {SHARD}


@pytest.mark.parametrize("difference", [-8, 8])
def test_a_size_other_than_the_listed_one_is_refused(pull, hub, difference: int) -> None:
    hub.listed_nbytes[SHARD] = len(hub.files[SHARD]) + difference
    outcome = pull.run()
    (failure,) = outcome.failures
    assert isinstance(failure, CheckpointError)
    assert f"sends `{SHARD}` with {len(hub.files[SHARD])} bytes, expected the" in failure.message
    assert SHARD not in pull.names() and pull.parts() == []


def test_a_shard_whose_header_lies_is_refused_though_its_digest_is_right(pull, hub) -> None:
    hub.files[SHARD] = hub.files[SHARD] + b"\0\0"
    outcome = pull.run()
    (failure,) = outcome.failures
    assert "2 bytes after its last tensor" in failure.message
    assert SHARD not in pull.names() and pull.parts() == []


def test_a_listed_file_that_is_not_there_is_said(pull, hub) -> None:
    hub.absent.add(SHARD)
    (failure,) = pull.run().failures
    assert failure.message.endswith(f"lists `{SHARD}` but does not have it: HTTP 404")


def test_another_model_is_noticed_before_the_first_shard(pull, hub) -> None:
    hub.files["config.json"] = b'{"model_type": "another"}'
    with pytest.raises(ConfigError, match="describes another model"):
        pull.run()
    assert not any(path.endswith("safetensors") for path, _ in hub.requests)


def test_an_index_that_lacks_tensors_is_noticed_before_the_first_shard(pull, hub) -> None:
    hub.files[INDEX] = hub.files[INDEX].replace(b'"head.weight"', b'"tail.weight"')
    with pytest.raises(ShardIndexError, match=r"lacks 1 tensors, the first is `head\.weight`"):
        pull.run()
    assert not any(path.endswith("safetensors") for path, _ in hub.requests)


def test_a_revision_brings_its_own_files_and_replaces_others(pull) -> None:
    pull.run("v0")
    assert (pull.out / "README.md").read_bytes() == b"old\n"
    pull.run()
    assert (pull.out / "README.md").read_bytes() == b"new\n"


def test_parts_of_another_version_are_not_continued_and_go(pull, hub) -> None:
    stale = pull.out / ".pull" / f"{SHARD}.0123456789abcdef.part"
    stale.parent.mkdir(parents=True)
    stale.write_bytes(b"x" * 1000)
    assert pull.run().missing == ()
    assert not stale.exists()


def test_a_part_whose_bytes_rotted_is_removed(pull, hub) -> None:
    plan = pull.plan()
    (file,) = [file for file in plan.selected if file.path == SHARD]
    part = file.part_path(pull.out, plan.repository.commit)
    part.parent.mkdir(parents=True)
    part.write_bytes(b"x" * 1000)
    outcome = pull.run()
    assert [failure.message.split(" arrived")[0] for failure in outcome.failures] == [f"`{SHARD}`"]
    assert pull.parts() == []


def test_a_full_disk_stops_all_and_keeps_what_arrived(pull, hub, monkeypatch: pytest.MonkeyPatch) -> None:
    pull.out.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", pull.out], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("mounting a small disk needs root")
    try:
        monkeypatch.setattr("shoal.pull.preflight._free_nbytes", lambda out: 1 << 40)
        outcome = pull.run()
        assert outcome.failures
        assert all(isinstance(failure, OptionError) for failure in outcome.failures)
        assert outcome.failures[0].message.endswith("cannot be written: No space left on device")
        assert "run the command again" in outcome.failures[0].hint
        for name in pull.names():
            assert (pull.out / name).read_bytes() == hub.files[name]
        assert sum(path.endswith("safetensors") for path, _ in hub.requests) < 18
        subprocess.run(["mount", "-o", "remount,size=40m", pull.out], check=True)
        assert pull.run().missing == ()
    finally:
        subprocess.run(["umount", pull.out], check=True)


def test_a_write_that_fails_leaves_no_name(pull, hub, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(part_file.os, "fsync", fail)
    outcome = pull.run()
    assert "cannot be written: No space left on device" in outcome.failures[0].message
    assert pull.names() == set()


def test_two_pulls_do_not_share_a_directory(pull) -> None:
    lock = pull.out / ".pull" / "lock"
    lock.parent.mkdir(parents=True)
    with lock.open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(OptionError, match="another pull is filling"):
            pull.run()


def test_a_pull_that_is_stopped_leaves_parts_and_ends(pull, hub) -> None:
    hub.stalled = threading.Event()
    transfer = pull.transfer(pull.plan(), num_connections=1)
    timer = threading.Thread(target=lambda: (hub.stalled.wait(), transfer.progress.stop.set(), hub.release.set()))
    timer.start()
    outcome = transfer.run()
    timer.join()
    assert outcome.failures == () and len(outcome.missing) == 18
    assert len(pull.parts()) == 1
    assert 0 < transfer.progress.here < transfer.progress.total


def test_ctrl_c_while_the_first_files_begin_stops_them(pull, hub, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.stalled = threading.Event()
    begin, begun = ThreadPoolExecutor.submit, []

    def submit(threads, land, file, index):
        if file.path.endswith("safetensors") and len(begun) == 3:
            hub.stalled.wait(10)
            hub.release.set()
            raise KeyboardInterrupt
        begun.extend([file] if index else [])
        return begin(threads, land, file, index)

    monkeypatch.setattr(ThreadPoolExecutor, "submit", submit)
    transfer = pull.transfer(pull.plan())
    with pytest.raises(KeyboardInterrupt):
        transfer.run()
    assert transfer.progress.stop.is_set()
    assert not any(name.endswith("safetensors") for name in pull.names())


def test_progress_counts_every_byte_once(pull, hub) -> None:
    hub.cut_after[SHARD] = [1000, 2000]
    transfer = pull.transfer(pull.plan())
    transfer.run()
    assert transfer.progress.here == transfer.progress.total == sum(map(len, hub.files.values()))


def test_a_link_in_place_of_a_file_is_replaced_and_not_written_through(pull, hub, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_bytes(b"mine")
    pull.out.mkdir()
    (pull.out / SHARD).symlink_to(elsewhere)
    assert pull.run().missing == ()
    assert elsewhere.read_bytes() == b"mine"
    assert (pull.out / SHARD).read_bytes() == hub.files[SHARD]
