"""What begins with a slash in a chat."""

import difflib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import get_args

from shoal.cli.chat_file import load_messages, save_messages
from shoal.cli.chat_screen import Thinking, summary
from shoal.cli.chat_session import Session
from shoal.cli.chat_settings import parse_effort
from shoal.errors import OptionError


class Leave(Exception):  # noqa: N818
    """The user wants out."""


@dataclass(frozen=True)
class Command:
    """`run` gets the rest of the line, without blanks around it."""

    run: Callable[[Session, str], None]
    argument: str
    help: str


def run_command(session: Session, line: str) -> None:
    """Do what `line`, which begins with a slash, says. Raises a `ShoalError` that says why it cannot be done."""
    name, _, argument = line.strip().partition(" ")
    command = COMMANDS.get(name)
    if command is None:
        near = difflib.get_close_matches(name, COMMANDS, 1, 0.5)
        wanted = f"perhaps `{near[0]}`" if near else "one that `/help` lists"
        raise OptionError(
            f"there is no command `{name[:40]}`, expected {wanted}",
            hint="to say something that begins with a slash, write two.",
        )
    if argument.strip() and not command.argument:
        raise OptionError(f"`{name}` takes nothing behind it, found `{argument.strip()[:40]}`")
    command.run(session, argument.strip())


def _help(session: Session, _argument: str) -> None:
    rows = [(f"{name} {command.argument}".strip(), command.help) for name, command in COMMANDS.items()]
    width = max(len(row[0]) for row in rows)
    lines = [f"  {row[0]:<{width}}  {row[1]}" for row in rows]
    lines += ['  a line that ends in \\ goes on with the next; """ begins and ends a block; Ctrl-C stops a reply']
    session.screen.insist("\n".join(lines))


def _system(session: Session, argument: str) -> None:
    if argument:
        session.system = "" if argument == '""' else argument
    session.screen.say(f"system prompt: {session.system}" if session.system else "there is no system prompt")


def _effort(session: Session, argument: str) -> None:
    if argument:
        session.settings = replace(session.settings, effort=parse_effort(argument))
    effort = session.settings.effort
    session.screen.say(f"effort: {'as the model has it' if effort is None else effort}")


def _thinking(session: Session, argument: str) -> None:
    if argument:
        if argument not in get_args(Thinking):
            raise OptionError(f"`/thinking` is `{argument[:40]}`, expected `show`, `fold` or `off`")
        was, session.screen.thinking = session.screen.thinking, argument  # type: ignore[assignment]
        if argument == "show" and was != "show" and (reasoning := session.last_reasoning()):
            session.screen.reasoning(reasoning)
    session.screen.say(f"thinking: {session.screen.thinking}")


def _save(session: Session, argument: str) -> None:
    save_messages(_file("/save", argument), session.conversation)
    session.screen.say(f"saved {len(session.conversation)} messages to `{argument}`")


def _load(session: Session, argument: str) -> None:
    session.take(load_messages(_file("/load", argument)))
    last = session.messages[-1]["role"] if session.messages else ""
    unanswered = "; the last has no answer, `/retry` asks for one" if last == "user" else ""
    session.screen.say(f"loaded {len(session.conversation)} messages{unanswered}")


def _file(name: str, argument: str) -> Path:
    if not argument:
        raise OptionError(f"`{name}` needs a file's name, as in `{name} chat.json`")
    return Path(argument).expanduser()


def _retry(session: Session, _argument: str) -> None:
    if session.settings.temperature == 0:
        session.screen.say("at temperature 0 the reply will be the same")
    if not session.retry():
        raise OptionError("there is nothing to retry: nothing was said yet")


def _undo(session: Session, _argument: str) -> None:
    text = session.undo()
    if text is None:
        raise OptionError("there is nothing to undo: nothing was said yet")
    session.screen.say(f"taken back: {text if len(text) < 60 else f'{text[:57]}…'}")


def _clear(session: Session, _argument: str) -> None:
    session.messages = []
    session.screen.say("a new conversation begins" + ("; the system prompt stays" if session.system else ""))


def _stats(session: Session, _argument: str) -> None:
    if not session.figures:
        raise OptionError("there are no figures yet: no reply was given")
    num_tokens = sum(figures.reply_tokens or 0 for figures in session.figures)
    num_cached = sum(figures.cached_tokens or 0 for figures in session.figures)
    num_prompt = sum(figures.prompt_tokens or 0 for figures in session.figures)
    session.screen.insist(f"last: {summary(session.figures[-1])}")
    session.screen.insist(
        f"all {len(session.figures)} replies: {num_tokens:,} tokens; "
        f"prompts: {num_prompt:,} tokens, {num_cached:,} of them from the cache"
    )


def _quit(_session: Session, _argument: str) -> None:
    raise Leave


COMMANDS = {
    "/help": Command(_help, "", "this list"),
    "/system": Command(_system, "TEXT", 'the system prompt; alone: show it; "": none'),
    "/effort": Command(_effort, "NAME|1-100|none", "how much to think; none: not at all"),
    "/thinking": Command(_thinking, "show|fold|off", "what to show of it"),
    "/retry": Command(_retry, "", "another reply to the last question"),
    "/undo": Command(_undo, "", "take back the last question and its reply"),
    "/clear": Command(_clear, "", "forget the conversation"),
    "/save": Command(_save, "FILE", "write the conversation, as JSON messages"),
    "/load": Command(_load, "FILE", "go on with one that was saved"),
    "/stats": Command(_stats, "", "tokens, rates, cache"),
    "/quit": Command(_quit, "", "leave; Ctrl-D does too"),
}
