"""What a synthetic checkpoint was made from: it tells one's own unfinished directory from anybody else's."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from shoal.errors import OptionError

MANIFEST_NAME = "synth.json"
_PAYLOAD_VERSION = 1
"""Goes up when the same seed gives other bytes."""


@dataclass(frozen=True)
class Manifest:
    """Everything that decides a byte. `seed` is None where nothing is random."""

    preset: str
    seed: int | None
    shards: int
    config_sha256: str
    payload_version: int = _PAYLOAD_VERSION

    def encode(self) -> bytes:
        """The content of the file."""
        return (json.dumps({"made_by": "shoal synth", **asdict(self)}, indent=2) + "\n").encode()


def check_directory(out: Path, manifest: Manifest) -> None:
    """Raises `OptionError` unless `out` can be created, is empty, or was begun from the same `manifest`."""
    if not out.is_dir():
        if out.exists() or out.is_symlink():
            raise OptionError(f"`{out}` is not a directory, expected one to create or complete")
        return
    try:
        is_empty, file = next(out.iterdir(), None) is None, out / MANIFEST_NAME
        found = file.read_bytes() if file.is_file() else None
    except OSError as problem:
        raise OptionError(f"cannot read `{out}`: {problem.strerror}") from problem
    if is_empty or found == manifest.encode():
        return
    if found is None:
        raise OptionError(
            f"`{out}` holds something else: no `{MANIFEST_NAME}`, expected an empty directory or one that was begun",
            hint="nothing was changed; choose another directory",
        )
    raise OptionError(
        f"`{out}` was made from other options: {_difference(found, manifest)}",
        hint="nothing was changed; choose another directory, or remove this one",
    )


def _difference(found: bytes, manifest: Manifest) -> str:
    try:
        content = json.loads(found)
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict):
        return f"its `{MANIFEST_NAME}` is not what was written"
    pairs = [(name, content.get(name), value) for name, value in asdict(manifest).items()]
    differing = [
        f"`{name}` is {json.dumps(is_)}, expected {json.dumps(value)}" for name, is_, value in pairs if is_ != value
    ]
    return "; ".join(differing) or f"its `{MANIFEST_NAME}` is not what was written"
