"""Batches of whole documents of about one length, in an order that a seed decides."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from shoal.config.schema import ModelConfig
from shoal.engram.hashing import DEAD, empty_history, hash_rows
from shoal.engram.layout import derive_layout
from shoal.engram.token_map import TokenMap

TOKENS = 3840
"""Of every batch, padding included: all of `LENGTHS` divide it, and one compiled graph serves all batches."""
LENGTHS = (32, 64, 96, 128, 160, 192, 256, 320, 384, 480, 640)


def row_length(read: int) -> int:
    """The least of `LENGTHS` that holds so many tokens."""
    return next(length for length in LENGTHS if length >= read)


@dataclass(frozen=True)
class Corpus:
    """Documents end to end: token ids, how much each is worth learning, where documents begin, and their kinds."""

    tokens: NDArray[np.uint16]
    learn: NDArray[np.float16]
    offsets: NDArray[np.int64]
    kinds: NDArray[np.uint8]

    @classmethod
    def load(cls, directory: Path) -> "Corpus":
        names = ("tokens", "learn", "offsets", "kind")
        return cls(*(np.load(directory / f"{name}.npy") for name in names))

    @property
    def count(self) -> int:
        """Documents."""
        return len(self.offsets) - 1


@dataclass(frozen=True)
class Batch:
    """`ids` int64 [rows, length]; of each token its successor and that one's weight; Engram rows [tokens, columns]."""

    ids: Tensor
    targets: Tensor
    weights: Tensor
    rows: list[Tensor]
    documents: NDArray[np.int64]


class Batches:
    """Batches of `TOKENS` tokens of a corpus."""

    def __init__(self, corpus: Corpus, config: ModelConfig, token_map: TokenMap) -> None:
        self.corpus, self.config, self.token_map = corpus, config, token_map
        self.tables = derive_layout(config).layers

    def shuffled(self, first: int, last: int, seed: int) -> Iterator[NDArray[np.int64]]:
        """Endless lists of documents, an epoch after another; what an epoch leaves unfilled goes into the next."""
        generator = np.random.default_rng(seed)
        waiting: dict[int, list[int]] = {length: [] for length in LENGTHS}
        read = np.diff(self.corpus.offsets) - 1
        while True:
            for document in generator.permutation(np.arange(first, last)):
                length = row_length(read[document])
                waiting[length].append(int(document))
                if len(waiting[length]) == TOKENS // length:
                    yield np.array(waiting[length])
                    waiting[length] = []

    def build(self, documents: NDArray[np.int64]) -> Batch:
        """The documents padded to the least of `LENGTHS` that holds them all."""
        corpus = self.corpus
        spans = [slice(corpus.offsets[n], corpus.offsets[n + 1]) for n in documents]
        read = max(span.stop - span.start for span in spans) - 1  # the last is only foretold
        length = row_length(read)
        ids = np.full((len(spans), length + 1), self.config.engram_pad_id, np.int64)
        weights = np.zeros((len(spans), length + 1), np.float32)
        for row, span in enumerate(spans):
            ids[row, : span.stop - span.start] = corpus.tokens[span]
            weights[row, : span.stop - span.start] = corpus.learn[span]
        return Batch(
            torch.from_numpy(ids[:, :-1].copy()),
            torch.from_numpy(ids[:, 1:].copy()),
            torch.from_numpy(weights[:, 1:].copy()),
            self._rows(ids[:, :-1]),
            documents,
        )

    def _rows(self, ids: NDArray[np.int64]) -> list[Tensor]:
        """One hash of all documents: what lies before each is `DEAD`, as before any sequence."""
        history = self.tables[0].history_length
        compressed = np.full((ids.shape[0], history + ids.shape[1]), DEAD, np.int64)
        compressed[:, history:] = self.token_map.compress(ids.ravel()).reshape(ids.shape)
        found = []
        for table in self.tables:
            rows = hash_rows(table, empty_history(history), compressed.ravel(), pad=self.token_map.pad)
            rows = rows.reshape(*compressed.shape, -1)[:, history:]
            found.append(torch.from_numpy(rows.reshape(-1, rows.shape[-1]).copy()))
        return found
