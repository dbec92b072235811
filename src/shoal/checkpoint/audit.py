"""Do a configuration and the shards that have arrived agree? 38 checks, 39 with an index (spec §2).

Presence is decided by the index, or by the headers where there is none; dtypes, shapes and extents by the
headers that are here. A check whose evidence has not arrived is undecided, which is never a pass, and a
failure is never deferred. `python -m shoal.checkpoint.audit` needs nothing but the standard library.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from shoal.checkpoint.audit_check import Check, DiskCheck
from shoal.checkpoint.audit_config import (
    CONFIG_CHECKS,
    ENGRAM_ROWS,
    REQUIRED_KEYS,
    StatedConfig,
    read_stated,
    required_keys,
)
from shoal.checkpoint.audit_disk import Disk, read_disk
from shoal.checkpoint.audit_expected import Expected
from shoal.checkpoint.audit_extents import EXTENTS, INDEX, NON_ZERO, PAIRS, TILING
from shoal.checkpoint.audit_outcome import Outcome, Verdict
from shoal.checkpoint.audit_presence import (
    BACKBONE_EXPERTS,
    CSA2_CHECKS,
    DRAFT_EXPERTS,
    DRAFT_LAYERS,
    ENGRAM_TABLES,
    FULL_SET,
    UNQUANTISED,
    VISION_BLOCKS,
)
from shoal.checkpoint.audit_report import AuditReport, Finding
from shoal.checkpoint.audit_shapes import (
    DRAFT_HEADS,
    DRAFT_REST,
    EXPERT_PACKING,
    FP8_BLOCKS,
    KNOWN_SHAPES,
    PROJECTIONS,
    ROW_BLOCKS,
    TABLE_SCALES,
    VISION_SHAPES,
)
from shoal.checkpoint.inventory import TILE
from shoal.checkpoint.json_object import quoted
from shoal.errors import OptionError, ShoalError

CHECKS: tuple[Check, ...] = (
    *CONFIG_CHECKS,
    *(ENGRAM_TABLES, PROJECTIONS, ENGRAM_ROWS, TABLE_SCALES, ROW_BLOCKS),
    *CSA2_CHECKS,
    *(FULL_SET, KNOWN_SHAPES, UNQUANTISED, NON_ZERO),
    *(EXTENTS, TILING, PAIRS, FP8_BLOCKS),
    *(EXPERT_PACKING, BACKBONE_EXPERTS, DRAFT_EXPERTS),
    *(DRAFT_HEADS, DRAFT_REST, DRAFT_LAYERS),
    *(VISION_BLOCKS, VISION_SHAPES),
)
"""After the required keys; `INDEX` follows where there is an index."""


@dataclass(frozen=True, kw_only=True)
class AuditOptions:
    """`config` is the directory's own and `index` too unless given. `also` are more directories with shards.

    `header_prefix`: the directory holds the first megabytes of the shards under any names, and there is no `also`.
    `fp8_block` is the rows and columns that share a scale. Raises OptionError for both together.
    """

    config: Path | None = None
    also: tuple[Path, ...] = ()
    index: Path | None = None
    header_prefix: bool = False
    fp8_block: tuple[int, int] = (TILE, TILE)

    def __post_init__(self) -> None:
        if self.also and self.header_prefix:
            raise OptionError("`header_prefix` looks at one directory, expected no `also` with it")


def audit(directory: Path, options: AuditOptions) -> AuditReport:
    """Every check of `directory`. Raises ShoalError when there is nothing that could be checked."""
    stated = read_stated(options.config or directory)
    disk = read_disk(directory, also=options.also, index_file=options.index, are_prefixes=options.header_prefix)
    expected = Expected(stated.config, options.fp8_block) if stated.config else None
    findings = [Finding(*REQUIRED_KEYS, required_keys(stated))]
    for check in (*CHECKS, INDEX) if disk.index else CHECKS:
        findings.append(Finding(check.check_id, check.claim, _decide(check, disk, expected, stated)))
    names = disk.shard_of.keys() | (expected.names if expected else ())
    return AuditReport(tuple(findings), disk, len(names))


def _decide(check: Check, disk: Disk, expected: Expected | None, stated: StatedConfig) -> Outcome:
    if isinstance(check, DiskCheck):
        return check.decide(disk) if disk.headers else Outcome(Verdict.UNDECIDED, waits_for=disk.absent)
    if expected is None:
        return Outcome(Verdict.UNDECIDED, (f"waits for the keys that {quoted(stated.path)} lacks",))
    return check.decide(disk, expected)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command without anything installed; the exit code."""
    options = _parser().parse_args(arguments)
    try:
        report = audit(
            options.directory,
            AuditOptions(
                config=options.config,
                also=tuple(options.also),
                index=options.index,
                header_prefix=options.header_prefix,
                fp8_block=tuple(options.expect_fp8_block),
            ),
        )
        if options.json:
            report.write_json(options.json)
    except ShoalError as error:
        hint = f"\n\nhint: {error.hint}" if error.hint else ""
        sys.stderr.write(f"error: {error.message}{hint}\n")
        return 1
    lines = [] if options.list_tensors is None else report.tensor_lines(options.list_tensors)
    sys.stdout.writelines(f"{line}\n" for line in (*lines, *report.lines()))
    return 0 if report.holds(require_complete=options.require_complete) else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m shoal.checkpoint.audit", description=audit.__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--config", type=Path)
    parser.add_argument("--also", metavar="DIR", type=Path, action="append", default=[])
    parser.add_argument("--header-prefix", action="store_true")
    parser.add_argument("--index", type=Path)
    parser.add_argument("--require-complete", action="store_true")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--list-tensors", metavar="PATTERN")
    parser.add_argument("--expect-fp8-block", type=_width, nargs=2, metavar=("R", "C"), default=(TILE, TILE))
    return parser


def _width(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is no number above 0")
    return int(text)


if __name__ == "__main__":
    sys.exit(main())
