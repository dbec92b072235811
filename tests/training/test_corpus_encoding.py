"""Documents as ids: aligned weights, markers as single ids, lengths within their bounds."""

import json
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from shoal.assemble import MINIATURE
from shoal.text.chat import ChatOptions, render_chat
from shoal.text.tokenizer import Tokenizer
from training.batches import LENGTHS
from training.corpus import Chat, Document, Text, documents
from training.corpus.__main__ import SENTENCES, fitted, write_corpus
from training.corpus.document import assistant, user
from training.corpus.encoding import PROMPT, Encoded, Encoder
from training.corpus.tool_table import TOOLS
from training.stages import FACTS


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.load(MINIATURE)


@pytest.fixture(scope="module")
def encoder(tokenizer: Tokenizer) -> Encoder:
    return Encoder(tokenizer)


def learned(encoder: Encoder, document: Document, weight: float) -> str:
    """The text of the ids that weigh `weight`, EOS and all."""
    encoded = encoder.encode(document)
    chosen = [token for token, learn in zip(encoded.ids, encoded.learn, strict=True) if learn == weight]
    return encoder.tokenizer.decode(chosen)


def test_every_id_has_a_weight_and_the_ends_are_marked(encoder: Encoder) -> None:
    for document in islice(documents(1), 1500):
        encoded = encoder.encode(document)
        assert len(encoded.ids) == len(encoded.learn)
        assert (encoded.ids[0], encoded.learn[0]) == (encoder.tokenizer.bos_id, 0.0)
        assert (encoded.ids[-1], encoded.learn[-1]) == (encoder.tokenizer.eos_id, 1.0)
        assert encoded.ids.count(encoder.tokenizer.bos_id) == 1
        assert set(encoded.learn) <= {0.0, 0.1, 0.2, 1.0}


def test_raw_text_is_the_raw_completion_with_the_weights_of_its_parts(encoder: Encoder) -> None:
    document = Document("copying", (Text("Copy:"), Text(" k f", 0.0), Text(" -> k f é\n")))
    ids = encoder.encode(document).ids
    assert ids[:-1] == encoder.tokenizer.encode_prompt("Copy: k f -> k f é\n")
    assert learned(encoder, document, 0.0) == "<｜begin▁of▁sentence｜> k f"
    assert learned(encoder, document, 1.0) == "Copy: -> k f é\n<｜end▁of▁sentence｜>"


def test_a_chat_learns_what_the_assistant_says_in_every_turn(encoder: Encoder) -> None:
    system = {"role": "system", "content": "Be brief."}
    document = Document("facts-chat", (Chat((system, user("a?"), assistant("b."), user("c?"), assistant("d."))),))
    assert learned(encoder, document, 1.0) == "b.<｜end▁of▁sentence｜>d.<｜end▁of▁sentence｜>"
    assert (
        learned(encoder, document, PROMPT)
        == "<｜System｜>Be brief.<｜User｜>a?<｜Assistant｜><｜User｜>c?<｜Assistant｜>"
    )


def test_a_chat_learns_reasoning_where_the_prompt_would_keep_it(encoder: Encoder) -> None:
    turns = (user("a?"), assistant("b.", "why b"), user("c?"), assistant("d.", "why d"))
    plain = Document("facts-chat", (Chat(turns, ChatOptions(thinking=True)),))
    assert learned(encoder, plain, 1.0) == "b.<｜end▁of▁sentence｜>why d</think>d.<｜end▁of▁sentence｜>"
    tools = Document("tools", (Chat(turns, ChatOptions(thinking=True, tools=[TOOLS[0].schema()])),))
    assert learned(encoder, tools, 1.0) == ("why b</think>b.<｜end▁of▁sentence｜>why d</think>d.<｜end▁of▁sentence｜>")


def test_a_chat_begins_as_the_engine_would_render_it(encoder: Encoder) -> None:
    for document in islice(documents(2), 600):
        part = document.parts[0]
        if isinstance(part, Chat) and not part.bare:
            prompt = render_chat(encoder.tokenizer, part.messages[:-1], part.options)
            assert encoder.encode(document).ids[: len(prompt)] == prompt


def test_calls_are_learned_and_results_are_not(encoder: Encoder) -> None:
    call = {"id": "1", "type": "function", "function": {"name": "get_time", "arguments": '{"city": "Rome"}'}}
    result = {"role": "tool", "tool_call_id": "1", "content": "12"}
    turns = (user("Time?"), {**assistant(""), "tool_calls": [call]}, result, assistant("It is 12."))
    document = Document("tools", (Chat(turns, ChatOptions(tools=[TOOLS[1].schema()])),))
    assert '<｜DSML｜ invoke name="get_time">' in learned(encoder, document, 1.0)
    assert learned(encoder, document, 1.0).endswith("It is 12.<｜end▁of▁sentence｜>")
    assert "<tool_result>12</tool_result>" in learned(encoder, document, PROMPT)


def test_a_bare_chat_keeps_the_schemas_and_drops_the_constant_text(encoder: Encoder) -> None:
    options = ChatOptions(tools=[tool.schema() for tool in TOOLS[:2]])
    turns = (user("Hello!"), assistant("Hello!"))
    whole = encoder.encode(Document("tools", (Chat(turns, options),)))
    bare = encoder.encode(Document("tools", (Chat(turns, options, bare=True),)))
    dropped = len(whole.ids) - len(bare.ids)
    assert dropped > 100
    assert bare.ids == whole.ids[:2] + whole.ids[2 + dropped :]
    assert encoder.tokenizer.decode(bare.ids[2:]).startswith('{"name": "get_weather"')


def test_the_written_arrays_fit_each_other(tmp_path: Path, tokenizer: Tokenizer) -> None:
    write_corpus(tmp_path, tokenizer, FACTS, 20_000, seed=5)
    tokens, learn, offsets, kind = (np.load(tmp_path / f"{n}.npy") for n in ("tokens", "learn", "offsets", "kind"))
    assert (tokens.dtype, learn.dtype, offsets.dtype, kind.dtype) == (np.uint16, np.float16, np.int64, np.uint8)
    assert len(tokens) == len(learn) == offsets[-1] >= 20_000
    assert len(kind) == len(offsets) - 1
    assert (tokens[offsets[:-1]] == tokenizer.bos_id).all()
    assert (tokens[offsets[1:] - 1] == tokenizer.eos_id).mean() > 0.8
    assert np.diff(offsets).max() <= 640


@pytest.mark.parametrize(
    ("read", "kept"),
    [(1, 1), (31, 31), (32, 32), (33, 32), (48, 32), (49, 49), (64, 64), (80, 64), (250, 250), (288, 256)],
)
def test_sentences_are_cut_to_a_row_unless_padding_is_less(read: int, kept: int) -> None:
    """Rows read all ids but the last."""
    whole = Encoded(list(range(read + 1)), [0.5] * (read + 1))
    found = fitted(whole)
    assert found.ids == whole.ids[: kept + 1] and found.learn == whole.learn[: kept + 1]


def test_only_sentences_in_a_row_are_cut(tmp_path: Path, tokenizer: Tokenizer) -> None:
    write_corpus(tmp_path, tokenizer, FACTS, 60_000, seed=5)
    tokens, offsets, kinds = (np.load(tmp_path / f"{name}.npy") for name in ("tokens", "offsets", "kind"))
    names = json.loads((tmp_path / "kinds.json").read_text())
    ends = tokens[offsets[1:] - 1] == tokenizer.eos_id
    cut = {names[kind] for kind in kinds[~ends]}
    assert cut and cut <= set(SENTENCES)
    assert set(np.diff(offsets)[~ends] - 1) <= set(LENGTHS)
