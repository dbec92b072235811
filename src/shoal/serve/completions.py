"""`/v1/completions`: raw text goes on, without roles, reasoning or tools."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Annotated, Any
from uuid import uuid4

from fastapi import APIRouter, Depends
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from shoal.engine.events import PromptEvent
from shoal.engine.request import Request as EngineRequest
from shoal.engine.sampling_options import SamplingOptions
from shoal.serve import foreign_fields
from shoal.serve.attention import attended, merged
from shoal.serve.body import body_of
from shoal.serve.chat import SEED_HEADER
from shoal.serve.completion_body import CompletionBody, RawPrompt, read_prompts
from shoal.serve.continuation import Continuation, Piece
from shoal.serve.errors import ApiError
from shoal.serve.event_stream import EventStream, Frame, frame
from shoal.serve.openapi import described
from shoal.serve.sampling import nth_seed
from shoal.serve.served import Served, served_of
from shoal.serve.token_logprobs import completion_entries

router = APIRouter(tags=["openai"])
_DEFAULT_TOKENS = 16


@router.post("/v1/completions", openapi_extra=described(CompletionBody), response_class=JSONResponse)
async def completions(
    request: Request, body: Annotated[CompletionBody, Depends(body_of(CompletionBody, foreign_fields.COMPLETIONS))]
) -> Response:
    """How one text or several go on."""
    served = served_of(request)
    prompts = await asyncio.to_thread(read_prompts, body, served.model.tokenizer, served.options.limits)
    sampling = body.options(body.max_tokens or _DEFAULT_TOKENS, body.logprobs)
    asked = Completions.ask(served, body, prompts, sampling)
    headers = {SEED_HEADER: str(sampling.seed)}
    request.state.usage = asked.continuations[0].usage
    if body.stream:
        return EventStream(asked.frames(), served.options, headers=headers)
    return JSONResponse(await attended(request, asked.whole()), headers=headers)


@dataclass
class Completions:
    """The answers to one request: `n` of each prompt, in the order of the prompts."""

    served: Served
    body: CompletionBody
    prompts: Sequence[RawPrompt]
    continuations: Sequence[Continuation]
    id: str
    created: int
    _offsets: list[int] = field(default_factory=list)

    @classmethod
    def ask(
        cls, served: Served, body: CompletionBody, prompts: Sequence[RawPrompt], sampling: SamplingOptions
    ) -> "Completions":
        """Queues them all, or none and raises `ApiError`."""
        tickets = []
        try:
            for prompt in prompts:
                for index in range(body.n or 1):
                    options = replace(sampling, seed=nth_seed(sampling, index))
                    tickets.append(served.submit(EngineRequest(prompt.ids, options), "prompt"))
        except ApiError:
            for ticket in tickets:
                served.release(ticket)
            raise
        found = [Continuation(served, ticket, sampling.stop) for ticket in tickets]
        asked = cls(served, body, prompts, found, f"cmpl-{uuid4().hex}", served.now())
        asked._offsets = [len(asked._echo(index)) for index in range(len(found))]
        return asked

    async def frames(self) -> AsyncGenerator[Frame, None]:
        """The pieces as events."""
        tells_usage = self.body.stream_options is not None and bool(self.body.stream_options.include_usage)
        extra: dict[str, Any] = {"usage": None} if tells_usage else {}
        for index in range(len(self.continuations)):
            if echo := self._echo(index):
                yield frame(self._object([_choice(index, echo, None, None)]) | extra)
        async with aclosing(self._pieces()) as pieces:
            async for index, piece in pieces:
                if isinstance(piece, PromptEvent):
                    yield piece
                else:
                    yield frame(self._object([self._shown(index, piece)]) | extra)
        if tells_usage:
            yield frame(self._object([]) | {"usage": self.usage()})
        yield frame("[DONE]")

    async def whole(self) -> dict[str, Any]:
        """All answers."""
        found: list[list[Piece]] = [[] for _ in self.continuations]
        async with aclosing(self._pieces()) as pieces:
            async for index, piece in pieces:
                if isinstance(piece, Piece):
                    found[index].append(piece)
        return self._object([self._joined(*each) for each in enumerate(found)]) | {"usage": self.usage()}

    def usage(self) -> dict[str, Any]:
        """Of all answers together; a prompt counts once."""
        prompt = sum(len(prompt.ids) for prompt in self.prompts)
        completion = sum(each.usage.completion for each in self.continuations)
        cached = sum(each.usage.cached for each in self.continuations[:: self.body.n or 1])
        return {
            "prompt_tokens": prompt,
            "completion_tokens": completion,
            "total_tokens": prompt + completion,
            "prompt_tokens_details": {"cached_tokens": cached},
        }

    def _joined(self, index: int, pieces: Sequence[Piece]) -> dict[str, Any]:
        text = "".join(piece.text for piece in pieces)
        whole = Piece(text, pieces[-1].finish_reason, tuple(token for piece in pieces for token in piece.tokens))
        return self._shown(index, whole, self._echo(index))

    def _shown(self, index: int, piece: Piece, echo: str = "") -> dict[str, Any]:
        logprobs = None
        if self.body.logprobs is not None:
            logprobs = completion_entries(self.served.model.tokenizer, piece.tokens, self._offsets[index])
            self._offsets[index] += sum(map(len, logprobs["tokens"]))
        return _choice(index, echo + piece.text, logprobs, piece.finish_reason)

    def _echo(self, index: int) -> str:
        return self.prompts[index // (self.body.n or 1)].text if self.body.echo else ""

    def _pieces(self) -> AsyncGenerator[tuple[int, PromptEvent | Piece], None]:
        return merged([each.pieces() for each in self.continuations])

    def _object(self, choices: Sequence[dict[str, Any]]) -> dict[str, Any]:
        model = self.served.options.model_name
        return {
            "id": self.id,
            "object": "text_completion",
            "created": self.created,
            "model": model,
            "choices": list(choices),
        }


def _choice(index: int, text: str, logprobs: dict[str, Any] | None, reason: str | None) -> dict[str, Any]:
    return {"index": index, "text": text, "logprobs": logprobs, "finish_reason": reason}
