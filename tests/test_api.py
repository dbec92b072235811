import subprocess
import sys
from collections.abc import Iterator

import pytest

import shoal
from miniature import MINI
from shoal.errors import OptionError, PromptError
from shoal.text.chat import render_chat

PROMPT = "Hi"
MESSAGES = [{"role": "user", "content": PROMPT}]


@pytest.fixture(scope="module")
def model() -> Iterator[shoal.Shoal]:
    with shoal.load(MINI) as loaded:
        yield loaded


def test_importing_shoal_imports_nothing_heavy() -> None:
    code = (
        "import shoal, shoal.errors, sys; print(sorted({'torch', 'numpy', 'tokenizers', 'typer'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_every_public_name_is_there() -> None:
    assert set(shoal.__all__) <= set(dir(shoal))
    assert all(callable(getattr(shoal, name)) for name in shoal.__all__)


def test_another_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="`shoal` has no attribute `nothing`"):
        shoal.nothing  # noqa: B018


def test_text_ids_and_pieces_are_one_answer(model: shoal.Shoal) -> None:
    whole = model.generate(PROMPT, max_new_tokens=2)
    assert (len(whole.token_ids), whole.finish_reason) == (2, "length")
    assert whole.text == model.tokenizer.decode(whole.token_ids)
    assert whole.prompt_ids == (0, *model.tokenizer.encode(PROMPT))
    answer = model.stream(list(whole.prompt_ids), max_new_tokens=2)
    assert "".join(answer) == whole.text
    assert answer.completion.token_ids == whole.token_ids


def test_messages_are_rendered_with_one_begin_of_sentence(model: shoal.Shoal) -> None:
    answer = model.stream(MESSAGES, max_new_tokens=1)
    assert list(answer.prompt_ids) == render_chat(model.tokenizer, MESSAGES)
    assert answer.prompt_ids.count(0) == 1


def test_a_drawn_answer_is_the_same_every_time(model: shoal.Shoal) -> None:
    first, second, other = (
        model.generate(PROMPT, max_new_tokens=1, temperature=5.0, top_p=0.9, seed=seed).token_ids for seed in (7, 7, 8)
    )
    assert first == second != other


def test_one_call_loads_and_answers() -> None:
    whole = shoal.generate(PROMPT, MINI, max_new_tokens=1)
    assert len(whole.token_ids) == 1
    assert "".join(shoal.stream(PROMPT, str(MINI), max_new_tokens=1)) == whole.text


@pytest.mark.parametrize("prompt", ["", [], ()])
def test_an_empty_prompt_is_refused(model: shoal.Shoal, prompt: list[int]) -> None:
    with pytest.raises(PromptError, match="the prompt is empty"):
        model.stream(prompt)


def test_a_mixed_list_is_refused_naming_what_is_in_it(model: shoal.Shoal) -> None:
    with pytest.raises(PromptError, match="a list of `int` and `str`, expected token ids or messages"):
        model.stream([0, "a"])


def test_options_are_checked_before_anything_runs(model: shoal.Shoal) -> None:
    with pytest.raises(OptionError, match="`top_p` is 0"):
        model.stream(PROMPT, top_p=0)
    with pytest.raises(TypeError, match="max_tokens"):
        model.stream(PROMPT, max_tokens=3)
