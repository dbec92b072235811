"""`/v1/messages` and `/v1/messages/count_tokens`: Anthropic's protocol."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Annotated, Any
from uuid import uuid4

import deepseek_recipe as recipe
from fastapi import APIRouter, Depends
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from shoal.engine.events import PromptEvent
from shoal.serve import foreign_fields
from shoal.serve.attention import attended
from shoal.serve.body import body_of
from shoal.serve.errors import SHAPES, ApiError
from shoal.serve.event_stream import EventStream, Frame, comment, frame
from shoal.serve.messages_body import CountBody, MessagesBody, messages_turn
from shoal.serve.openapi import described
from shoal.serve.served import served_of
from shoal.serve.stream import Answer

router = APIRouter(tags=["anthropic"])
_KINDS = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
}


def anthropic_shape(error: ApiError) -> dict[str, Any]:
    """The body of an error as Anthropic's clients read it; the hint is a sentence more of its message."""
    message = error.message if error.hint is None else f"{error.message}\n\nhint: {error.hint}"
    kind = _KINDS.get(error.status, "invalid_request_error" if error.status < 500 else "api_error")
    return {"type": "error", "error": {"type": kind, "message": message}}


SHAPES["/v1/messages"] = anthropic_shape


def ping(progress: PromptEvent | None) -> str:
    """Anthropic's sign of life, with how far the prompt is in a line that clients skip."""
    return comment(progress).rstrip("\n") + "\n" + frame({"type": "ping"}, "ping")


@router.post("/v1/messages", openapi_extra=described(MessagesBody), response_class=JSONResponse)
async def messages(
    request: Request, body: Annotated[MessagesBody, Depends(body_of(MessagesBody, foreign_fields.MESSAGES))]
) -> Response:
    """The next message of a conversation."""
    served = served_of(request)
    # A long prompt takes a while to render and to encode; others must not wait for it.
    turn = await asyncio.to_thread(messages_turn, served, body)
    message_id, model = f"msg_{uuid4().hex}", served.options.model_name
    generator = recipe.MessagesChunkGenerator(message_id, model, turn.parsing.thinking_initial_stage is not None)
    answer = Answer.ask(served, turn, generator, streams=bool(body.stream))
    request.state.usage = answer.usage
    if body.stream:
        return EventStream(_frames(answer), served.options, shape=anthropic_shape, keep_alive=ping)
    whole = await attended(request, _whole(answer, message_id, model))
    return JSONResponse(whole)


@router.post("/v1/messages/count_tokens", openapi_extra=described(CountBody))
async def count_tokens(
    request: Request, body: Annotated[CountBody, Depends(body_of(CountBody, foreign_fields.MESSAGES))]
) -> dict[str, int]:
    """How many tokens the prompt would have."""
    turn = await asyncio.to_thread(messages_turn, served_of(request), body)
    return {"input_tokens": len(turn.prompt.ids)}


async def _frames(answer: Answer) -> AsyncGenerator[Frame, None]:
    async with aclosing(answer.updates()) as updates:
        async for update in updates:
            if isinstance(update, PromptEvent):
                yield update
                continue
            for event in update.chunks:
                assert isinstance(event, recipe.MessagesStreamEvent)
                yield frame(event.to_json(), recipe.MessagesResponse.sse_event_name(event))


async def _whole(answer: Answer, message_id: str, model: str) -> dict[str, Any]:
    response: recipe.MessagesResponse | None = None
    async with aclosing(answer.updates()) as updates:
        async for update in updates:
            if isinstance(update, PromptEvent):
                continue
            usage = answer.usage
            response = response or recipe.MessagesResponse(message_id, model, 0, usage.prompt, usage.cached)
            for event in update.chunks:
                assert isinstance(event, recipe.MessagesStreamEvent)
                response.accumulate(event)
    assert response is not None
    found: dict[str, Any] = json.loads(response.to_json())
    return found
