"""Responses that later requests may go on from, kept in memory while there is room."""

import json
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

from shoal.serve.errors import ApiError

MOST_RESPONSES, MOST_NBYTES = 1000, 64 << 20


@dataclass(frozen=True)
class StoredResponse:
    """A response, and `items`: the conversation up to and with its output."""

    response: dict[str, Any]
    items: list[Any]
    nbytes: int


class ResponseStore:
    """The latest ones; used from the event loop's thread only. A restart forgets them."""

    def __init__(self, most_nbytes: int = MOST_NBYTES) -> None:
        self._most_nbytes, self._nbytes = most_nbytes, 0
        self._kept: OrderedDict[str, StoredResponse] = OrderedDict()

    def keep(self, response: dict[str, Any], items: list[Any]) -> None:
        """The oldest make room for it."""
        nbytes = len(json.dumps(response)) + len(json.dumps(items))
        self._kept[response["id"]] = StoredResponse(response, items, nbytes)
        self._nbytes += nbytes
        while self._kept and (self._nbytes > self._most_nbytes or len(self._kept) > MOST_RESPONSES):
            self._nbytes -= self._kept.popitem(last=False)[1].nbytes

    def get(self, response_id: str, param: str | None = None) -> StoredResponse:
        """Raises `ApiError`, 404, where it was not kept or not for so long; 400 where `param` of a body names it."""
        found = self._kept.get(response_id)
        if found is None:
            raise ApiError(
                404 if param is None else 400,
                f"there is no response `{response_id[:100]}`",
                param=param,
                code="response_not_found" if param is None else "previous_response_not_found",
                hint="the server keeps the latest ones in memory; send the whole conversation as `input`.",
            )
        self._kept.move_to_end(response_id)
        return found

    def forget(self, response_id: str) -> None:
        """Raises `ApiError` like `get`."""
        self.get(response_id)
        self._nbytes -= self._kept.pop(response_id).nbytes
