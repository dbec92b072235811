"""The application: routes, and what stands before them."""

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse

from shoal.errors import ShoalError
from shoal.serve import chat, completions, health, messages, models, page, responses, tokens
from shoal.serve.errors import ApiError, as_api_error, shape_of
from shoal.serve.guard import Guard
from shoal.serve.openapi import document
from shoal.serve.request_log import RequestLog, Say
from shoal.serve.served import Served

ROUTERS = [
    health.router,
    models.router,
    chat.router,
    completions.router,
    messages.router,
    responses.router,
    tokens.router,
    page.router,
]
PAGES: list[str] = ["/openapi.json", *page.OPEN]
"""Paths, or folders that end in `/`, that are read without a key."""


def create_app(served: Served, say: Say | None = None) -> FastAPI:
    """The server of `served`, which may still be loading; `say` gets a line on each request."""
    app = FastAPI(title="Shoal", version="1", docs_url=None, redoc_url=None)
    app.state.served = served
    for router in ROUTERS:
        app.include_router(router)
    app.add_exception_handler(ApiError, _answer)
    app.add_exception_handler(ShoalError, _answer)
    app.add_exception_handler(HTTPException, _answer)
    app.add_exception_handler(RequestValidationError, _answer)
    app.add_exception_handler(Exception, _answer)
    app.openapi = lambda: document(app)  # type: ignore[method-assign]
    options = served.options
    # The last is the first to see a request: a refused page must be able to read why.
    app.add_middleware(Guard, options=options, pages=tuple(PAGES))
    if options.origins:
        app.add_middleware(CORSMiddleware, allow_origins=options.origins, allow_methods=["*"], allow_headers=["*"])
    app.add_middleware(RequestLog, say=say, observe=served.metrics.observe)
    return app


async def _answer(request: Request, problem: Exception) -> JSONResponse:
    error = _as_api_error(problem)
    return JSONResponse(shape_of(request.url.path)(error), error.status, headers=dict(error.headers))


def _as_api_error(problem: Exception) -> ApiError:
    match problem:
        case ApiError():
            return problem
        case ShoalError():
            return as_api_error(problem)
        case RequestValidationError():
            return ApiError(400, str(problem.errors()[0]["msg"]), code="invalid_value")
        case HTTPException(status_code=404):
            return ApiError(404, "there is nothing here", code="not_found", hint="`/openapi.json` lists what there is.")
        case HTTPException():
            return ApiError(problem.status_code, str(problem.detail), headers=problem.headers or {})
    return ApiError(500, f"the server met an error of its own: {type(problem).__name__}", code="internal_error")
