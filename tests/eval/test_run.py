"""Suites asked of a model that says what it is told to, and of the miniature."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from miniature import MINI
from shoal.assemble import LoadOptions, assemble
from shoal.engine.engine import Engine
from shoal.errors import TokenizerError
from shoal.eval.item import Item, Suite
from shoal.eval.outcome import Answered, Outcome, Scored, Skipped
from shoal.eval.run import outcomes, run
from shoal.text.chat import ChatOptions, render_chat
from shoal.text.tokenizer import Tokenizer

USER = {"role": "user", "content": "Hi"}
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
CALL = '\n\n<｜DSML｜ calls>\n<｜DSML｜ invoke name="f">\n\n</｜DSML｜ invoke>\n</｜DSML｜ calls>'
WANTED = {"calls": [{"name": "f", "arguments": {}}]}

MakeItem = Callable[..., Item]
Saying = Callable[..., Engine]


@pytest.fixture
def ask(saying: Saying, tokenizer: Tokenizer) -> Callable[..., Any]:
    """The outcome of an item whose reply is the text."""

    def one(item: Item, reply: str, context: int = 2048) -> Outcome:
        (outcome,) = run(saying(reply, context=context), tokenizer, [Suite("s", [item])]).outcomes
        return outcome

    return one


def test_a_prompt_is_continued(ask, item: MakeItem, tokenizer: Tokenizer) -> None:
    asked = item(prompt="The capital of France is", expect={"answer": "Paris", "ends": True})
    outcome = ask(asked, " Paris.")
    num_prompt = 1 + len(tokenizer.encode("The capital of France is"))
    assert outcome == Answered("s", "g", 1, num_prompt, " Paris.", "stop", {"answer": True, "ends": True})


def test_a_reply_is_cut_at_its_tokens_and_does_not_end(ask, item: MakeItem, tokenizer: Tokenizer) -> None:
    reply = "a b c d e f"
    asked = item(prompt="x", max_new_tokens=2, expect={"equals": reply, "ends": True})
    outcome = ask(asked, reply)
    assert outcome.reply == tokenizer.decode(tokenizer.encode(reply)[:2])
    assert (outcome.finish_reason, outcome.checks) == ("length", {"equals": False, "ends": False})


def test_an_answer_that_is_settled_is_not_waited_for(saying: Saying, item: MakeItem, tokenizer: Tokenizer) -> None:
    for reply, right in (("no, never, not at all", False), ("yes. " + "so " * 20, True)):
        engine = saying(reply)
        (outcome,) = run(engine, tokenizer, [Suite("s", [item(prompt="x", expect={"answer": "yes"})])]).outcomes
        assert isinstance(outcome, Answered)
        assert (outcome.finish_reason, outcome.is_right) == ("decided", right)
        assert engine.model.steps < 8


@pytest.mark.parametrize(
    ("options", "expect", "reply", "right"),
    [
        ({}, {"answer": "Hello"}, "Hello!", True),
        ({}, {"answer": "Hello"}, "</think>Hello", True),
        ({}, {"answer": "Hello"}, CALL, False),
        ({"thinking": True}, {"answer": "Hello"}, "I greet.</think>Hello", True),
        ({"thinking": True}, {"answer": "Hello"}, "Hello", False),
        ({"thinking": True}, {"equals": "Hello", "ends": True}, "Hello</think>", False),
        ({"tools": [TOOL]}, WANTED, CALL, True),
        ({"tools": [TOOL]}, WANTED, "So." + CALL, True),
        ({"tools": [TOOL]}, WANTED, "No.", False),
        ({"tools": [TOOL]}, {"calls": [], "answer": "No"}, "No.", True),
        ({"tools": [TOOL]}, {"calls": []}, CALL, False),
        ({"tools": [TOOL], "thinking": True}, WANTED, "Call.</think>" + CALL, True),
        ({"response_schema": {"type": "object"}}, {"schema": {"required": ["a"]}}, '{"a": 1}', True),
        ({"response_schema": {"type": "object"}}, {"schema": {"required": ["a"]}}, '{"b": 1}', False),
    ],
)
def test_a_chat_s_reply_is_parsed_as_it_was_asked_for(
    ask, item: MakeItem, options: dict[str, Any], expect: dict[str, Any], reply: str, right: bool
) -> None:
    outcome = ask(item(messages=[USER], max_new_tokens=200, expect=expect, **options), reply)
    assert outcome.is_right is right, outcome


def test_a_chat_s_prompt_is_the_rendered_one(ask, item: MakeItem, tokenizer: Tokenizer) -> None:
    asked = item(messages=[USER], thinking=True, effort="low", expect={"ends": True})
    wanted = render_chat(tokenizer, [USER], ChatOptions(thinking=True, effort="low"))
    assert ask(asked, "x").prompt_tokens == len(wanted)


def test_a_call_that_is_cut_is_wrong(ask, item: MakeItem) -> None:
    outcome = ask(item(messages=[USER], tools=[TOOL], max_new_tokens=12, expect=WANTED), CALL)
    assert (outcome.finish_reason, outcome.is_right) == ("length", False)


def test_an_item_that_the_context_cannot_hold_is_skipped(ask, item: MakeItem, tokenizer: Tokenizer) -> None:
    asked = item(prompt="x", max_new_tokens=10, expect={"answer": "x"})
    needed = 1 + len(tokenizer.encode("x")) + 10
    assert isinstance(ask(asked, "x", context=needed), Answered)
    reason = f"it needs a context of {needed} tokens, this one has {needed - 1}"
    assert ask(asked, "x", context=needed - 1) == Skipped("s", "g", 1, reason)
    passage = item(text="x")
    assert isinstance(ask(passage, "", context=needed - 10 + 1), Scored)
    assert isinstance(ask(passage, "", context=needed - 10), Skipped)


def test_an_item_that_the_vocabulary_cannot_spell_is_skipped(ask, item: MakeItem, monkeypatch) -> None:
    def refuse(*_: object) -> list[int]:
        raise TokenizerError("no marker")

    monkeypatch.setattr("shoal.eval.run.render_chat", refuse)
    assert ask(item(messages=[USER], expect={"ends": True}), "x") == Skipped("s", "g", 1, "no marker")


def test_outcomes_come_one_by_one_in_order(saying: Saying, item: MakeItem, tokenizer: Tokenizer) -> None:
    items = [replace(item(prompt="x", expect={"ends": True}), line=line) for line in (1, 2)]
    engine = saying("a", "b", "c")
    coming = outcomes(engine, tokenizer, [Suite("one", items), Suite("two", items[:1])])
    assert next(coming).line == 1
    assert len(engine.model.replies) == 2
    assert [(outcome.suite, outcome.line) for outcome in coming] == [("one", 2), ("two", 1)]


def test_the_miniature_is_asked_in_chunks_as_at_once(item: MakeItem) -> None:
    suite = Suite(
        "s",
        [
            item(text="Fish swim. " * 6),
            item(prompt="Fish " * 20, max_new_tokens=4, expect={"equals": "x"}),
            item(messages=[USER], thinking=True, max_new_tokens=3, expect={"ends": True}),
        ],
    )
    with assemble(LoadOptions(MINI, threads=1)) as model:
        whole = run(model.engine, model.tokenizer, [suite])
        cut = run(Engine(model.backbone, model.engine.eos_id, 7), model.tokenizer, [suite])
    assert whole == cut
    assert whole.perplexity("s").tokens == 1 + len(model.tokenizer.encode("Fish swim. " * 6))
