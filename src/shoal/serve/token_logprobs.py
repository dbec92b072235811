"""What the model thought of its tokens, in the shapes of OpenAI's two endpoints."""

from collections.abc import Sequence
from typing import Any

from shoal.engine.events import TokenEvent
from shoal.text.tokenizer import Tokenizer


def chat_entry(tokenizer: Tokenizer, event: TokenEvent) -> dict[str, Any] | None:
    """A token of an answer as chat completions tell it; None where nothing was asked, or no token came that is text."""
    if event.token_id is None or event.logprobs is None or event.token_id in tokenizer.marker_ids():
        return None
    top = [_one(tokenizer, token_id, logprob) for token_id, logprob in event.logprobs.top]
    return _one(tokenizer, event.token_id, event.logprobs.logprob) | {"top_logprobs": top}


def _one(tokenizer: Tokenizer, token_id: int, logprob: float) -> dict[str, Any]:
    content = tokenizer.token_bytes(token_id)
    return {"token": token_text(content), "logprob": logprob, "bytes": list(content)}


def token_text(content: bytes) -> str:
    """A token's text; one that is part of a character is written by its bytes, as OpenAI does."""
    try:
        return content.decode()
    except UnicodeDecodeError:
        return "bytes:" + "".join(f"\\x{byte:02x}" for byte in content)


def completion_entries(
    tokenizer: Tokenizer, tokens: Sequence[tuple[int, float | None, Sequence[tuple[int, float]]]], offset: int
) -> dict[str, Any]:
    """Tokens (id, logprob or None, likeliest ones) as completions tell them, the first at character `offset`."""
    texts, offsets, tops = [], [], []
    for token_id, _, top in tokens:
        text = token_text(tokenizer.token_bytes(token_id))
        texts.append(text)
        offsets.append(offset)
        offset += len(text)
        tops.append({token_text(tokenizer.token_bytes(each)): logprob for each, logprob in top} if top else None)
    return {
        "tokens": texts,
        "token_logprobs": [logprob for _, logprob, _ in tokens],
        "top_logprobs": None if tops and not any(tops) else tops,
        "text_offset": offsets,
    }
