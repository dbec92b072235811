"""`shoal.Engine`: many prompts at once, offline."""

import gc
import io
import sys
from collections.abc import Iterator

import pytest

import shoal
from shoal.engine.prompt_bar import PromptBar
from shoal.errors import CheckpointError, OptionError

TEXTS = ["The capital of France is", "2 + 2 =", "Once upon a time", "The capital of Japan is"]


@pytest.fixture(scope="module")
def engine() -> Iterator[shoal.Engine]:
    with shoal.Engine(max_running=2, threads=1) as loaded:
        yield loaded


def test_answers_come_in_the_order_of_the_prompts_with_the_bits_of_each_alone(engine: shoal.Engine) -> None:
    prompts = [*TEXTS, [0, 5, 6], [{"role": "user", "content": "Hi"}]]
    answers = engine.generate(prompts, max_new_tokens=6, temperature=1.0, seed=3, logprobs=1)
    for prompt, answer in zip(prompts, answers, strict=True):
        alone = engine.model.generate(prompt, max_new_tokens=6, temperature=1.0, seed=3, logprobs=1)
        assert (answer.text, answer.token_ids, answer.logprobs) == (alone.text, alone.token_ids, alone.logprobs)
        assert (answer.finish_reason, answer.prompt_ids) == (alone.finish_reason, alone.prompt_ids)
    assert engine.model.assembled.pool.num_used == 0


def test_prompts_run_together(engine: shoal.Engine) -> None:
    before = engine.model.assembled.engine.metrics()
    engine.generate(TEXTS[:2], max_new_tokens=5, logit_bias={1: -100.0})
    after = engine.model.assembled.engine.metrics()
    assert after.steps - before.steps == 5


def test_a_prompt_that_cannot_be_answered_says_why_and_stops_no_other(engine: shoal.Engine) -> None:
    good, empty, wrong, long = engine.generate([TEXTS[0], "", [0, 10**6], [5] * 5000], max_new_tokens=2)
    assert good.finish_reason == "length" and good.error is None and "error" not in good.as_dict()
    assert [each.finish_reason for each in (empty, wrong, long)] == ["error"] * 3
    assert empty.error == "the prompt is empty, expected text, token ids or messages"
    assert wrong.error is not None and "outside the vocabulary" in wrong.error
    assert long.as_dict()["error"] == long.error and "5,000 tokens" in str(long.error)


def test_a_failure_in_mid_answer_keeps_what_was_given(engine: shoal.Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    inner = engine.model.assembled.engine
    forward, left = inner.model.forward, [3]

    def failing(*args: object, **more: object) -> object:
        left[0] -= 1
        if not left[0]:
            raise CheckpointError("the shard is gone", hint="mount the disk again.")
        return forward(*args, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(inner.model, "forward", failing)
    (answer,) = engine.generate(TEXTS[:1], max_new_tokens=9, logit_bias={1: -100.0})
    assert (answer.finish_reason, len(answer.token_ids)) == ("error", 2)
    assert answer.error == "the shard is gone; mount the disk again."


def test_an_interrupt_leaves_no_request_behind(engine: shoal.Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    inner = engine.model.assembled.engine

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(inner.model, "forward", interrupted)
        engine.generate(TEXTS, max_new_tokens=2)
    gc.collect()
    assert inner.is_idle and engine.model.assembled.pool.num_used == 0


def test_a_stop_string_ends_its_answer_and_lets_the_next_begin(engine: shoal.Engine) -> None:
    whole = engine.generate(TEXTS[2:3], max_new_tokens=12, logit_bias={1: -100.0})[0].text
    stop = whole[len(whole) // 2 :][:3]
    answers = engine.generate(TEXTS[2:3] * 5, max_new_tokens=12, stop=(stop,), logit_bias={1: -100.0})
    assert {(answer.text, answer.finish_reason) for answer in answers} == {(whole[: whole.index(stop)], "stop")}
    assert engine.model.assembled.engine.is_idle


def test_options_are_checked_before_anything_runs(engine: shoal.Engine) -> None:
    with pytest.raises(OptionError, match="`top_p` is 2"):
        engine.generate(TEXTS, top_p=2)
    assert engine.generate([]) == []


def test_the_bar_is_for_terminals_only(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    with PromptBar(2, shown=True) as bar:
        bar.add_tokens(3)
        bar.end_prompt()
    assert capsys.readouterr() == ("", "")

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    with PromptBar(2, shown=False):
        pass
    assert terminal.getvalue() == ""
    with PromptBar(2, shown=True) as bar:
        bar.add_tokens(3)
        bar.end_prompt()
    assert "1/2" in terminal.getvalue() and "3 tokens" in terminal.getvalue()
