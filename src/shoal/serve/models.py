"""`/v1/models`: the one there is."""

from typing import Any

from fastapi import APIRouter
from starlette.requests import Request

from shoal.serve.errors import ApiError
from shoal.serve.openapi import errors
from shoal.serve.served import Served, served_of

router = APIRouter(tags=["openai"])


@router.get("/v1/models", openapi_extra={"responses": errors()})
async def models(request: Request) -> dict[str, Any]:
    """A list of one. Requests may name any other: this one answers."""
    return {"object": "list", "data": [_model(served_of(request))]}


@router.get("/v1/models/{name:path}", openapi_extra={"responses": errors()})
async def model(request: Request, name: str) -> dict[str, Any]:
    """That model, if it has this name."""
    served = served_of(request)
    if name != served.options.model_name:
        message = f"there is no model `{name}`, expected `{served.options.model_name}`"
        raise ApiError(404, message[:400], param="model", code="model_not_found")
    return _model(served)


def _model(served: Served) -> dict[str, Any]:
    found = {"id": served.options.model_name, "object": "model", "created": served.started, "owned_by": "shoal"}
    # How long a conversation may become, by the name that clients look for.
    return found | ({"max_model_len": served.model.engine.room.tokens} if served.is_open else {})
