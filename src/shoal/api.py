"""The Python API: `shoal.load` gives an object that generates; `shoal.generate` and `shoal.stream` do both at once.

`shoal.Engine` answers many prompts together.
"""

import os
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self, TypedDict, TypeGuard, Unpack

from shoal.assemble import Assembled, LoadOptions, assemble
from shoal.checkpoint.direct_file import Notice
from shoal.engine.answer import Answer, Completion
from shoal.engine.answer_all import answer_all
from shoal.engine.engine import MOST_RUNNING, MOST_WAITING
from shoal.engine.prompt_bar import PromptBar
from shoal.engine.request import Request
from shoal.engine.sampling_options import SamplingOptions
from shoal.engine.token_stream import PromptProgress
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
    prefix_memory: int | None
    prefix_directory: Path | None
    prefix_disk: int | None


class Loading(Places, total=False):
    """All keywords of `load`."""

    arithmetic: str
    isa: str | None
    threads: int | None
    prefill_chunk: int | None
    cache_directory: str | os.PathLike[str] | None
    progress: TotalProgress | None
    notice: Notice | None


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


class Engine:
    """A loaded model for many prompts, `max_running` of them together. As a context, or by `close`, it lets go.

    The options are those of `load`. Each answer has the bits it has alone.
    """

    def __init__(self, path: str | os.PathLike[str] | None = None, **options: Unpack[Loading]) -> None:
        self.model = load(path, **options)

    def generate(
        self, prompts: Sequence[Prompt], *, progress: bool = True, **sampling: Unpack[Sampling]
    ) -> list[Completion]:
        """The whole answers, in the order of `prompts`. A prompt that cannot be answered gives one that says `error`.

        With `progress` a bar is shown on stderr where that is a terminal. Raises `OptionError` before anything runs.
        """
        engine, tokenizer, options = self.model.assembled.engine, self.model.tokenizer, SamplingOptions(**sampling)
        with PromptBar(len(prompts), shown=progress) as bar:
            jobs = [partial(_request, tokenizer, prompt, options) for prompt in prompts]
            return answer_all(engine, tokenizer, jobs, bar)

    def close(self) -> None:
        """Close stores and checkpoint. Nothing can be generated after that."""
        self.model.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _request(tokenizer: Tokenizer, prompt: Prompt, options: SamplingOptions) -> Request:
    return Request(tuple(encode(tokenizer, prompt)), options)


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
    prefix_memory: int | None = 0,
    prefix_directory: str | os.PathLike[str] | None = None,
    prefix_disk: int | None = None,
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
        prefix_memory=prefix_memory,
        prefix_directory=None if prefix_directory is None else Path(prefix_directory),
        prefix_disk=prefix_disk,
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
