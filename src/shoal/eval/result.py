"""What an evaluation found: accuracy and perplexity of any share of its items."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from shoal.eval.outcome import Answered, Outcome, Scored, Skipped
from shoal.eval.perplexity import BUCKETS, Perplexity, bucket_name


@dataclass(frozen=True)
class Share:
    """So many of so many."""

    right: int
    total: int

    @property
    def percent(self) -> float | None:
        """None of nothing."""
        return 100.0 * self.right / self.total if self.total else None


@dataclass(frozen=True)
class Accuracy(Share):
    """Questions answered with all checks holding, of those asked; `checks` has each check's own share.

    `skipped` questions could not be asked and are in neither number.
    """

    skipped: int
    checks: Mapping[str, Share]

    def as_dict(self) -> dict[str, object]:
        """All of it in JSON's types."""
        checks = {name: {"right": share.right, "total": share.total} for name, share in self.checks.items()}
        return {"right": self.right, "total": self.total, "skipped": self.skipped, "checks": checks}


@dataclass(frozen=True)
class EvalResult:
    """All outcomes, in order; `is_complete` is false where it was interrupted."""

    outcomes: tuple[Outcome, ...]
    is_complete: bool = True

    @property
    def suites(self) -> tuple[str, ...]:
        """The suites' names, in order."""
        return tuple(dict.fromkeys(outcome.suite for outcome in self.outcomes))

    def groups(self, suite: str) -> tuple[str, ...]:
        """The groups of a suite, sorted."""
        return tuple(sorted({outcome.group for outcome in self.of(suite)}))

    def of(self, suite: str | None = None, group: str | None = None) -> Iterator[Outcome]:
        """The outcomes of a suite and group; None is all."""
        for outcome in self.outcomes:
            if suite in (None, outcome.suite) and group in (None, outcome.group):
                yield outcome

    def accuracy(self, suite: str | None = None, group: str | None = None) -> Accuracy:
        """Of the questions of a suite and group; None is all."""
        chosen = list(self.of(suite, group))
        answered = [outcome for outcome in chosen if isinstance(outcome, Answered)]
        names = dict.fromkeys(name for outcome in answered for name in outcome.checks)
        checks = {name: _share([one.checks[name] for one in answered if name in one.checks]) for name in names}
        all_held = _share([outcome.is_right for outcome in answered])
        return Accuracy(all_held.right, all_held.total, sum(isinstance(one, Skipped) for one in chosen), checks)

    def perplexity(
        self, suite: str | None = None, group: str | None = None, bucket: tuple[int, int | None] = (0, None)
    ) -> Perplexity:
        """Over the tokens of a suite's and group's passages that stand at the positions of `bucket`."""
        start, end = bucket
        scored = [outcome.nats[start:end] for outcome in self.of(suite, group) if isinstance(outcome, Scored)]
        return Perplexity(sum(map(sum, scored)), sum(map(len, scored)))

    def as_dict(self) -> dict[str, object]:
        """All of it in JSON's types: figures by suite and group, then every item."""
        return {
            "complete": self.is_complete,
            "suites": {suite: self._suite(suite) for suite in self.suites},
            "items": [outcome.as_dict() for outcome in self.outcomes],
        }

    def _suite(self, suite: str) -> dict[str, object]:
        found = self._figures(suite, None)
        found["groups"] = {group: self._figures(suite, group) for group in self.groups(suite)}
        return found

    def _figures(self, suite: str, group: str | None) -> dict[str, object]:
        figures: dict[str, object] = {"accuracy": self.accuracy(suite, group).as_dict()}
        if self.perplexity(suite, group).tokens:
            by_bucket = {bucket_name(bucket): self.perplexity(suite, group, bucket) for bucket in BUCKETS}
            figures["perplexity"] = {
                **_figure(self.perplexity(suite, group)),
                "buckets": {name: _figure(perplexity) for name, perplexity in by_bucket.items()},
            }
        return figures


def _share(held: list[bool]) -> Share:
    return Share(sum(held), len(held))


def _figure(perplexity: Perplexity) -> dict[str, object]:
    return {"value": perplexity.value, "nats": perplexity.nats, "tokens": perplexity.tokens}
