"""`python -m training.items OUT --tokenizer DIRECTORY`: the built-in items, one file for each suite."""

import argparse
import sys
from collections.abc import Iterable
from pathlib import Path
from random import Random

from shoal.text.tokenizer import Tokenizer
from training.items.arithmetic import arithmetic_items
from training.items.chat import chat_items
from training.items.copying import copying_items
from training.items.facts import fact_items
from training.items.item import Item, write_items
from training.items.schemas import schema_items
from training.items.text import text_items
from training.items.tools import tool_items

# No corpus is trained on with this seed.
SEED = 20_261_130


def suites(tokenizer: Tokenizer, seed: int = SEED) -> dict[str, Iterable[Item]]:
    """The items of every suite; the tokenizer measures how far back a needle lies."""
    return {
        "facts": fact_items(Random(seed)),
        "chat": chat_items(Random(seed + 1)),
        "tools": tool_items(Random(seed + 2)),
        "json": schema_items(Random(seed + 3)),
        "arithmetic": arithmetic_items(Random(seed + 4)),
        "copying": copying_items(Random(seed + 5), tokenizer),
        "text": text_items(seed + 6, tokenizer),
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m training.items", description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--tokenizer", type=Path, required=True, help="directory with tokenizer.json")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    for suite, items in suites(Tokenizer.load(arguments.tokenizer)).items():
        path = arguments.out / f"{suite}.jsonl"
        count = write_items(path, items)
        print(f"{path}: {count} items, {path.stat().st_size:,} bytes", file=sys.stderr)


if __name__ == "__main__":
    main()
