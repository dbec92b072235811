"""The fields by which every endpoint says how tokens are drawn."""

import secrets
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from shoal.engine.sampling_options import MOST_LOGPROBS, SamplingOptions
from shoal.errors import OptionError
from shoal.serve.errors import ApiError, as_api_error


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


Stop = Annotated[list[str] | None, BeforeValidator(_as_list, json_schema_input_type=str | list[str] | None)]
"""A string or some; none is as good as null."""


class StreamOptions(BaseModel):
    """What a stream tells besides the answer."""

    include_usage: bool | None = None


class SamplingFields(BaseModel):
    """OpenAI's, and what other servers call the rest. Null is as good as absent; unknown fields are ignored."""

    model_config = ConfigDict(extra="ignore")

    model: str | None = None
    temperature: float | None = Field(None, ge=0, le=100)
    top_p: float | None = Field(None, gt=0, le=1)
    top_k: int | None = Field(None, ge=-1, description="0 or -1: all")
    min_p: float | None = Field(None, ge=0, le=1)
    repetition_penalty: float | None = Field(None, gt=0, le=10)
    frequency_penalty: float | None = Field(None, ge=-10, le=10)
    presence_penalty: float | None = Field(None, ge=-10, le=10)
    logit_bias: dict[str, float] | None = None
    seed: int | None = Field(None, ge=-(2**63), lt=2**64)
    stop: Stop = None

    def options(self, max_new_tokens: int, logprobs: int | None = None) -> SamplingOptions:
        """Absent fields have the API's defaults: temperature 1, everything kept, and a seed of chance.

        Raises `ApiError` for what `SamplingOptions` refuses.
        """
        seed = secrets.randbits(63) if self.seed is None else self.seed % 2**64
        given: dict[str, Any] = {"temperature": 1.0, "top_p": 1.0, "seed": seed, "top_k": max(0, self.top_k or 0)}
        names = ("temperature", "top_p", "min_p", "repetition_penalty", "frequency_penalty", "presence_penalty")
        given |= {name: value for name in names if (value := getattr(self, name)) is not None}
        try:
            return SamplingOptions(
                max_new_tokens=max_new_tokens,
                logprobs=logprobs,
                stop=tuple(self.stop or ()),
                logit_bias=self._biases(),
                **given,
            )
        except OptionError as problem:
            raise as_api_error(problem) from None

    def _biases(self) -> dict[int, float]:
        try:
            return {int(token_id): bias for token_id, bias in (self.logit_bias or {}).items()}
        except ValueError:
            raise ApiError(400, "`logit_bias` has a key that is no token id", param="logit_bias") from None


def nth_seed(options: SamplingOptions, index: int) -> int:
    """The seed of the choice `index` of several; the first has the request's own."""
    # A multiple of an odd constant: different for each choice, and near to none.
    return (options.seed + index * 0x9E3779B97F4A7C15) % 2**64


def top_logprobs(wanted: int | None) -> int:
    """How many tokens are told beside each; raises `ApiError` beyond what the engine tells."""
    if wanted is not None and not 0 <= wanted <= MOST_LOGPROBS:
        raise ApiError(
            400,
            f"`top_logprobs` is {wanted}, expected 0 to {MOST_LOGPROBS}",
            param="top_logprobs",
            code="invalid_value",
        )
    return wanted or 0
