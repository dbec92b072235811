"""`/v1/chat/completions`: one or several answers, streamed or whole."""

import asyncio
import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Annotated, Any
from uuid import uuid4

import deepseek_recipe as recipe
from fastapi import APIRouter, Depends
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from shoal.engine.events import PromptEvent
from shoal.serve import foreign_fields
from shoal.serve.attention import attended, merged
from shoal.serve.body import body_of
from shoal.serve.chat_body import ChatBody, chat_turn
from shoal.serve.errors import ApiError
from shoal.serve.event_stream import EventStream, Frame, frame
from shoal.serve.openapi import described
from shoal.serve.sampling import nth_seed
from shoal.serve.served import Served, served_of
from shoal.serve.stream import Answer, Step, Turn, Update
from shoal.serve.token_logprobs import chat_entry

router = APIRouter(tags=["openai"])
SEED_HEADER = "X-Shoal-Seed"


@router.post("/v1/chat/completions", openapi_extra=described(ChatBody), response_class=JSONResponse)
async def chat_completions(
    request: Request, body: Annotated[ChatBody, Depends(body_of(ChatBody, foreign_fields.CHAT))]
) -> Response:
    """The next message of a conversation."""
    served = served_of(request)
    # A long prompt takes a while to render and to encode; others must not wait for it.
    turn = await asyncio.to_thread(chat_turn, served, body)
    chat = Chat.ask(served, turn, body)
    request.state.usage = chat.choices[0].answer.usage
    headers = {SEED_HEADER: str(turn.sampling.seed)}
    if body.stream:
        return EventStream(chat.frames(), served.options, headers=headers)
    return JSONResponse(await attended(request, chat.whole()), headers=headers)


class Choice:
    """One of the answers, and the tokens whose probabilities are still to be told."""

    def __init__(self, index: int, answer: Answer) -> None:
        self.index, self.answer = index, answer
        self.reasoning_tokens = 0
        self._reasons = answer.turn.parsing.thinking_initial_stage is not None
        self._entries: list[dict[str, Any]] = []

    def chunks(self, step: Step) -> list[dict[str, Any]]:
        """The chunks of `step`, as OpenAI's clients read them but for `id` and the like."""
        if step.token is not None:
            self._count(step)
        found = [self._chunk(json.loads(chunk.to_json())["choices"][0]) for chunk in step.chunks]
        return [chunk for chunk in found if chunk["finish_reason"] is not None or chunk["delta"] != {"content": ""}]

    def _count(self, step: Step) -> None:
        assert step.token is not None
        self.reasoning_tokens += self._reasons and step.token.token_id is not None
        entry = chat_entry(self.answer.served.model.tokenizer, step.token)
        if entry is not None:
            self._entries.append(entry)

    def _chunk(self, choice: dict[str, Any]) -> dict[str, Any]:
        delta = {name: value for name, value in choice["delta"].items() if value is not None}
        if choice["finish_reason"] is not None:
            delta = {}
        logprobs = None
        if delta.get("content") or delta.get("tool_calls"):
            self._reasons = False
        if self._entries and (delta.get("content") or delta.get("reasoning_content")):
            part = "content" if delta.get("content") else "reasoning_content"
            logprobs, self._entries = {part: self._entries}, []
        elif delta.get("tool_calls"):
            self._entries = []
        return {"index": self.index, "delta": delta, "logprobs": logprobs, "finish_reason": choice["finish_reason"]}


@dataclass(frozen=True)
class Chat:
    """The answers to one request."""

    served: Served
    choices: Sequence[Choice]
    tells_usage: bool
    id: str
    created: int

    @classmethod
    def ask(cls, served: Served, turn: Turn, body: ChatBody) -> "Chat":
        """Queues as many requests as answers are wanted; all of them, or `ApiError`."""
        choices: list[Choice] = []
        try:
            for index in range(body.n or 1):
                sampling = replace(turn.sampling, seed=nth_seed(turn.sampling, index))
                answer = Answer.ask(served, turn, generator(), streams=bool(body.stream), sampling=sampling)
                choices.append(Choice(index, answer))
        except ApiError:
            for choice in choices:
                served.release(choice.answer.ticket)
            raise
        tells_usage = body.stream_options is not None and bool(body.stream_options.include_usage)
        return cls(served, choices, tells_usage, f"chatcmpl-{uuid4().hex}", served.now())

    async def frames(self) -> AsyncGenerator[Frame, None]:
        """The chunks as events, the counts of tokens in the last of them where they are asked for."""
        async with aclosing(self._updates()) as updates:
            async for index, update in updates:
                if isinstance(update, PromptEvent):
                    yield update
                    continue
                for choice in self.choices[index].chunks(update):
                    extra = {"usage": None} if self.tells_usage else {}
                    yield frame(self._object("chat.completion.chunk", [choice]) | extra)
        if self.tells_usage:
            yield frame(self._object("chat.completion.chunk", []) | {"usage": self.usage()})
        yield frame("[DONE]")

    async def whole(self) -> dict[str, Any]:
        """All of the answers."""
        responses = [recipe.ChatCompletionResponse("", "", 0, 0, 0) for _ in self.choices]
        logprobs: list[dict[str, list[Any]]] = [{} for _ in self.choices]
        async with aclosing(self._updates()) as updates:
            async for index, update in updates:
                if isinstance(update, PromptEvent):
                    continue
                for choice in self.choices[index].chunks(update):
                    for part, entries in (choice["logprobs"] or {}).items():
                        logprobs[index].setdefault(part, []).extend(entries)
                for chunk in update.chunks:
                    assert isinstance(chunk, recipe.ChatCompletionChunk)
                    responses[index].accumulate(chunk)
        found = [_whole_choice(*each) for each in enumerate(zip(responses, logprobs, strict=True))]
        return self._object("chat.completion", found) | {"usage": self.usage()}

    def usage(self) -> dict[str, Any]:
        """Of all answers together; the prompt counts once."""
        first = self.choices[0].answer.usage
        completion = sum(choice.answer.usage.completion for choice in self.choices)
        return {
            "prompt_tokens": first.prompt,
            "completion_tokens": completion,
            "total_tokens": first.prompt + completion,
            "prompt_tokens_details": {"cached_tokens": first.cached},
            "completion_tokens_details": {"reasoning_tokens": sum(each.reasoning_tokens for each in self.choices)},
        }

    def _updates(self) -> AsyncGenerator[tuple[int, Update], None]:
        return merged([choice.answer.updates() for choice in self.choices])

    def _object(self, kind: str, choices: Sequence[dict[str, Any]]) -> dict[str, Any]:
        model = self.served.options.model_name
        return {"id": self.id, "object": kind, "created": self.created, "model": model, "choices": list(choices)}


def generator() -> recipe.ChatCompletionChunkGenerator:
    """A maker of chat chunks; what it takes from a request we write ourselves."""
    request = recipe.ConversationRequest(recipe.Conversation([]), recipe.ModelVersion.DeepseekV41Flash)
    return recipe.ChatCompletionRequest.chunk_generator(request, "", "")


def _whole_choice(index: int, found: tuple[recipe.ChatCompletionResponse, dict[str, list[Any]]]) -> dict[str, Any]:
    response, logprobs = found
    choice = json.loads(response.to_json())["choices"][0]
    message = choice["message"]
    if message.get("tool_calls"):
        message["content"] = message.get("content") or None
        for call in message["tool_calls"]:
            call.pop("index", None)
    return {
        "index": index,
        "message": message,
        "logprobs": logprobs or None,
        "finish_reason": choice["finish_reason"],
    }
