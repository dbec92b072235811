"""An evaluation's figures for a person: a table of accuracy, then one of perplexity."""

from collections.abc import Iterable, Iterator, Sequence

from shoal.eval.perplexity import BUCKETS, Perplexity, bucket_name
from shoal.eval.result import Accuracy, EvalResult

ALL = "all"
NOTHING = "-"
# Beyond it, digits say nothing.
LARGE = 1e6


def table_lines(result: EvalResult) -> Iterator[str]:
    """The tables, without the one that nothing belongs in."""
    accuracies = list(_accuracy_rows(result))
    perplexities = list(_perplexity_rows(result))
    if accuracies:
        yield from _aligned([("suite", "group", "right", "total", "percent", "skipped", "of each check"), *accuracies])
    if accuracies and perplexities:
        yield ""
    if perplexities:
        yield from _aligned([("suite", "group", "positions", "tokens", "perplexity"), *perplexities])
    if not accuracies and not perplexities:
        yield "no item was done"


def _accuracy_rows(result: EvalResult) -> Iterator[tuple[str, ...]]:
    for suite in result.suites:
        by_group = [(group, result.accuracy(suite, group)) for group in result.groups(suite)]
        by_group = [(group, accuracy) for group, accuracy in by_group if accuracy.total or accuracy.skipped]
        whole = [(ALL, result.accuracy(suite))] if len(by_group) > 1 else []
        for group, accuracy in (*by_group, *whole):
            yield (suite, group, *_cells(accuracy))


def _cells(accuracy: Accuracy) -> tuple[str, ...]:
    several = accuracy.checks if len(accuracy.checks) > 1 else {}
    checks = ", ".join(f"{name} {_percent(share.percent)}" for name, share in several.items())
    right, total, skipped = f"{accuracy.right:,}", f"{accuracy.total:,}", f"{accuracy.skipped:,}"
    return right, total, _percent(accuracy.percent), skipped if accuracy.skipped else NOTHING, checks


def _perplexity_rows(result: EvalResult) -> Iterator[tuple[str, ...]]:
    for suite in result.suites:
        by_group = [(group, ALL, result.perplexity(suite, group)) for group in result.groups(suite)]
        by_group = [row for row in by_group if row[2].tokens]
        by_position = [(ALL, bucket_name(bucket), result.perplexity(suite, None, bucket)) for bucket in BUCKETS]
        whole = ALL, ALL, result.perplexity(suite)
        for group, positions, perplexity in (*(by_group if len(by_group) > 1 else ()), *by_position, whole):
            if perplexity.tokens:
                yield suite, group, positions, f"{perplexity.tokens:,}", _value(perplexity)


def _value(perplexity: Perplexity) -> str:
    if perplexity.value is None:
        return "over 1e308"
    return f"{perplexity.value:.3f}" if perplexity.value < LARGE else f"{perplexity.value:.3e}"


def _percent(percent: float | None) -> str:
    return NOTHING if percent is None else f"{percent:.1f}"


def _aligned(rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Names to the left, figures to the right; the seventh column is words again."""
    lines = list(rows)
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        cells = [
            cell.ljust(width) if index in (0, 1, 6) else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        yield "  ".join(cells).rstrip()
