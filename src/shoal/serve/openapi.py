"""The description of the endpoints that clients may read (`/openapi.json`)."""

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel

_REFERENCES = "#/components/schemas/{model}"
SCHEMAS: dict[str, Any] = {}
"""Of the bodies that routes read themselves, for the document's components."""

ERRORS = (400, 401, 403, 408, 413, 429, 499, 500, 503)


def described(body: type[BaseModel]) -> dict[str, Any]:
    """A route's `openapi_extra`: what it takes, and the errors that it may answer with."""
    schema = body.model_json_schema(ref_template=_REFERENCES)
    SCHEMAS.update(schema.pop("$defs", {}))
    SCHEMAS[body.__name__] = schema
    content = {"application/json": {"schema": {"$ref": _REFERENCES.format(model=body.__name__)}}}
    return {"requestBody": {"required": True, "content": content}, "responses": errors()}


def errors() -> dict[str, Any]:
    """The answers that any route may give."""
    schema = {"type": "object", "required": ["error"], "properties": {"error": {"type": "object"}}}
    answer = {"description": "An error", "content": {"application/json": {"schema": schema}}}
    return {str(status): answer for status in ERRORS}


def document(app: FastAPI) -> dict[str, Any]:
    """OpenAPI's description of all routes, made once."""
    if app.openapi_schema is None:
        found = get_openapi(title=app.title, version=app.version, routes=app.routes)
        found.setdefault("components", {}).setdefault("schemas", {}).update(SCHEMAS)
        app.openapi_schema = found
    return app.openapi_schema
