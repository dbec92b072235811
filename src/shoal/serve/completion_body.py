"""The body of `/v1/completions`, and the prompts in it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field, PlainValidator, StrictInt

from shoal.errors import PromptError
from shoal.serve.errors import ApiError, as_api_error
from shoal.serve.options import Limits
from shoal.serve.sampling import SamplingFields, StreamOptions
from shoal.text.tokenizer import Tokenizer

MOST_LOGPROBS = 20


def _expect_prompt(value: Any) -> Any:
    if isinstance(value, str) or (isinstance(value, list) and (_is_all(value, str) or _is_ids(value))):
        return value
    if isinstance(value, list) and all(isinstance(each, list) and _is_ids(each) for each in value):
        return value
    raise ValueError("expected a text, token ids, or a list of texts or of lists of token ids")


def _is_ids(value: list[Any]) -> bool:
    return all(type(each) is int for each in value)


def _is_all(value: list[Any], kind: type) -> bool:
    return all(isinstance(each, kind) for each in value)


_Shapes = str | list[StrictInt] | list[str] | list[list[StrictInt]]
Prompt = Annotated[_Shapes, PlainValidator(_expect_prompt, json_schema_input_type=_Shapes)]
"""One prompt or several, as text or as ids."""


class CompletionBody(SamplingFields):
    """OpenAI's fields; others are ignored. `parse_special` reads markers spelled in a text prompt as markers."""

    prompt: Prompt
    max_tokens: int | None = Field(None, ge=1)
    n: int | None = Field(None, ge=1)
    best_of: int | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    logprobs: int | None = Field(None, ge=0, le=MOST_LOGPROBS)
    echo: bool | None = None
    suffix: str | None = None
    parse_special: bool | None = None


@dataclass(frozen=True)
class RawPrompt:
    """What is continued: ids, BOS first, and the text that `echo` repeats."""

    ids: tuple[int, ...]
    text: str


def read_prompts(body: CompletionBody, tokenizer: Tokenizer, limits: Limits) -> list[RawPrompt]:
    """A text gets BOS, once; ids are used as they are. Raises `ApiError` naming the field that is wrong."""
    _check(body, limits)
    try:
        return [_prompt(each, tokenizer, bool(body.parse_special)) for each in _several(body.prompt)]
    except PromptError as problem:
        raise as_api_error(problem) from None


def _several(prompt: str | Sequence[int] | Sequence[str] | Sequence[Sequence[int]]) -> list[str | Sequence[int]]:
    if isinstance(prompt, str):
        return [prompt]
    ids = [each for each in prompt if isinstance(each, int)]
    return [ids] if ids else [each for each in prompt if not isinstance(each, int)]


def _prompt(prompt: str | Sequence[int], tokenizer: Tokenizer, markers: bool) -> RawPrompt:
    if isinstance(prompt, str):
        return RawPrompt(tuple(tokenizer.encode_prompt(prompt, markers=markers)), prompt)
    shown = prompt[1:] if prompt and prompt[0] == tokenizer.bos_id else prompt
    return RawPrompt(tuple(prompt), tokenizer.decode(shown))


def _check(body: CompletionBody, limits: Limits) -> None:
    if body.suffix:
        hint = "put what should follow into the prompt."
        raise ApiError(400, "`suffix` is given, expected none: the model only continues", param="suffix", hint=hint)
    if body.best_of is not None and body.best_of != (body.n or 1):
        raise ApiError(400, f"`best_of` is {body.best_of}, expected `n` or nothing", param="best_of")
    if (body.n or 1) > limits.choices:
        raise ApiError(400, f"`n` is {body.n}, expected 1 to {limits.choices}", param="n")
    if not body.prompt and not isinstance(body.prompt, str):
        raise ApiError(400, "`prompt` is empty, expected text or token ids", param="prompt")
    if len(prompts := _several(body.prompt)) > limits.prompts:
        raise ApiError(400, f"`prompt` has {len(prompts)} texts, expected at most {limits.prompts}", param="prompt")
    if body.echo and body.logprobs is not None:
        message = "`echo` is given with `logprobs`, expected one of them: those of a prompt are not computed"
        raise ApiError(400, message, param="logprobs")
