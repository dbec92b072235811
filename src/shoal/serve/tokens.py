"""`/tokenize` and `/detokenize`: what the model sees of a text or a conversation."""

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, Depends
from pydantic import BaseModel, ConfigDict, Field, StrictInt
from starlette.requests import Request

from shoal.errors import PromptError
from shoal.serve.body import body_of, checked
from shoal.serve.chat_body import ChatBody, chat_turn
from shoal.serve.errors import ApiError, as_api_error
from shoal.serve.openapi import described
from shoal.serve.served import Served, served_of
from shoal.serve.token_logprobs import token_text

router = APIRouter(tags=["tokens"])
MOST_IDS = 2_000_000


class TokenizeBody(BaseModel):
    """A text, `prompt` or `content`, or `messages` with any field of a chat completion.

    BOS is put before a text unless `add_special_tokens` is false; markers are read only with `parse_special`.
    """

    model_config = ConfigDict(extra="allow")

    prompt: str | None = None
    content: str | None = None
    messages: list[dict[str, Any]] | None = None
    add_special_tokens: bool | None = None
    parse_special: bool | None = None
    return_token_strs: bool | None = None


class DetokenizeBody(BaseModel):
    """Ids."""

    model_config = ConfigDict(extra="ignore")

    tokens: list[StrictInt] = Field(max_length=MOST_IDS)


@router.post("/tokenize", openapi_extra=described(TokenizeBody))
async def tokenize(request: Request, body: Annotated[TokenizeBody, Depends(body_of(TokenizeBody))]) -> dict[str, Any]:
    """The ids, and how many there are."""
    served = served_of(request)
    ids = await asyncio.to_thread(_ids, served, body)
    found = {"count": len(ids), "max_model_len": served.model.engine.room.tokens, "tokens": ids}
    if body.return_token_strs:
        found["token_strs"] = [token_text(served.model.tokenizer.token_bytes(each)) for each in ids]
    return found


@router.post("/detokenize", openapi_extra=described(DetokenizeBody))
async def detokenize(
    request: Request, body: Annotated[DetokenizeBody, Depends(body_of(DetokenizeBody))]
) -> dict[str, str]:
    """The text, markers spelled out."""
    try:
        return {"prompt": served_of(request).model.tokenizer.decode(body.tokens)}
    except PromptError as problem:
        raise as_api_error(problem) from None


def _ids(served: Served, body: TokenizeBody) -> list[int]:
    given = [name for name in ("prompt", "content", "messages") if getattr(body, name) is not None]
    if len(given) != 1:
        found = " and ".join(f"`{name}`" for name in given) or "nothing"
        raise ApiError(400, f"the body holds {found}, expected one of `prompt`, `content` and `messages`")
    if body.messages is not None:
        chat = checked(ChatBody, body.model_dump(exclude_none=True))
        return list(chat_turn(served, chat).prompt.ids)
    text, tokenizer, markers = body.prompt or body.content or "", served.model.tokenizer, bool(body.parse_special)
    try:
        if body.add_special_tokens is False:
            return tokenizer.encode_with_markers(text) if markers else tokenizer.encode(text)
        return tokenizer.encode_prompt(text, markers=markers)
    except PromptError as problem:
        raise as_api_error(problem) from None
