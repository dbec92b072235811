"""What the model thought of the tokens of a response's text, put into its events."""

from typing import Any

from shoal.engine.events import TokenEvent
from shoal.serve.token_logprobs import chat_entry
from shoal.text.tokenizer import Tokenizer

TEXT = "response.output_text"


class ResponseLogprobs:
    """Of one response. Thoughts and calls have no place for it in this protocol, so that only text is told."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._pending: list[dict[str, Any]] = []
        self._told: dict[str, list[dict[str, Any]]] = {}

    def count(self, token: TokenEvent) -> None:
        """The token that the next events came with."""
        entry = chat_entry(self._tokenizer, token)
        if entry is not None:
            self._pending.append(entry)

    def tell(self, event: dict[str, Any]) -> None:
        """Adds to a piece of text its tokens, and to what holds the whole text all of them."""
        kind = event["type"]
        if kind == f"{TEXT}.delta":
            event["logprobs"], self._pending = self._pending, []
            self._told.setdefault(event["item_id"], []).extend(event["logprobs"])
        elif kind.endswith(".delta"):
            self._pending = []
        elif kind == f"{TEXT}.done":
            event["logprobs"] = self._of(event["item_id"])
        elif kind == "response.content_part.done":
            self._tell_part(event["part"], event["item_id"])
        elif kind == "response.output_item.done":
            self._tell_item(event["item"])
        for item in event.get("response", {}).get("output", ()):
            self._tell_item(item)

    def _tell_item(self, item: dict[str, Any]) -> None:
        for part in item.get("content") or ():
            self._tell_part(part, item["id"])

    def _tell_part(self, part: dict[str, Any], item_id: str) -> None:
        if part["type"] == "output_text":
            part["logprobs"] = self._of(item_id)

    def _of(self, item_id: str) -> list[dict[str, Any]]:
        return list(self._told.get(item_id, ()))
