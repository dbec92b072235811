import hashlib
import socket

import pytest

from shoal.errors import CheckpointError, OptionError
from shoal.pull.repository import ConnectionLostError, open_repository

REPO, COMMIT = "shoal-tests/mini", "c" * 40
SHARD = "model-00001-of-00018.safetensors"


def test_a_listing_gives_commit_sizes_and_digests(hub, repository) -> None:
    assert (repository.name, repository.commit) == (REPO, COMMIT)
    assert [file.path for file in repository.files] == sorted(hub.files)
    assert all(file.nbytes == len(hub.files[file.path]) for file in repository.files)
    shard, config = repository.find(SHARD), repository.find("config.json")
    assert (shard.digest.kind, shard.digest.hex) == ("sha256", hashlib.sha256(hub.files[SHARD]).hexdigest())
    assert config.digest.kind == "git"
    assert repository.find("config") is None


def test_a_revision_is_a_branch_a_tag_or_a_commit(hub) -> None:
    for revision, commit in (("main", COMMIT), ("v0", "0" * 40), (COMMIT, COMMIT)):
        assert open_repository(REPO, revision, hub.endpoint).commit == commit


@pytest.mark.parametrize(
    ("name", "revision", "message"),
    [
        ("shoal-tests/nothing", None, "found no repository `shoal-tests/nothing` at `.*`, or it is private: HTTP 404"),
        ("shoal-tests/private", None, "found no repository `shoal-tests/private` at `.*`, or it is private: HTTP 401"),
        ("shoal-tests/gated", None, "`shoal-tests/gated` at `.*` is gated"),
        (REPO, "v9", "`shoal-tests/mini` has no revision `v9`, expected a branch, tag or commit"),
        ("a/b/c", None, "`a/b/c` is no name of a repository: "),
    ],
)
def test_what_the_hub_refuses_is_named(hub, name: str, revision: str | None, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        open_repository(name, revision, hub.endpoint)


@pytest.mark.usefixtures("hub")
def test_a_hub_that_is_not_there_is_named() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        endpoint = f"http://127.0.0.1:{unused.getsockname()[1]}"
        with pytest.raises(OptionError, match=f"cannot reach `{endpoint}` for `{REPO}`: .*refused"):
            open_repository(REPO, endpoint=endpoint)


def test_offline_mode_is_obeyed(hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(OptionError, match="offline mode is on") as caught:
        open_repository(REPO, endpoint=hub.endpoint)
    assert caught.value.hint == "unset `HF_HUB_OFFLINE`"


@pytest.mark.parametrize("path", ["../up", "/etc/passwd", "a/../../b", "a\\b", ".pull/lock", "a//b", "", "a\nb"])
def test_a_path_that_leaves_the_directory_is_refused(hub, path: str) -> None:
    hub.listed_extra.append({"rfilename": path, "size": 1, "blobId": "0" * 40})
    with pytest.raises(CheckpointError, match="expected a plain path inside it"):
        open_repository(REPO, endpoint=hub.endpoint)


def test_a_listing_without_sizes_is_refused(hub) -> None:
    hub.listed_extra.append({"rfilename": "a"})
    with pytest.raises(CheckpointError, match="has no size of `a`"):
        open_repository(REPO, endpoint=hub.endpoint)


def test_a_piece_is_exactly_what_was_asked_for(hub, repository, read_all) -> None:
    file = repository.find(SHARD)
    assert read_all(repository, file, 10, 5000) == hub.files[SHARD][10:5000]
    assert hub.requests == [(SHARD, "bytes=10-4999")]


def test_without_ranges_the_rest_of_the_file_comes(hub, repository, read_all) -> None:
    hub.ignores_range = True
    assert read_all(repository, repository.find(SHARD), 300_000, 300_001) == hub.files[SHARD][300_000:]


def test_a_break_gives_what_came_before_it(hub, repository) -> None:
    hub.cut_after[SHARD] = [1234]
    arrived = b""
    with pytest.raises(ConnectionLostError):
        for chunk in repository.read(repository.find(SHARD), 0, 9999):
            arrived += chunk
    assert arrived == hub.files[SHARD][:1234]


def test_a_small_file_is_read_whole_and_checked(hub, repository) -> None:
    file = repository.find("config.json")
    assert repository.read_whole(file) == hub.files["config.json"]
    hub.corrupt.add("config.json")
    with pytest.raises(CheckpointError, match=r"`config\.json` arrived damaged"):
        repository.read_whole(file)
    hub.cut_after["config.json"] = [10]
    with pytest.raises(OptionError, match=r"`config\.json` did not arrive"):
        repository.read_whole(file)
