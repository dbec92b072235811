"""Pulls the miniature from a hub on this machine; nothing leaves 127.0.0.1."""

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

from miniature import MINI

pytest.importorskip("huggingface_hub", reason="huggingface-hub is not installed")

import huggingface_hub.utils

from shoal.pull import download
from shoal.pull.preflight import Plan, plan
from shoal.pull.receipts import Receipts
from shoal.pull.remote_file import RemoteFile
from shoal.pull.repository import Repository, open_repository
from shoal.pull.transfer import Outcome, Transfer


def _load_server() -> ModuleType:
    spec = spec_from_file_location("hub_server", Path(__file__).parent / "hub_server.py")
    assert spec is not None and spec.loader is not None
    module = sys.modules[spec.name] = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


server = _load_server()


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[object]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", str(tmp_path / "no-token"))
    monkeypatch.setattr(download, "FIRST_WAIT_SECONDS", 0.0)
    with server.serving(MINI) as hub:
        yield hub
        huggingface_hub.utils.close_session()


@pytest.fixture
def repository(hub) -> Repository:
    return open_repository(server.REPO, endpoint=hub.endpoint)


@dataclass
class Pull:
    """Runs pulls into `out`; `said` is what they told."""

    hub: object
    out: Path
    said: list[str] = field(default_factory=list)

    def plan(self, revision: str | None = None) -> Plan:
        repository = open_repository(server.REPO, revision, endpoint=self.hub.endpoint)
        return self.plan_of(repository, repository.files)

    def plan_of(self, repository: Repository, files: tuple[RemoteFile, ...]) -> Plan:
        return plan(self.out, repository, files, Receipts(self.out), lambda nbytes: None)

    def transfer(self, plan: Plan, num_connections: int = 4) -> Transfer:
        return Transfer(plan, Receipts(self.out), self.said.append, num_connections)

    def run(self, revision: str | None = None) -> Outcome:
        return self.transfer(self.plan(revision)).run()

    def names(self) -> set[str]:
        """The files under their own names."""
        found = (path.relative_to(self.out) for path in self.out.rglob("*") if path.is_file())
        return {str(path) for path in found if path.parts[0] != ".pull"}

    def parts(self) -> list[str]:
        return sorted(path.name for path in (self.out / ".pull").rglob("*.part"))


@pytest.fixture
def pull(hub, tmp_path: Path) -> Pull:
    return Pull(hub, tmp_path / "out")


@pytest.fixture
def read_all() -> Callable[[Repository, RemoteFile, int, int], bytes]:
    return lambda repository, file, start, end: b"".join(repository.read(file, start, end))
