"""A sequence's state in a file, to go on from in another process (spec §5).

A snapshot continues with the bits of a sequence that was never saved, or it is refused.
"""

import hashlib
import json
import os
import tempfile
from contextlib import suppress
from pathlib import Path

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from shoal.config.schema import ModelConfig
from shoal.errors import SnapshotError
from shoal.model.cache import SequenceCache

FORMAT = "shoal-sequence-1"


def config_fingerprint(config: ModelConfig) -> str:
    """SHA-256 of the flat configuration: equal for either layout of one model, not bound to its weights."""
    return hashlib.sha256(json.dumps(config.as_reference_dict(), sort_keys=True).encode()).hexdigest()


def save_snapshot(cache: SequenceCache, config: ModelConfig, path: Path) -> None:
    """Write `cache` to `path`, whole or not at all; a file that is there is replaced.

    Raises SnapshotError when it cannot be written.
    """
    save_state(cache.state(), cache.length, config, path)


def load_snapshot(path: Path, config: ModelConfig, cache: SequenceCache) -> None:
    """Make `cache` the sequence that was saved. When it raises, `cache` is as it was.

    Raises SnapshotError for a file that is absent, truncated or damaged, no snapshot, or of another config.
    """
    cache.load(*load_state(path, config))


def save_state(state: dict[str, Tensor], length: int, config: ModelConfig, path: Path, key: str = "") -> None:
    """The same of what `SequenceCache.state` returned, and of what else the digest shall bind.

    Only who has `key` gets it back.
    """
    metadata = {"format": FORMAT, "config": config_fingerprint(config), "length": str(length), "key": key}
    _replace(path, save(state, metadata | {"digest": _digest(state, str(length), key)}))


def load_state(path: Path, config: ModelConfig, key: str = "") -> tuple[dict[str, Tensor], int]:
    """The tensors that were saved and the length. Raises SnapshotError as `load_snapshot` does."""
    metadata, state = _read(path)
    if metadata.get("format") != FORMAT:
        found = metadata.get("format", "absent")
        raise SnapshotError(f"`{path}` is not a sequence snapshot: format `{found}`, expected `{FORMAT}`")
    if metadata.get("config") != config_fingerprint(config):
        raise SnapshotError(
            f"the snapshot `{path}` is of a model with another configuration than the one loaded",
            hint="restore it with the checkpoint it was saved with.",
        )
    if metadata.get("key", "") != key:
        raise SnapshotError(f"the snapshot `{path}` is of another checkpoint, tokenizer or version than the one loaded")
    length = metadata.get("length", "")
    if metadata.get("digest") != _digest(state, length, key):
        raise SnapshotError(f"the snapshot `{path}` is damaged: its digest is not that of its tensors")
    return state, int(length)


def _read(path: Path) -> tuple[dict[str, str], dict[str, Tensor]]:
    try:
        with safe_open(path, framework="pt") as file:
            return file.metadata() or {}, {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except OSError as error:
        raise SnapshotError(f"cannot read the snapshot `{path}`: {error.strerror or error}") from None
    except SafetensorError as error:
        raise SnapshotError(f"the snapshot `{path}` is damaged or not a snapshot: {error}") from None


def _digest(state: dict[str, Tensor], length: str, key: str) -> str:
    digest = hashlib.sha256((f"{length}\n{key}\n" if key else f"{length}\n").encode())
    for name in sorted(state):
        digest.update(f"{name} {state[name].dtype} {list(state[name].shape)}\n".encode())
        digest.update(state[name].contiguous().numpy().reshape(-1).view("uint8").data)
    return digest.hexdigest()


def _replace(path: Path, content: bytes) -> None:
    try:
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError as error:
        raise SnapshotError(f"cannot write the snapshot `{path}`: {error.strerror}") from None
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).replace(path)
    except OSError as error:
        raise SnapshotError(f"cannot write the snapshot `{path}`: {error.strerror}") from None
    finally:
        with suppress(FileNotFoundError):
            Path(temporary).unlink()
