"""Whether the server lives (`/health`), whether it answers (`/ready`), and in figures (`/metrics`)."""

from fastapi import APIRouter
from prometheus_client import generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response

from shoal.serve.served import Served, served_of

router = APIRouter(tags=["health"])


@router.get("/metrics", response_class=PlainTextResponse)
async def metrics(request: Request) -> Response:
    """Prometheus' text."""
    content = generate_latest(served_of(request).metrics.registry)
    return Response(content, headers={"Content-Type": CONTENT_TYPE_LATEST})


@router.get("/health")
async def health(request: Request) -> JSONResponse:
    """200 as long as nothing is broken, while the model is loaded too; else 503 and what is."""
    served = served_of(request)
    problem = _problem(served)
    if problem is not None:
        return JSONResponse({"status": "failed", "problem": problem}, 503)
    return JSONResponse({"status": "ok" if served.is_open else "loading", "model": served.options.model_name})


@router.get("/ready")
async def ready(request: Request) -> JSONResponse:
    """200 when a request would be taken; 503 while the model is loaded, when it shuts down, or is broken."""
    served = served_of(request)
    problem = _problem(served)
    if problem is not None:
        return JSONResponse({"status": "failed", "problem": problem}, 503)
    if not served.is_open:
        return JSONResponse({"status": "loading", "progress": served.loading}, 503, headers={"Retry-After": "5"})
    if served.is_draining:
        return JSONResponse({"status": "shutting down"}, 503)
    return JSONResponse({"status": "ok", "model": served.options.model_name})


def _problem(served: Served) -> str | None:
    if served.problem is not None:
        return served.problem.message
    problem = served.model.engine.problem if served.is_open else None
    return None if problem is None else problem.message
