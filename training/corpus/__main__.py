"""`python -m training.corpus OUT --tokenizer DIRECTORY`: the encoded corpus of every stage, as arrays in OUT/STAGE."""

import argparse
import json
import sys
import time
from pathlib import Path

import numpy as np

from shoal.text.tokenizer import Tokenizer
from training.batches import LENGTHS
from training.corpus import KINDS, documents
from training.corpus.encoding import Encoded, Encoder
from training.stages import STAGES, Stage

MOST_TOKENS = {"long-copy": 640, "tools": 640}
MOST_TOKENS_ELSE = 512
SENTENCES = ("facts", "basics", "stories")  # in a row: what each says is learned wherever the text ends
KIND_NAMES = "kinds.json"  # written last: a corpus that has it is whole


def write_corpus(directory: Path, tokenizer: Tokenizer, stage: Stage, tokens: int, seed: int) -> None:
    """Whole documents until there are `tokens` tokens; one that is too long is left out."""
    encoder = Encoder(tokenizer)
    names = [kind.name for kind in KINDS]
    ids, learn = np.empty(tokens + 1024, np.uint16), np.empty(tokens + 1024, np.float16)
    offsets, kinds = [0], []
    start = reported = time.monotonic()
    for document in documents(seed, stage):
        encoded = encoder.encode(document)
        if document.kind in SENTENCES:
            encoded = fitted(encoded)
        end = offsets[-1] + len(encoded.ids)
        if len(encoded.ids) > MOST_TOKENS.get(document.kind, MOST_TOKENS_ELSE):
            continue
        ids[offsets[-1] : end], learn[offsets[-1] : end] = encoded.ids, encoded.learn
        offsets.append(end)
        kinds.append(names.index(document.kind))
        if time.monotonic() - reported > 2 or end >= tokens:
            reported = time.monotonic()
            rate = end / (reported - start)
            print(f"{end:>12,} of {tokens:,} tokens, {rate:,.0f} tokens/s", file=sys.stderr, flush=True)
        if end >= tokens:
            break
    directory.mkdir(parents=True, exist_ok=True)
    np.save(directory / "tokens.npy", ids[: offsets[-1]])
    np.save(directory / "learn.npy", learn[: offsets[-1]])
    np.save(directory / "offsets.npy", np.array(offsets, np.int64))
    np.save(directory / "kind.npy", np.array(kinds, np.uint8))
    (directory / KIND_NAMES).write_text(json.dumps(names) + "\n")
    report(names, np.diff(offsets), np.array(kinds), learn[: offsets[-1]], np.array(offsets))


def fitted(encoded: Encoded) -> Encoded:
    """Cut to the next shorter row of a batch, where that cuts no more than the next longer one would be padded."""
    read = len(encoded.ids) - 1  # the last is only foretold
    shorter = max((length for length in LENGTHS if length <= read), default=0)
    longer = next((length for length in LENGTHS if length >= read), read)
    if not shorter or read - shorter > longer - read:
        return encoded
    return Encoded(encoded.ids[: shorter + 1], encoded.learn[: shorter + 1])


def report(names: list[str], lengths: np.ndarray, kinds: np.ndarray, learn: np.ndarray, offsets: np.ndarray) -> None:
    """What there is of each kind, on stderr."""
    weights = np.add.reduceat(learn.astype(np.float32), offsets[:-1])
    for index, name in enumerate(names):
        of_kind = lengths[kinds == index]
        if not len(of_kind):
            continue
        print(
            f"{name:<12} {of_kind.sum() / lengths.sum():6.1%} of the tokens, {len(of_kind):>7,} documents, mean "
            f"{of_kind.mean():5.0f}, longest {of_kind.max():>4}, learned {weights[kinds == index].sum():>12,.0f}",
            file=sys.stderr,
        )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m training.corpus", description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--tokenizer", type=Path, required=True, help="directory with tokenizer.json")
    parser.add_argument("--tokens", type=int, help="of each stage, instead of its own number")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    tokenizer = Tokenizer.load(arguments.tokenizer)
    for stage in STAGES:
        directory = arguments.out / stage.name
        if not (directory / KIND_NAMES).exists():
            print(f"{stage.name}:", file=sys.stderr)
            write_corpus(directory, tokenizer, stage, arguments.tokens or stage.tokens, arguments.seed)


if __name__ == "__main__":
    main()
