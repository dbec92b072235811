"""`python -m training.tokenizer OUT`: the miniature's byte-level BPE, trained on the corpus.

The release's pre-tokenizer but for digits, which stand alone: arithmetic is learned digit by digit. Ids 0 to 2
are BOS, EOS and padding; the other markers are the last ids.
"""

import argparse
import json
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import AddedToken, Regex, decoders, models, pre_tokenizers, trainers

from shoal.text.chat import render_text
from shoal.text.tokenizer import BOS, EOS, IMAGE
from training.corpus import Chat, Document, documents
from training.corpus.relations import RELATIONS, STATEMENT
from training.corpus.words import CITIES, COLOURS, DAYS, NAMES, WORDS

VOCAB_SIZE = 1536
PAD = "<｜▁pad▁｜>"
_FIRST = (BOS, EOS, PAD)
_SPECIAL = ("<｜User｜>", "<｜Assistant｜>", "<｜System｜>", "<｜latest_reminder｜>", "<｜action｜>", "<｜query｜>",
            "<｜authority｜>", "<｜domain｜>", "<｜title｜>", "<｜read_url｜>", IMAGE)  # fmt: skip
_NOT_SPECIAL = ("<think>", "</think>", "｜DSML｜")
_PLACE_HOLDERS = tuple(f"<｜place▁holder▁no▁{index}｜>" for index in range(10))
_LAST = (*_SPECIAL, *_NOT_SPECIAL, *_PLACE_HOLDERS)

_DIGIT = r"\p{N}"
_HAN = "[一-龥\u3040-ゟ゠-ヿ]+"
_WORD = (
    r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"""
    r"""| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"""
)

_DOCUMENTS = 24_000
# Each fact this often besides, so that answers are few tokens; the rest of the sample is as the corpus is.
_FACT_REPEATS = 12
# Each word to copy this often besides, at the start of a value and within a sentence: one token, or two.
_WORD_REPEATS = 250
_MARKERS = re.compile("|".join(re.escape(marker) for marker in (*_FIRST, *_LAST)))


def train(seed: int = 0) -> tokenizers.Tokenizer:
    """The tokenizer of `VOCAB_SIZE` ids; the same seed gives the same."""
    plain = tokenizers.Tokenizer(models.BPE())
    plain.pre_tokenizer = _pre_tokenizer()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB_SIZE - len(_LAST),
        special_tokens=list(_FIRST),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    plain.train_from_iterator(sample(seed), trainer)
    return _with_markers(plain)


def sample(seed: int) -> Iterator[str]:
    """What the merges are counted on: documents without their markers, and every fact once more."""
    for document in islice(documents(seed), _DOCUMENTS):
        yield from (segment for segment in _MARKERS.split(_rendered(document)) if segment)
    for relation in RELATIONS:
        for subject, answer in relation.facts.items():
            yield from [relation.fill(STATEMENT, subject, answer)] * _FACT_REPEATS
    for word in (*WORDS, *NAMES, *CITIES, *COLOURS, *DAYS):
        yield from [f"{word} {word}"] * _WORD_REPEATS


def _rendered(document: Document) -> str:
    part = document.parts[0]
    return render_text(part.messages, part.options) if isinstance(part, Chat) else document.text()


def _pre_tokenizer() -> pre_tokenizers.PreTokenizer:
    splits = [pre_tokenizers.Split(Regex(pattern), "isolated") for pattern in (_DIGIT, _HAN, _WORD)]
    return pre_tokenizers.Sequence([*splits, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def _with_markers(plain: tokenizers.Tokenizer) -> tokenizers.Tokenizer:
    # Built anew: the trained model's own vocabulary must not hold the markers that follow it.
    trained = tokenizers.Tokenizer.from_str(plain.to_str())
    trained.decoder = decoders.ByteLevel()
    trained.add_special_tokens([_marker(content) for content in (*_FIRST, *_SPECIAL)])
    trained.add_tokens([_marker(content) for content in _NOT_SPECIAL])
    trained.add_special_tokens([_marker(content) for content in _PLACE_HOLDERS])
    found = trained.get_vocab_size()
    assert found == VOCAB_SIZE, f"{found} ids, expected {VOCAB_SIZE}: the sample has too few merges"
    return trained


def _marker(content: str) -> AddedToken:
    return AddedToken(content, normalized=False, special=content not in _NOT_SPECIAL)


def tokenizer_config() -> dict[str, Any]:
    """`tokenizer_config.json` as the release has it."""
    return {
        "add_bos_token": False,
        "add_eos_token": False,
        "bos_token": _config_marker(BOS),
        "clean_up_tokenization_spaces": False,
        "eos_token": _config_marker(EOS),
        "legacy": True,
        "model_max_length": 1048576,
        "pad_token": _config_marker(PAD),
        "sp_model_kwargs": {},
        "unk_token": None,
        "tokenizer_class": "PreTrainedTokenizerFast",
    }


def _config_marker(content: str) -> dict[str, Any]:
    flags = {"lstrip": False, "normalized": True, "rstrip": False, "single_word": False}
    return {"__type": "AddedToken", "content": content, **flags}


def write_tokenizer(directory: Path, seed: int = 0) -> None:
    """Train, and write both files into `directory`."""
    directory.mkdir(parents=True, exist_ok=True)
    train(seed).save(str(directory / "tokenizer.json"))
    (directory / "tokenizer_config.json").write_text(
        json.dumps(tokenizer_config(), ensure_ascii=False, indent=2) + "\n", encoding="utf-8"
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m training.tokenizer", description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    write_tokenizer(arguments.out, arguments.seed)


if __name__ == "__main__":
    main()
