"""A bar on stderr: how many of many prompts are answered, and how fast tokens come."""

import sys
import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn


class PromptBar:
    """While it is entered, shows `total` prompts, where `shown` and stderr is a terminal."""

    def __init__(self, total: int, *, shown: bool) -> None:
        columns = (
            TextColumn("prompts"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]}"),
            TimeRemainingColumn(),
        )
        is_shown = shown and sys.stderr.isatty()
        self._progress = Progress(*columns, console=Console(stderr=True), disable=not is_shown)
        self._task = self._progress.add_task("", total=total, rate="")
        self._started, self._tokens = time.monotonic(), 0

    def add_tokens(self, count: int) -> None:
        """So many more were generated."""
        self._tokens += count
        rate = self._tokens / max(time.monotonic() - self._started, 1e-6)
        self._progress.update(self._task, rate=f"{self._tokens:,} tokens, {rate:.1f} a second")

    def end_prompt(self) -> None:
        """One more prompt has its answer, or its error."""
        self._progress.advance(self._task)

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()
