import pytest

from shoal.errors import OptionError
from shoal.pull import download
from shoal.pull.download import Progress, StoppedError, fetch
from shoal.pull.part_file import PartFile

SHARD = "model-00001-of-00018.safetensors"


@pytest.fixture
def part(repository, tmp_path):
    with PartFile(tmp_path / "part", repository.find(SHARD), lambda nbytes: None) as part:
        yield part


def test_a_file_comes_in_pieces(hub, repository, part, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(download, "PIECE_NBYTES", 100_000)
    fetch(repository, part.file, part, Progress(0, 0), lambda line: None)
    part.check()
    assert [wanted for _, wanted in hub.requests] == [
        "bytes=0-99999",
        "bytes=100000-199999",
        "bytes=200000-299999",
        "bytes=300000-399999",
        "bytes=400000-454639",
    ]


def test_a_hub_is_not_asked_for_ever(hub, repository, part) -> None:
    hub.statuses[SHARD] = 20 * [503]
    said: list[str] = []
    with pytest.raises(OptionError, match=f"`{SHARD}` broke off at byte 0 of 454,640: HTTP 503"):
        fetch(repository, part.file, part, Progress(0, 0), said.append)
    assert len(said) == download.MOST_FRUITLESS_TRIES - 1
    assert len(hub.statuses[SHARD]) == 20 - download.MOST_FRUITLESS_TRIES


def test_every_byte_that_comes_renews_the_patience(hub, repository, part) -> None:
    hub.cut_after[SHARD] = [100] * 3 * download.MOST_FRUITLESS_TRIES
    fetch(repository, part.file, part, Progress(0, 0), lambda line: None)
    part.check()


def test_waits_double_and_end_at_once_when_stopped(hub, repository, part, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(download, "FIRST_WAIT_SECONDS", 1.0)
    hub.statuses[SHARD] = 3 * [503]
    progress, waits = Progress(0, 0), []

    def wait(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 3:
            progress.stop.set()
        progress.check()

    monkeypatch.setattr(progress, "wait", wait)
    with pytest.raises(StoppedError):
        fetch(repository, part.file, part, progress, lambda line: None)
    assert waits == [1.0, 2.0, 4.0]
