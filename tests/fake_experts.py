"""Experts whose every byte says who they are, and a look at each that comes out of a store."""

import random
import threading
import time
from collections.abc import Sequence

import torch
from torch import Tensor

from shoal.errors import FileChangedError
from shoal.ops.mixture import ExpertWeights
from shoal.ops.weights import Float4Weight
from shoal.weights.cached_experts import CachedExperts
from shoal.weights.expert_key import Key
from threaded_reader import ThreadedReader

LAYERS, EXPERTS = 3, 8


class FakeSource:
    """Reads take a random while; those of `failing` fail. With a `gate` they wait until it is set."""

    slot_nbytes = 4096

    def __init__(self, seed: int = 0, failing: Sequence[Key] = (), slow: float = 0.0005) -> None:
        self.keys = [(layer_id, expert_id) for layer_id in range(LAYERS) for expert_id in range(EXPERTS)]
        self.failing, self.slow, self.random = set(failing), slow, random.Random(seed)
        self.reads = list[Key]()
        self.gate: threading.Event | None = None

    def nbytes(self, key: Key) -> int:
        return self.slot_nbytes

    def disk(self, key: Key) -> int:
        return 0

    def reader(self, num_threads: int) -> ThreadedReader:
        return ThreadedReader(self, num_threads)

    def read(self, key: Key, room: Tensor) -> ExpertWeights:
        self.reads.append(key)
        # What is half there must never be seen.
        room.fill_(255)
        time.sleep(self.random.random() * self.slow)
        if self.gate is not None:
            self.gate.wait(60)
        if key in self.failing:
            raise FileChangedError(f"{key} became unreadable")
        room.fill_(mark(key))
        matrix = Float4Weight(room[:512].view(32, 16), room[512:544].view(32, 1))
        return ExpertWeights(matrix, matrix, matrix)

    def close(self) -> None:
        pass


def mark(key: Key) -> int:
    return 1 + key[0] * EXPERTS + key[1]


def is_whole(key: Key, weights: ExpertWeights) -> bool:
    return all(torch.equal(part, torch.full_like(part, mark(key))) for part in (weights.w1.codes, weights.w3.scales))


def ask(experts: CachedExperts, layer_id: int, expert_ids: Sequence[int]) -> list[list[int]]:
    """The groups, each looked at when it came and once more before the next one is taken."""
    groups = []
    for group in experts.arrivals(layer_id, expert_ids):
        for _ in range(2):
            assert all(is_whole((layer_id, expert_id), weights) for expert_id, weights in group)
            time.sleep(0.0002)
        groups.append([expert_id for expert_id, _ in group])
    return groups
