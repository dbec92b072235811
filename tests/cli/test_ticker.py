import time

import pytest

from shoal.cli import ticker
from shoal.cli.ticker import Ticker


def test_what_is_quick_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with Ticker(lambda: "loading"):
        pass
    assert capsys.readouterr() == ("", "")


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ticker, "FIRST_SECONDS", 0.01)
    monkeypatch.setattr(ticker, "NEXT_SECONDS", 0.01)


@pytest.mark.usefixtures("hasty")
def test_what_lasts_is_said_again_and_again_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    calls = []
    with Ticker(lambda: calls.append(1) or f"step {len(calls)}"):
        while len(calls) < 2:
            time.sleep(0.01)
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines()[:2] == ["step 1, 0 s so far", "step 2, 0 s so far"]


@pytest.mark.usefixtures("hasty")
def test_quiet_is_quiet(capsys: pytest.CaptureFixture[str]) -> None:
    with Ticker(lambda: "loading", quiet=True):
        time.sleep(0.05)
    assert capsys.readouterr() == ("", "")


@pytest.mark.usefixtures("hasty")
def test_it_stops_when_what_it_watches_fails(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(KeyError), Ticker(lambda: "loading"):
        raise KeyError
    capsys.readouterr()
    time.sleep(0.05)
    assert capsys.readouterr() == ("", "")
