"""Fake machines: folders that stand in for /proc and /sys."""

from pathlib import Path

import pytest


class FakeMachine:
    """Its `proc` and `sys` folders, empty until a file is put there."""

    def __init__(self, root: Path) -> None:
        self.proc, self.sys = root / "proc", root / "sys"
        self.cgroup = self.sys / "fs" / "cgroup"
        self.root = root
        for folder in (self.proc, self.cgroup):
            folder.mkdir(parents=True)

    def put(self, path: str, content: str) -> Path:
        """A file of this content, its folders made."""
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)
        return file

    def put_cgroup(self, path: str, content: str) -> Path:
        """A file of a control group."""
        return self.put(f"sys/fs/cgroup/{path}", content)


@pytest.fixture
def machine(tmp_path: Path) -> FakeMachine:
    return FakeMachine(tmp_path)
