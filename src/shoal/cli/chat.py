"""`shoal chat`: a conversation in the terminal, with the model in this process or behind a server."""

import os
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast, get_args

import typer

from shoal.cli import generate_options as given
from shoal.cli.chat_commands import COMMANDS, Leave, run_command
from shoal.cli.chat_file import load_messages
from shoal.cli.chat_input import EditedLines, Lines, Turn, read_turn
from shoal.cli.chat_reply import Replies
from shoal.cli.chat_screen import Screen, Thinking
from shoal.cli.chat_session import Session
from shoal.cli.chat_settings import ChatSettings, parse_effort
from shoal.cli.error_output import print_error
from shoal.cli.json_output import check_writable
from shoal.cli.loading import expert_places, load_model, memory_places, prefix_places
from shoal.cli.more_shards import Also
from shoal.cli.serve_options import CacheDir, CacheDisk, PrefixMemory
from shoal.errors import OptionError, ShoalError

if TYPE_CHECKING:
    from shoal.api import Places

KEY_VARIABLE = "SHOAL_API_KEY"
INTERRUPTED = 130

Url = Annotated[
    str | None, typer.Option(help="Ask the server at this address, as in http://127.0.0.1:8000/v1; loads nothing.")
]
ApiKey = Annotated[str | None, typer.Option(help=f"The server's key; `{KEY_VARIABLE}` is read where absent.")]
ModelName = Annotated[str | None, typer.Option("--model", help="The server's model; its first if absent.")]
System = Annotated[str, typer.Option(help="The system prompt.")]
EffortName = Annotated[
    str | None, typer.Option("--effort", help="How much to think: low, high, max, 1 to 100; none: not at all.")
]
Shown = Annotated[str | None, typer.Option("--thinking", help="What of the thinking to show: show, fold, off.")]
History = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Keep what you type in this file; kept nowhere if absent.")
]
LoadFile = Annotated[Path | None, typer.Option("--load", metavar="FILE", help="Go on with a saved conversation.")]
MostTokens = Annotated[
    int | None, typer.Option("--max-new-tokens", min=1, help="Of a reply, thinking included; the context's if less.")
]


def command(
    checkpoint: given.CheckpointDirectory = None,
    also: Also = None,
    url: Url = None,
    api_key: ApiKey = None,
    model: ModelName = None,
    system: System = "",
    effort: EffortName = None,
    thinking: Shown = None,
    history: History = None,
    load: LoadFile = None,
    max_new_tokens: MostTokens = None,
    temperature: given.Temperature = 1.0,
    top_p: given.TopP = 0.95,
    top_k: given.TopK = 0,
    min_p: given.MinP = 0.0,
    repetition_penalty: given.RepetitionPenalty = 1.0,
    seed: given.Seed = 0,
    memory: given.Memory = None,
    expert_memory: given.ExpertMemory = None,
    engram_memory: given.EngramMemory = None,
    kv_memory: given.KVMemory = None,
    resident_engram: given.ResidentEngram = False,
    expert_profile: given.ExpertProfile = None,
    no_prefetch: given.NoPrefetch = False,
    prefix_memory: PrefixMemory = None,
    cache_dir: CacheDir = None,
    cache_disk: CacheDisk = None,
    threads: given.Threads = None,
    prefill_chunk: given.PrefillChunk = None,
    quiet: given.Quiet = False,
) -> None:
    """Talk with the model: in a terminal, or each line of a pipe a turn. Answers go to stdout, the rest to stderr."""
    settings = _settings(effort, temperature, top_p, top_k, min_p, repetition_penalty, max_new_tokens, seed)
    screen = Screen(_shown(thinking), quiet=quiet)
    messages = load_messages(load) if load is not None else None
    lines = _lines(history, screen)
    if url is not None:
        if checkpoint is not None:
            raise typer.BadParameter("`--url` asks a server, expected no CHECKPOINT with it")
        replies: Replies = _remote(url, api_key or os.environ.get(KEY_VARIABLE), model)
    else:
        places = memory_places(
            memory=memory, kv_memory=kv_memory, engram_memory=engram_memory, resident_engram=resident_engram
        )
        places |= expert_places(
            also=also, expert_memory=expert_memory, expert_profile=expert_profile, no_prefetch=no_prefetch
        )
        places |= prefix_places(prefix_memory, cache_dir, cache_disk)
        places |= {"max_running": 1}
        replies = _local(checkpoint, places, threads, prefill_chunk, quiet)
    session = Session(replies, screen, settings, system=system, seed=seed, goes_on=isinstance(lines, EditedLines))
    if messages is not None:
        session.take(messages)
        session.system = system or session.system
    with closing(replies):
        num_errors = _Conversation(session, lines).run()
    if num_errors and not sys.stdin.isatty():
        raise typer.Exit(1)


class _Conversation:
    """Turns of the user, one after the other, until there is none."""

    def __init__(self, session: Session, lines: Lines) -> None:
        self.session, self.lines = session, lines

    def run(self) -> int:
        """How many turns ended with an error, each of which was said."""
        self._greet()
        num_errors, was_interrupted = 0, False
        with closing(self.lines):
            while True:
                try:
                    turn = read_turn(self.lines)
                    was_interrupted = False
                    self._do(turn)
                except KeyboardInterrupt:
                    if not isinstance(self.lines, EditedLines):
                        raise typer.Exit(INTERRUPTED) from None
                    self.session.screen.insist("")
                    if was_interrupted:
                        break
                    was_interrupted = True
                    self.session.screen.say("Ctrl-C again, or Ctrl-D, leaves")
                except EOFError:
                    # Where somebody typed it, the shell's prompt stands on a line of its own.
                    if isinstance(self.lines, EditedLines):
                        self.session.screen.insist("")
                    break
                except Leave:
                    break
                except ShoalError as error:
                    num_errors += 1
                    print_error(error)
        return num_errors

    def _do(self, turn: Turn) -> None:
        text = turn.text.strip()
        if not text:
            return
        if text.startswith("/") and not turn.is_block:
            if not text.startswith("//"):
                run_command(self.session, text)
                return
            text = text.removeprefix("/")
        self.session.ask(text)

    def _greet(self) -> None:
        if isinstance(self.lines, EditedLines):
            effort = self.session.settings.effort
            asked = "" if effort is None else f"; effort: {effort}"
            self.session.screen.say(f"{self.session.replies.name}{asked}; `/help` lists commands, Ctrl-D leaves")


def _settings(
    effort: str | None,
    temperature: float,
    top_p: float,
    top_k: int,
    min_p: float,
    repetition_penalty: float,
    max_new_tokens: int | None,
    seed: int,
) -> ChatSettings:
    from shoal.engine.sampling_options import SamplingOptions

    try:
        found = None if effort is None else parse_effort(effort)
        settings = ChatSettings(found, temperature, top_p, top_k, min_p, repetition_penalty, max_new_tokens)
        SamplingOptions(
            temperature=temperature, top_p=top_p, top_k=top_k, min_p=min_p, repetition_penalty=repetition_penalty,
            seed=seed,
        )  # fmt: skip
    except OptionError as error:
        raise typer.BadParameter(error.message) from None
    return settings


def _shown(thinking: str | None) -> Thinking | None:
    if thinking is not None and thinking not in get_args(Thinking):
        raise typer.BadParameter(f"`--thinking` is `{thinking}`, expected `show`, `fold` or `off`")
    return cast("Thinking | None", thinking)


def _remote(url: str, api_key: str | None, model: str | None) -> Replies:
    from shoal.cli.remote_replies import RemoteReplies

    if not url.startswith(("http://", "https://")):
        raise typer.BadParameter(f"`--url` is `{url}`, expected it to begin with `http://` or `https://`")
    return RemoteReplies(url, api_key=api_key, model=model)


def _local(
    directory: Path | None, places: "Places", threads: int | None, prefill_chunk: int | None, quiet: bool
) -> Replies:
    from shoal.cli.local_replies import LocalReplies

    model = load_model(directory, places, threads, prefill_chunk, quiet)
    return LocalReplies(model, "the built-in miniature" if directory is None else directory.resolve().name)


def _lines(history: Path | None, screen: Screen) -> Lines:
    if sys.stdin.isatty() and sys.stdout.isatty():
        if history is not None:
            check_writable(history)
        words = [f"{name} " if command.argument else name for name, command in COMMANDS.items()]
        return EditedLines(words, history, bold=screen.is_live and "NO_COLOR" not in os.environ)
    return Lines()
