"""The Python API: `shoal.load` gives an object that generates; `shoal.generate` and `shoal.stream` do both at once."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self, TypedDict, TypeGuard, Unpack

from shoal.assemble import Assembled, LoadOptions, assemble
from shoal.checkpoint.direct_file import Notice
from shoal.engine.answer import Answer, Completion
from shoal.engine.engine import MOST_RUNNING, MOST_WAITING, PromptProgress
from shoal.engine.request import Request
from shoal.engine.sampling_options import SamplingOptions
from shoal.errors import PromptError
from shoal.text.chat import Message, render_chat
from shoal.text.tokenizer import Tokenizer
from shoal.weights.load import TotalProgress

Prompt = str | Sequence[int] | Sequence[Message]
"""Raw text (BOS is put before it), token ids (used as they are), or Chat Completions messages (thinking off)."""


class Sampling(TypedDict, total=False):
    """The keywords of `generate` and `stream`: the fields of `SamplingOptions`, with its defaults."""

    max_new_tokens: int
    temperature: float
    top_p: float
    seed: int
    top_k: int
    min_p: float
    repetition_penalty: float
    frequency_penalty: float
    presence_penalty: float
    logit_bias: Mapping[int, float]
    stop: tuple[str, ...]
    logprobs: int | None


class Places(TypedDict, total=False):
    """Keywords of `load`: what may be taken of the memory, where things live, what is kept about them, and how many
    requests are taken."""

    also: Sequence[Path]
    memory: int | None
    kv_memory: int | None
    engram_memory: int | None
    resident_engram: bool
    expert_memory: int | None
    expert_profile: Path | None
    record_routing: Path | None
    prefetch: bool
    max_running: int
    max_waiting: int


class Shoal:
    """A loaded model. As a context, or by `close`, it lets the checkpoint go."""

    def __init__(self, assembled: Assembled) -> None:
        self.assembled = assembled
        self.config, self.tokenizer, self.report = assembled.config, assembled.tokenizer, assembled.report

    def generate(self, prompt: Prompt, **sampling: Unpack[Sampling]) -> Completion:
        """The whole answer. Raises `PromptError` and `OptionError` before anything runs."""
        answer = self.stream(prompt, **sampling)
        for _ in answer:
            pass
        return answer.completion

    def stream(self, prompt: Prompt, *, progress: PromptProgress | None = None, **sampling: Unpack[Sampling]) -> Answer:
        """The answer's text piece by piece, a token each; `completion` of what is returned says the rest.

        `progress` is told how many of the prompt's tokens are read while the first piece is awaited.
        """
        options = SamplingOptions(**sampling)
        prompt_ids = tuple(encode(self.tokenizer, prompt))
        events = self.assembled.engine.stream(Request(prompt_ids, options), progress)
        return Answer(events, self.tokenizer, prompt_ids, options.stop)

    def close(self) -> None:
        """Close stores and checkpoint. Nothing can be generated after that."""
        self.assembled.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def load(
    path: str | os.PathLike[str] | None = None,
    *,
    also: Sequence[str | os.PathLike[str]] = (),
    arithmetic: str = "native",
    isa: str | None = None,
    memory: int | None = None,
    kv_memory: int | None = None,
    expert_memory: int | None = None,
    expert_profile: str | os.PathLike[str] | None = None,
    record_routing: str | os.PathLike[str] | None = None,
    prefetch: bool = True,
    resident_engram: bool = False,
    engram_memory: int | None = None,
    threads: int | None = None,
    prefill_chunk: int | None = None,
    max_running: int = MOST_RUNNING,
    max_waiting: int = MOST_WAITING,
    cache_directory: str | os.PathLike[str] | None = None,
    progress: TotalProgress | None = None,
    notice: Notice | None = None,
) -> Shoal:
    """The model of a checkpoint directory, or the built-in miniature; the options are those of `LoadOptions`."""
    checkpoint, cache, profile, routing = (
        None if part is None else Path(part) for part in (path, cache_directory, expert_profile, record_routing)
    )
    options = LoadOptions(
        checkpoint=checkpoint,
        also=tuple(map(Path, also)),
        arithmetic=arithmetic,
        isa=isa,
        memory=memory,
        kv_memory=kv_memory,
        expert_memory=expert_memory,
        expert_profile=profile,
        record_routing=routing,
        prefetch=prefetch,
        resident_engram=resident_engram,
        engram_memory=engram_memory,
        threads=threads,
        prefill_chunk=prefill_chunk,
        max_running=max_running,
        max_waiting=max_waiting,
        cache_directory=cache,
        progress=progress,
        notice=notice,
    )
    return Shoal(assemble(options))


def generate(prompt: Prompt, path: str | os.PathLike[str] | None = None, **sampling: Unpack[Sampling]) -> Completion:
    """Load, answer once, close. To ask twice, `load` once."""
    with load(path) as model:
        return model.generate(prompt, **sampling)


def stream(prompt: Prompt, path: str | os.PathLike[str] | None = None, **sampling: Unpack[Sampling]) -> Answer:
    """Load and answer once, piece by piece. The checkpoint stays open as long as the answer lives."""
    return load(path).stream(prompt, **sampling)


def encode(tokenizer: Tokenizer, prompt: Prompt) -> list[int]:
    """The ids of a prompt, BOS first and once but where ids are given. Raises `PromptError`."""
    if not prompt:
        raise PromptError("the prompt is empty, expected text, token ids or messages")
    if isinstance(prompt, str):
        return tokenizer.encode_prompt(prompt)
    if _is_ids(prompt):
        return list(prompt)
    if _is_messages(prompt):
        return render_chat(tokenizer, prompt)
    kinds = sorted({type(item).__name__ for item in prompt})
    found = " and ".join(f"`{kind}`" for kind in kinds)
    raise PromptError(f"the prompt is a list of {found}, expected token ids or messages, not both")


def _is_ids(prompt: Sequence[object]) -> TypeGuard[Sequence[int]]:
    return all(isinstance(item, int) for item in prompt)


def _is_messages(prompt: Sequence[object]) -> TypeGuard[Sequence[Message]]:
    return all(isinstance(item, Mapping) for item in prompt)
