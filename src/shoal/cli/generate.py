"""`shoal generate`: a prompt in, the answer on stdout token by token, everything else on stderr."""

import io
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from shoal.cli import generate_options as given
from shoal.cli.json_output import check_writable, write_json
from shoal.cli.loading import expert_places, load_model, memory_places, say
from shoal.cli.more_shards import Also
from shoal.cli.prompt_source import STDIN, PromptSource
from shoal.cli.ticker import Ticker
from shoal.cli.token_meter import TokenMeter
from shoal.errors import OptionError

if TYPE_CHECKING:
    from shoal.api import Prompt, Sampling, Shoal
    from shoal.engine.answer import Answer, Completion

INTERRUPTED = 130


def command(
    checkpoint: given.Checkpoint = None,
    stdin: given.Stdin = None,
    also: Also = None,
    prompt: given.Prompt = None,
    prompt_file: given.PromptFile = None,
    ids: given.Ids = None,
    chat: given.AsChat = False,
    max_new_tokens: given.MaxNewTokens = 128,
    temperature: given.Temperature = 0.0,
    top_p: given.TopP = 1.0,
    top_k: given.TopK = 0,
    min_p: given.MinP = 0.0,
    repetition_penalty: given.RepetitionPenalty = 1.0,
    stop: given.Stop = None,
    seed: given.Seed = 0,
    memory: given.Memory = None,
    expert_memory: given.ExpertMemory = None,
    engram_memory: given.EngramMemory = None,
    kv_memory: given.KVMemory = None,
    resident_engram: given.ResidentEngram = False,
    expert_profile: given.ExpertProfile = None,
    record_routing: given.RecordRouting = None,
    no_prefetch: given.NoPrefetch = False,
    threads: given.Threads = None,
    prefill_chunk: given.PrefillChunk = None,
    quiet: given.Quiet = False,
    stats: given.Stats = None,
) -> None:
    """Continue a prompt. The answer goes to stdout, everything else to stderr."""
    directory, reads_stdin = _positionals(checkpoint, stdin)
    source = PromptSource(prompt, prompt_file, ids, reads_stdin)
    if chat and ids is not None:
        raise typer.BadParameter("`--chat` renders text, expected no `--ids` with it")
    sampling: Sampling = {"max_new_tokens": max_new_tokens, "temperature": temperature, "seed": seed}
    sampling |= {"top_p": top_p, "top_k": top_k, "min_p": min_p}
    sampling |= {"repetition_penalty": repetition_penalty, "stop": tuple(stop or ())}
    _check_sampling(sampling)
    _check_writable(stats, expert_profile, record_routing)
    places = memory_places(
        memory=memory, kv_memory=kv_memory, engram_memory=engram_memory, resident_engram=resident_engram
    )
    places |= expert_places(
        also=also, expert_memory=expert_memory, expert_profile=expert_profile, no_prefetch=no_prefetch
    )
    places |= {"record_routing": record_routing, "max_running": 1}
    text = source.read()
    messages: Prompt = [{"role": "user", "content": text}] if chat else text
    with load_model(directory, places, threads, prefill_chunk, quiet) as model:
        _Run(model, messages, sampling, quiet, stats).show()


def _check_writable(*files: Path | None) -> None:
    for file in files:
        if file is not None:
            check_writable(file)


def _positionals(checkpoint: str | None, stdin: str | None) -> tuple[Path | None, bool]:
    """`-` stands in place of the checkpoint or after it; a directory of that name is `./-`."""
    if checkpoint == STDIN and stdin is None:
        return None, True
    if checkpoint == STDIN or stdin not in (None, STDIN):
        raise typer.BadParameter(
            "expected at most `CHECKPOINT` and `-`, in this order; give the prompt with `--prompt`"
        )
    return (None if checkpoint is None else Path(checkpoint)), stdin is not None


def _check_sampling(sampling: "Sampling") -> None:
    from shoal.engine.sampling_options import SamplingOptions

    try:
        SamplingOptions(**sampling)
    except OptionError as error:
        raise typer.BadParameter(error.message) from None


@dataclass(frozen=True)
class _Run:
    """One answer, printed."""

    model: "Shoal"
    prompt: "Prompt"
    sampling: "Sampling"
    quiet: bool
    stats: Path | None

    @cached_property
    def meter(self) -> TokenMeter:
        store = self.model.assembled.engram_store
        return TokenMeter(self.model.assembled.expert_store.statistics, None if store is None else store.statistics)

    def show(self) -> None:
        tokens_read = 0

        def progress(done: int, _total: int) -> None:
            nonlocal tokens_read
            tokens_read = done

        answer = self.model.stream(self.prompt, progress=progress, **self.sampling)
        total = len(answer.prompt_ids)
        try:
            self._print_text(answer, lambda: f"reading the prompt: {tokens_read:,} of {total:,} tokens")
        except KeyboardInterrupt:
            self._finish(answer.completion)
            raise typer.Exit(INTERRUPTED) from None
        self._finish(answer.completion)

    def _print_text(self, answer: "Answer", waiting: Callable[[], str]) -> None:
        if isinstance(sys.stdout, io.TextIOWrapper):
            # A terminal that cannot show a character shows another one, rather than ending the answer.
            sys.stdout.reconfigure(errors="replace")
        meter = self.meter
        with Ticker(waiting, quiet=self.quiet):
            first = next(answer)
        try:
            meter.mark()
            _write(first)
            for piece in answer:
                meter.mark()
                _write(piece)
        finally:
            # After an error too: what was printed stays, and the message starts a line.
            _write("\n")

    def _finish(self, completion: "Completion") -> None:
        experts, store = self.model.assembled.expert_store.statistics, self.model.assembled.engram_store
        engram = None if store is None else store.statistics
        if not self.quiet:
            lines = _summary(completion)
            lines += [experts.line()] if experts is not None else []
            lines += [engram.line()] if engram is not None and engram.rows else []
            say("\n".join(lines))
        if self.stats is not None:
            content = {**completion.as_dict(), "load": asdict(self.model.report)}
            content |= {"experts": experts.as_dict()} if experts is not None else {}
            content |= {"engram": asdict(engram)} if engram is not None else {}
            content |= {"budget": asdict(self.model.assembled.budget), "tokens": self.meter.tokens}
            write_json(self.stats, content)


def _write(piece: str) -> None:
    sys.stdout.write(piece)
    sys.stdout.flush()


def _summary(completion: "Completion") -> list[str]:
    timings, num_prompt = completion.timings, len(completion.prompt_ids)
    prompt = f"prompt: {num_prompt:,} tokens"
    if (seconds := timings.prefill_seconds) is not None:
        prompt += f"; prefill: {seconds:.2f} s, {seconds / num_prompt:.4f} s a token"
    generated = f"generated: {len(completion.token_ids):,} tokens, finish: {completion.finish_reason}"
    if (seconds := timings.seconds_per_step) is not None:
        steps = f"{timings.decode_steps:,} steps in {timings.decode_seconds:.2f} s"
        generated += f"; decode: {steps}, {seconds:.4f} s a token"
    return [prompt, generated]
