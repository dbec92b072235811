"""Replies of a server that speaks Chat Completions: `shoal serve`, or another."""

import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from shoal.cli.chat_reply import ChatMessage, Part, PromptProgress, ReplyFigures, Said
from shoal.cli.chat_settings import OFF, ChatSettings
from shoal.errors import RemoteError
from shoal.text.reply_stream import ReplyPiece

if TYPE_CHECKING:
    import httpx

CONNECT_SECONDS, SILENCE_SECONDS = 10.0, 600.0
_PROGRESS = re.compile(r": prompt (\d{1,12})/(\d{1,12})(?: cached (\d{1,12}))?")
_MOST_ERROR_CHARACTERS = 500
_HINTS = {
    401: "give the server's key with `--api-key`, or in `SHOAL_API_KEY`.",
    404: "the URL is what stands before `/chat/completions`, as in `http://127.0.0.1:8000/v1`.",
    429: "it has enough to do; `/retry` in a while.",
}


class RemoteReplies:
    """The server at `url`, the part before `/chat/completions`; of its models `model`, or the first."""

    def __init__(self, url: str, *, api_key: str | None = None, model: str | None = None) -> None:
        """Raises `RemoteError` where the server does not answer, or takes no such key."""
        import httpx

        self._url = url.rstrip("/")
        headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        timeout = httpx.Timeout(SILENCE_SECONDS, connect=CONNECT_SECONDS)
        try:
            self._client = httpx.Client(headers=headers, timeout=timeout)
            self.name = model or self._first_model()
        except (httpx.InvalidURL, UnicodeEncodeError) as error:
            raise RemoteError(f"cannot ask `{url}`: {error}") from None

    def reply(self, messages: Sequence[ChatMessage], settings: ChatSettings, seed: int) -> "RemoteReply":
        """Begin one; nothing is sent yet."""
        body: dict[str, Any] = {
            "model": self.name,
            # What was thought is not sent back: it counts for nothing without tools, and some servers refuse it.
            "messages": [{"role": each["role"], "content": each["content"]} for each in messages],
            "stream": True,
            "stream_options": {"include_usage": True},
            "temperature": settings.temperature,
            "top_p": settings.top_p,
            "seed": seed,
        }
        if settings.max_new_tokens is not None:
            body["max_tokens"] = settings.max_new_tokens
        # What not every server knows is said only where it was asked for.
        others = {"top_k": (settings.top_k, 0), "min_p": (settings.min_p, 0.0)}
        others["repetition_penalty"] = (settings.repetition_penalty, 1.0)
        body |= {name: value for name, (value, neutral) in others.items() if value != neutral}
        if settings.effort is not None:
            body["thinking"] = {"type": "disabled" if settings.effort == OFF else "enabled"}
            body["reasoning_effort"] = settings.effort
        return RemoteReply(self._client, f"{self._url}/chat/completions", body)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _first_model(self) -> str:
        import httpx

        where = f"{self._url}/models"
        try:
            response = self._client.get(where, timeout=CONNECT_SECONDS)
        except httpx.TransportError as error:
            raise _unreachable(where, error) from None
        if response.status_code != 200:
            raise _refused(where, response.status_code, response.text)
        try:
            return str(response.json()["data"][0]["id"])
        except (ValueError, LookupError, TypeError):
            raise RemoteError(
                f"`{where}` lists no model, expected `data[0].id`", hint="name one with `--model`."
            ) from None


class RemoteReply:
    """One streamed answer. It is stopped by an exception: only closing the connection tells the server."""

    def __init__(self, client: "httpx.Client", where: str, body: Mapping[str, Any]) -> None:
        self.said, self.figures = Said(), ReplyFigures()
        self._client, self._where, self._body = client, where, body
        self._started = time.perf_counter()

    def stop(self) -> bool:
        """It waits for the server, so only an exception ends it."""
        return False

    def __iter__(self) -> Iterator[Part]:
        """Parts as the server sends them."""
        import httpx

        self._started = time.perf_counter()
        try:
            with self._client.stream("POST", self._where, json=self._body) as response:
                if response.status_code != 200:
                    response.read()
                    raise _refused(self._where, response.status_code, response.text)
                yield from self._read(response.iter_lines())
        except httpx.TransportError as error:
            raise _unreachable(self._where, error) from None

    def _read(self, lines: Iterator[str]) -> Iterator[Part]:
        for line in lines:
            if match := _PROGRESS.match(line):
                yield PromptProgress(int(match[1]), int(match[2]), int(match[3] or 0))
            elif line.startswith("data:"):
                data = line.removeprefix("data:").strip()
                if data == "[DONE]":
                    return
                yield from self._take(_object(data, self._where))
        raise RemoteError(f"`{self._where}` ended the reply without `[DONE]`: it is not whole")

    def _take(self, chunk: Mapping[str, Any]) -> Iterator[Part]:
        if chunk.get("error"):
            raise _problem(f"`{self._where}` broke off", chunk["error"])
        if isinstance(usage := chunk.get("usage"), Mapping):
            self._count(usage)
        choices = chunk.get("choices")
        choice = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], Mapping) else {}
        delta = choice.get("delta")
        for piece in _pieces(delta if isinstance(delta, Mapping) else {}):
            self.figures.seconds = time.perf_counter() - self._started
            if self.figures.first_seconds is None:
                self.figures.first_seconds = self.figures.seconds
            self.said.take(piece)
            yield piece
        if isinstance(reason := choice.get("finish_reason"), str):
            self.figures.finish_reason = reason

    def _count(self, usage: Mapping[str, Any]) -> None:
        details = usage.get("prompt_tokens_details")
        cached = details.get("cached_tokens") if isinstance(details, Mapping) else None
        counts = (usage.get("prompt_tokens"), usage.get("completion_tokens"), cached)
        prompt, reply, known = (count if isinstance(count, int) else None for count in counts)
        self.figures.prompt_tokens, self.figures.reply_tokens, self.figures.cached_tokens = prompt, reply, known


def _pieces(delta: Mapping[str, Any]) -> Iterator[ReplyPiece]:
    # Servers do not agree on what the thinking is called.
    reasoning, content = delta.get("reasoning_content") or delta.get("reasoning"), delta.get("content")
    if isinstance(reasoning, str) and reasoning:
        yield ReplyPiece("reasoning", reasoning)
    if isinstance(content, str) and content:
        yield ReplyPiece("content", content)


def _object(data: str, where: str) -> Mapping[str, Any]:
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise RemoteError(f"`{where}` sent `{data[:60]}`, expected a JSON object")
    return found


def _refused(where: str, status: int, body: str) -> RemoteError:
    try:
        problem = json.loads(body)["error"]
    except (ValueError, LookupError, TypeError, RecursionError):
        problem = body.strip()
    return _problem(f"`{where}` answered {status}", problem, status)


def _problem(what: str, problem: object, status: int = 0) -> RemoteError:
    fields = problem if isinstance(problem, Mapping) else {"message": problem}
    said = str(fields.get("message") or "no reason given")[:_MOST_ERROR_CHARACTERS]
    # Ours puts the hint behind the sentence, where every client shows it; here is what it is on this command line.
    text, _, hint = said.partition("\n\nhint: ")
    hint = _HINTS.get(status) or hint
    return RemoteError(f"{what}: {text}", hint=hint or None)


def _unreachable(where: str, error: "httpx.TransportError") -> RemoteError:
    return RemoteError(
        f"cannot reach `{where}`: {str(error) or type(error).__name__}",
        hint="is the server running, and at this address?",
    )
