"""`/v1/responses`: OpenAI's newer protocol, whose answers are lists of items."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Annotated, Any
from uuid import uuid4

from fastapi import APIRouter, Depends
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from shoal.engine.events import PromptEvent
from shoal.serve import foreign_fields
from shoal.serve.attention import attended
from shoal.serve.body import body_of
from shoal.serve.errors import ApiError, openai_shape
from shoal.serve.event_stream import EventStream, Frame, frame
from shoal.serve.openapi import described
from shoal.serve.response_logprobs import ResponseLogprobs
from shoal.serve.responses_body import ResponsesBody, ResponsesTurn, input_items, responses_turn
from shoal.serve.served import Served, served_of
from shoal.serve.stream import Answer, Step

router = APIRouter(tags=["openai"])
# Events from which on tokens are no thought.
_ANSWERS = ("response.output_text", "response.function_call", "response.custom_tool_call")


def stream_shape(error: ApiError) -> dict[str, Any]:
    """An error behind the headers: the protocol's event, and what clients of the other endpoints look for."""
    found: dict[str, Any] = openai_shape(error)["error"]
    event = {"code": found["code"], "message": found["message"], "param": found["param"]}
    return {"type": "error", "sequence_number": 0, **event, "error": found}


@router.post("/v1/responses", openapi_extra=described(ResponsesBody), response_class=JSONResponse)
async def responses(
    request: Request, body: Annotated[ResponsesBody, Depends(body_of(ResponsesBody, foreign_fields.RESPONSES))]
) -> Response:
    """The next items of a conversation."""
    served = served_of(request)
    items, response_id = input_items(served, body), f"resp_{uuid4().hex}"
    # A long prompt takes a while to render and to encode; others must not wait for it.
    made = await asyncio.to_thread(responses_turn, served, body, items, response_id)
    answer = Answer.ask(served, made.turn, made.generator, streams=bool(body.stream))
    request.state.usage = answer.usage
    logprobs = None if made.turn.sampling.logprobs is None else ResponseLogprobs(served.model.tokenizer)
    given = Given(served, body, made, answer, logprobs)
    if body.stream:
        return EventStream(given.frames(), served.options, shape=stream_shape)
    return JSONResponse(await attended(request, given.whole()))


@router.get("/v1/responses/{response_id}")
async def response(request: Request, response_id: str) -> dict[str, Any]:
    """One that was made before, while it is kept."""
    return served_of(request).responses.get(response_id).response


@router.delete("/v1/responses/{response_id}")
async def forget(request: Request, response_id: str) -> dict[str, Any]:
    """Keeps it no longer."""
    served_of(request).responses.forget(response_id)
    return {"id": response_id, "object": "response.deleted", "deleted": True}


@dataclass
class Given:
    """The answer to one request, as its items come."""

    served: Served
    body: ResponsesBody
    made: ResponsesTurn
    answer: Answer
    logprobs: ResponseLogprobs | None = None
    reasoning_tokens: int = 0
    _reasons: bool = True

    async def frames(self) -> AsyncGenerator[Frame, None]:
        """The events, in the protocol's order."""
        async with aclosing(self._events()) as events:
            async for each in events:
                yield each if isinstance(each, PromptEvent) else frame(each, each["type"])

    async def whole(self) -> dict[str, Any]:
        """All of it: what the last event of a stream holds."""
        last: dict[str, Any] = {}
        async with aclosing(self._events()) as events:
            async for each in events:
                if not isinstance(each, PromptEvent):
                    last = each.get("response", last)
        return last

    async def _events(self) -> AsyncGenerator[PromptEvent | dict[str, Any], None]:
        async with aclosing(self.answer.updates()) as updates:
            async for update in updates:
                if isinstance(update, PromptEvent):
                    yield update
                    continue
                for event in self._of(update):
                    if "response" in event:
                        self._tell(event["response"])
                    yield event

    def _of(self, step: Step) -> list[dict[str, Any]]:
        """The events of `step`, whose token is counted."""
        events: list[dict[str, Any]] = [json.loads(chunk.to_json()) for chunk in step.chunks]
        if any(event["type"].startswith(_ANSWERS) for event in events):
            self._reasons = False
        thinks = self._reasons and self.answer.turn.parsing.thinking_initial_stage is not None
        self.reasoning_tokens += thinks and step.token is not None and step.token.token_id is not None
        if self.logprobs is not None:
            if step.token is not None:
                self.logprobs.count(step.token)
            for event in events:
                self.logprobs.tell(event)
        return events

    def _tell(self, response: dict[str, Any]) -> None:
        """Adds what deepseek-recipe does not know, and keeps a response that has ended."""
        response["store"] = self.body.store is not False
        response["previous_response_id"] = self.body.previous_response_id
        response["metadata"] = self.body.metadata or {}
        response["parallel_tool_calls"] = self.body.parallel_tool_calls is not False
        if response.get("usage"):
            response["usage"]["output_tokens_details"]["reasoning_tokens"] = self.reasoning_tokens
        if response["store"] and response["status"] in ("completed", "incomplete"):
            self.served.responses.keep(response, [*self.made.items, *response["output"]])
