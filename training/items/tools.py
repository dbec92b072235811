"""Calls with values that the corpus never passes to that tool, answers that use a result, turns without a tool."""

from collections.abc import Iterator, Sequence
from random import Random

from shoal.text.chat import ChatOptions
from training.corpus.document import Chat, Message
from training.corpus.facts import WORLD, fact_turn
from training.corpus.tool_table import NUMBERS, TOOLS, VALUES, Tool
from training.corpus.tools import Call, call_turn, draw_call, held_out_value
from training.items.item import Item, conversation_item

CALLS, LATER, PARALLEL, THINKING, RESULTS, WITHOUT = 60, 15, 20, 20, 20, 15


def can_hold_out(tool: Tool) -> bool:
    """Whether there is a value that the corpus never passes to this tool."""
    return any(
        held_out_value(tool, name, value)
        for name in tool.parameters
        for value in (map(str, range(1, NUMBERS[name] + 1)) if name in NUMBERS else VALUES.get(name, ()))
    )


_HOLDABLE = tuple(tool for tool in TOOLS if can_hold_out(tool))


def tool_items(random: Random) -> Iterator[Item]:
    yield from (_call(random, "call", 1) for _ in range(CALLS))
    yield from (_call(random, "later", 1, history=True) for _ in range(LATER))
    yield from (_call(random, "parallel", 2) for _ in range(PARALLEL))
    yield from (_call(random, "thinking", 1, thinking=True) for _ in range(THINKING))
    yield from (_result(random) for _ in range(RESULTS))
    yield from (_without(random) for _ in range(WITHOUT))


def _call(random: Random, group: str, count: int, *, thinking: bool = False, history: bool = False) -> Item:
    """The last user message asks for `count` calls, each with a held-out value."""
    tools = _offered(random)
    calls = _draw_calls(random, tools, count)
    earlier = call_turn(random, [draw_call(random, calls[0].tool)], thinking, 0) if history else []
    request = call_turn(random, calls, thinking, 0)[0]
    expect = {"calls": [{"name": call.tool.name, "arguments": call.arguments} for call in calls]}
    return conversation_item(group, [*earlier, request], _offer(tools, thinking), expect, 80 * count + 40)


def _result(random: Random) -> Item:
    """The result is there: the answer that names it."""
    tools = _offered(random)
    turn = call_turn(random, _draw_calls(random, tools, 1), False, 0)
    expect = {"equals": turn[-1]["content"], "ends": True}
    return conversation_item("result", turn[:-1], _offer(tools, False), expect, 64)


def _without(random: Random) -> Item:
    """A question that no tool is for."""
    tools = _offered(random)
    relation, subject = WORLD.draw(random)
    question, reply = fact_turn(relation, random.choice(relation.questions()), subject, False, None)
    expect = {"answer": str(reply["content"]).removesuffix("."), "calls": [], "ends": True}
    return conversation_item("no-tool", [question], _offer(tools, False), expect, 48)


def _offered(random: Random) -> list[Tool]:
    # One of them at least has held-out values.
    others = random.sample(TOOLS, random.choice((0, 1, 1, 2)))
    tools = list(dict.fromkeys([random.choice(_HOLDABLE), *others]))
    random.shuffle(tools)
    return tools


def _draw_calls(random: Random, tools: Sequence[Tool], count: int) -> list[Call]:
    able = [tool for tool in tools if tool in _HOLDABLE]
    return [draw_call(random, random.choice(able), held_out=True) for _ in range(count)]


def _offer(tools: Sequence[Tool], thinking: bool, messages: tuple[Message, ...] = ()) -> Chat:
    return Chat(messages, ChatOptions(thinking=thinking, tools=[tool.schema() for tool in tools]))
