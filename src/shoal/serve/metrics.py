"""What a monitoring system reads (`/metrics`): the server's own counts, and those of the engine."""

from collections.abc import Callable, Iterator
from dataclasses import fields
from math import inf

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from shoal.engine.metrics import EngineMetrics
from shoal.engine.metrics import Histogram as EngineHistogram

# A request may take milliseconds (`/health`) or an hour (a long prompt from a disk).
_SECONDS = (0.01, 0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600)

_GAUGES = {
    "waiting": "Requests in the queue",
    "running": "Requests that run",
    "kv_used_nbytes": "Bytes of the KV cache that sequences hold",
    "kv_total_nbytes": "Bytes that the KV cache may have",
}
_COUNTERS = {
    "submitted": "Requests taken",
    "refused": "Requests refused because the queue was full",
    "prompt_tokens": "Tokens of the prompts that were admitted",
    "cached_tokens": "Of them, found in the prefix cache",
    "computed_tokens": "Tokens that went through forwards",
    "generated_tokens": "Tokens given",
    "steps": "Forwards",
    "abandoned_steps": "Forwards that were interrupted",
    "preemptions": "Sequences let go and computed again",
}
_HISTOGRAMS = {
    "first_token_seconds": "From a request's coming to its first token",
    "token_seconds": "From a token to the next",
    "queue_seconds": "From a request's coming to its running",
    "step_seconds": "Wall seconds of a forward",
    "step_sequences": "Sequences in a forward",
    "step_tokens": "Tokens in a forward",
}


class Metrics:
    """Of one server, in a registry of its own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._requests = Counter(
            "shoal_http_requests", "Requests answered, by route and status", ["route", "status"], registry=self.registry
        )
        self._seconds = Histogram(
            "shoal_http_request_seconds",
            "Wall seconds of a request, to its last byte",
            ["route"],
            buckets=_SECONDS,
            registry=self.registry,
        )

    def observe(self, route: str, status: int, seconds: float) -> None:
        """One request has ended; status 0: the client left before the answer began."""
        self._requests.labels(route, str(status or "left")).inc()
        self._seconds.labels(route).observe(seconds)

    def watch(self, engine: Callable[[], EngineMetrics], counts: Callable[[], dict[str, float]] | None = None) -> None:
        """Tell the engine's too, and `counts` by name, as they are whenever somebody asks."""
        self.registry.register(_EngineCollector(engine, counts or dict))


class _EngineCollector(Collector):
    def __init__(self, engine: Callable[[], EngineMetrics], counts: Callable[[], dict[str, float]]) -> None:
        self._engine, self._counts = engine, counts

    def collect(self) -> Iterator[Metric]:
        found = self._engine()
        for name, help_text in _GAUGES.items():
            if (value := getattr(found, name)) is not None:
                yield GaugeMetricFamily(f"shoal_{_named(name)}", help_text, value)
        for name, help_text in _COUNTERS.items():
            yield CounterMetricFamily(f"shoal_{name}", help_text, getattr(found, name))
        ended = CounterMetricFamily("shoal_ended", "Requests that ended, by reason", labels=["reason"])
        for reason, count in sorted(found.ended.items()):
            ended.add_metric([reason], count)
        yield ended
        for name, help_text in _HISTOGRAMS.items():
            yield _histogram(f"shoal_{name}", help_text, getattr(found, name))
        for name, value in self._counts().items():
            yield GaugeMetricFamily(f"shoal_{_named(name)}", name.replace("_", " "), value)


def _named(name: str) -> str:
    """Prometheus' way to say a unit."""
    return name.replace("_nbytes", "_bytes")


def _histogram(name: str, help_text: str, found: EngineHistogram) -> Metric:
    buckets: list[tuple[str, float]] = []
    so_far = 0
    for bound, count in zip((*found.bounds, inf), found.counts, strict=True):
        so_far += count
        buckets.append(("+Inf" if bound == inf else str(bound), so_far))
    return HistogramMetricFamily(name, help_text, buckets=buckets, sum_value=found.total)


def untold() -> set[str]:
    """Fields of the engine's metrics that nobody would see here."""
    return {each.name for each in fields(EngineMetrics)} - {*_GAUGES, *_COUNTERS, *_HISTOGRAMS, "ended"}
