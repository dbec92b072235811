"""Which directories the audit looks in."""

from pathlib import Path

import pytest

from shoal.checkpoint.audit import AuditOptions, audit
from shoal.errors import CheckpointError, OptionError


def test_shards_in_another_directory_have_arrived_too(halves: tuple[Path, Path]) -> None:
    first, other = halves
    assert len(audit(first, AuditOptions()).disk.absent) == 9
    report = audit(first, AuditOptions(also=(other,)))
    assert report.disk.absent == () and report.holds(require_complete=True)
    assert {header.path.parent for header in report.disk.headers.values()} == {first, other}


def test_a_directory_that_is_not_there_is_named(halves: tuple[Path, Path]) -> None:
    first, other = halves
    with pytest.raises(CheckpointError, match=r"`.*/absent` does not exist"):
        audit(first, AuditOptions(also=(other, other / "absent")))


def test_prefixes_are_in_one_directory(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="expected no `also` with it"):
        AuditOptions(also=(tmp_path,), header_prefix=True)
