"""What a monitoring system reads (`/metrics`): the server's own counts, and those of the engine."""

from fastapi import APIRouter
from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from starlette.requests import Request
from starlette.responses import Response

# A request may take milliseconds (`/health`) or an hour (a long prompt from a disk).
_SECONDS = (0.01, 0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600)


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


router = APIRouter(tags=["metrics"])


@router.get("/metrics", response_class=Response)
async def metrics(request: Request) -> Response:
    """Prometheus' text."""
    registry = request.app.state.served.metrics.registry
    return Response(generate_latest(registry), headers={"Content-Type": CONTENT_TYPE_LATEST})
