"""The audit's report as a file."""

from pathlib import Path

import pytest

from miniature import MINI
from shoal.checkpoint.audit import AuditOptions, audit
from shoal.errors import OptionError


def test_a_report_that_cannot_be_written_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path, target: Path) -> None:
        raise OSError(28, "No space left on device")

    report = audit(MINI, AuditOptions())
    monkeypatch.setattr(Path, "replace", refuse)
    with pytest.raises(OptionError, match="No space left on device"):
        report.write_json(tmp_path / "report.json")
    assert list(tmp_path.iterdir()) == []
