"""`shoal pull`: the model's files from a hub into a directory, planned first, resumed, and checked as they land."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shoal.checkpoint.audit import AuditOptions, audit
from shoal.checkpoint.audit_outcome import Verdict
from shoal.checkpoint.index import INDEX_NAME, ShardIndex, parse_index
from shoal.cli.ticker import Ticker
from shoal.pull.preflight import Plan, absent_packages, check_hub_package, in_gib, plan
from shoal.pull.receipts import Receipts
from shoal.pull.remote_file import RemoteFile
from shoal.pull.selection import Part, select

if TYPE_CHECKING:
    from shoal.pull.repository import Repository
    from shoal.pull.transfer import Outcome, Transfer

DEFAULT_REPOSITORY = "deepseek-ai/DeepSeek-V4.1-Flash"
INTERRUPTED = 130
_SHOWN_NAMES = 10


def command(
    places: Annotated[
        list[str],
        typer.Argument(metavar="[REPO] OUT", help=f"The repository ({DEFAULT_REPOSITORY}), and where to put it."),
    ],
    revision: Annotated[str | None, typer.Option(help="A branch, tag or commit; the main branch if absent.")] = None,
    only: Annotated[
        list[Part] | None,
        typer.Option(help="Only the shards of this part, and the small files. text includes engram. Repeatable."),
    ] = None,
    connections: Annotated[int, typer.Option(min=1, max=32, help="Files to fetch at once.")] = 4,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the plan and fetch nothing.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Say nothing on stderr but errors.")] = False,
) -> None:
    """Download the model, or what is missing of it. Can be interrupted and run again at any time."""
    name, out = _positionals(places)
    check_hub_package()
    from shoal.pull.repository import open_repository
    from shoal.pull.transfer import Transfer

    tell = _tell_nothing if quiet else _tell
    try:
        repository = open_repository(name, revision)
        receipts = Receipts(out)
        made = _plan(out, repository, _selected(repository, only or []), receipts, quiet)
        if dry_run:
            print("\n".join(made.lines()))
            made.check_space()
            return
        tell("\n".join((*made.lines(), *_warnings())))
        made.check_space()
        transfer = Transfer(made, receipts, tell, connections)
        with _progress_shown(transfer, quiet):
            outcome = transfer.run()
    except KeyboardInterrupt:
        _tell("interrupted; what has arrived is kept, run the command again to go on")
        raise typer.Exit(INTERRUPTED) from None
    _finish(made, outcome, tell)


def _positionals(places: list[str]) -> tuple[str, Path]:
    if len(places) > 2:
        raise typer.BadParameter(f"expected `[REPO] OUT`, found {len(places)} arguments")
    return (places[0] if len(places) == 2 else DEFAULT_REPOSITORY), Path(places[-1])


def _selected(repository: "Repository", parts: list[Part]) -> tuple[RemoteFile, ...]:
    return select(repository.files, _fetch_index(repository) if parts else None, parts)


def _fetch_index(repository: "Repository") -> ShardIndex | None:
    """Into memory: what to put on the disk is not decided yet."""
    file = repository.find(INDEX_NAME)
    if file is None:
        return None
    return parse_index(repository.read_whole(file), Path(INDEX_NAME))


def _plan(
    out: Path, repository: "Repository", selected: tuple[RemoteFile, ...], receipts: Receipts, quiet: bool
) -> Plan:
    num_read = 0

    def count(nbytes: int) -> None:
        nonlocal num_read
        num_read += nbytes

    with Ticker(lambda: f"checking what is here: {in_gib(num_read)} read", quiet=quiet):
        return plan(out, repository, selected, receipts, count)


def _warnings() -> list[str]:
    absent = ", ".join(f"`{name}`" for name in absent_packages())
    return [f"warning: running the model here will need {absent}, not installed yet"] if absent else []


@contextmanager
def _progress_shown(transfer: "Transfer", quiet: bool) -> Iterator[None]:
    started, before = time.monotonic(), transfer.progress.here

    def describe() -> str:
        here, total = transfer.progress.here, transfer.progress.total
        rate = (here - before) / max(time.monotonic() - started, 1e-9)
        left = f", {(total - here) / rate / 60:,.0f} min left" if rate > 0 else ""
        return f"{in_gib(here)} of {in_gib(total)}, {rate / 1e6:,.1f} MB/s{left}"

    with Ticker(describe, quiet=quiet):
        yield


def _finish(made: Plan, outcome: "Outcome", tell: Callable[[str], None]) -> None:
    for failure in outcome.failures:
        _tell(f"error: {failure.message}" + (f"\n\nhint: {failure.hint}" if failure.hint else ""))
    if outcome.missing:
        names = [file.path for file in outcome.missing]
        more = f" and {len(names) - _SHOWN_NAMES} more" if len(names) > _SHOWN_NAMES else ""
        nbytes = in_gib(sum(file.nbytes for file in outcome.missing))
        _tell(f"missing: {len(names)} of {len(made.selected)} files, {nbytes}: {', '.join(names[:_SHOWN_NAMES])}{more}")
        _tell("run the command again to fetch them")
        raise typer.Exit(1)
    _audit(made.out, tell)
    files = f"{len(made.selected)} files, {in_gib(made.nbytes)}"
    print(f"{made.out}: {made.repository.name} at {made.repository.commit[:12]}, {files}")


def _audit(out: Path, tell: Callable[[str], None]) -> None:
    report = audit(out, AuditOptions())
    for finding in report.findings:
        if finding.outcome.verdict is Verdict.FAILED:
            _tell(f"failed: {finding.check_id}: {finding.claim}")
            _tell("\n".join(f"  {sentence}" for sentence in finding.outcome.evidence))
    tell(f"audit: {report.summary()}")
    if report.count(Verdict.FAILED):
        raise typer.Exit(1)


def _tell(text: str) -> None:
    # One write a line: several threads tell.
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def _tell_nothing(text: str) -> None:
    pass
