"""What two processes must have in common for one to go on from what the other computed.

A wrong hit is a wrong answer that nobody sees, a wrong miss costs a prefill: in doubt the keys differ.
"""

import hashlib
import os
from collections import defaultdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from shoal.checkpoint.header import TensorEntry
from shoal.checkpoint.json_object import quoted
from shoal.checkpoint.shards import Checkpoint
from shoal.config.schema import ModelConfig
from shoal.errors import CheckpointError, TokenizerError
from shoal.model.snapshot import config_fingerprint

ARITHMETIC_VERSION = 1
"""To be raised with every change that gives any token's state other bits, or stores the same bits otherwise."""

SAMPLES, SAMPLE_NBYTES = 8, 4096


def prefix_key(checkpoint: Checkpoint, config: ModelConfig, tokenizer_file: Path, arithmetic: str) -> str:
    """SHA-256 of checkpoint, config, tokenizer file, engine version, `arithmetic` and its version.

    The tokenizer counts because Engram's rows go by it. Instruction sets, threads and chunks do not: they give the
    same bits. Raises CheckpointError, TokenizerError for what cannot be read.
    """
    try:
        tokenizer = hashlib.sha256(tokenizer_file.read_bytes()).hexdigest()
    except OSError as problem:
        raise TokenizerError(f"{quoted(tokenizer_file)} cannot be read: {problem.strerror}") from problem
    parts = (
        f"version {engine_version()} {arithmetic} {ARITHMETIC_VERSION}",
        f"config {config_fingerprint(config)}",
        f"tokenizer {tokenizer}",
        f"checkpoint {checkpoint_fingerprint(checkpoint)}",
    )
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def engine_version() -> str:
    """Of the installed package; `source` where it runs without being installed."""
    try:
        return version("shoal")
    except PackageNotFoundError:
        return "source"


def checkpoint_fingerprint(checkpoint: Checkpoint) -> str:
    """SHA-256 of every shard's name, size, time and tensors (dtype, shape, place), and of samples of its bytes.

    To read all of 475 GiB would take longer than what it saves. The tensors' places tell models apart, the samples
    two trainings of one model, the time an edit of any other byte; where a copy did not keep the time, the key is
    another one too. Where the shards lie does not count.
    """
    shards: defaultdict[Path, list[TensorEntry]] = defaultdict(list)
    for name in checkpoint.names():
        entry = checkpoint.entry(name)
        shards[entry.path].append(entry)
    digest = hashlib.sha256()
    for path in sorted(shards, key=lambda path: path.name):
        entries = sorted(shards[path], key=lambda entry: entry.start)
        checkpoint.check(entries[0].name)
        for entry in entries:
            digest.update(f"{entry.name} {entry.dtype} {entry.shape} {entry.start} {entry.end}\n".encode())
        _add_file(digest, path)
    return digest.hexdigest()


def _add_file(digest: "hashlib._Hash", path: Path) -> None:
    try:
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            digest.update(f"{path.name} {status.st_size} {status.st_mtime_ns}\n".encode())
            for sample in range(SAMPLES):
                offset = max(0, status.st_size - SAMPLE_NBYTES) * sample // (SAMPLES - 1)
                digest.update(os.pread(file.fileno(), SAMPLE_NBYTES, offset))
    except OSError as problem:
        raise CheckpointError(f"{quoted(path)} cannot be read: {problem.strerror}") from problem
