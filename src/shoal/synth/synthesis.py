"""Makes a checkpoint directory, or completes the one it began. The index comes last: without it nothing is finished."""

import json
import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from pathlib import Path

from shoal.checkpoint.index import INDEX_NAME
from shoal.checkpoint.shard_layout import ShardLayout, header_bytes, lay_out
from shoal.config.schema import ModelConfig
from shoal.errors import OptionError, TokenizerError
from shoal.synth.config_files import FLAT_NAME, config_files, read_source
from shoal.synth.manifest import MANIFEST_NAME, Manifest, check_directory
from shoal.synth.presets import MINIATURE, Preset, Reduction
from shoal.synth.replacement import ensure, partial_path, writing
from shoal.synth.resharding import reshard
from shoal.synth.shard_writer import ShardWriter

GIB = 2**30
TOKENIZER_NAMES = ("tokenizer.json", "tokenizer_config.json")
LARGEST_SEED = 2**64 - 1

TotalProgress = Callable[[int, int], None]
"""Takes the bytes that are there and the bytes that will be."""


@dataclass(frozen=True)
class SynthOptions:
    """What to make and where. Raises `OptionError` for a value out of range.

    `config` None is the preset's own: the release's, for the miniature the miniature's. `shards` None is the number of
    the released layout. `tokenizer` is a `tokenizer.json` or a directory that holds one; None copies the miniature's
    for the preset miniature without another config, else none.
    """

    out: Path
    reduction: Reduction
    config: Path | None = None
    seed: int = 0
    shards: int | None = None
    tokenizer: Path | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.seed <= LARGEST_SEED:
            raise OptionError(f"`seed` is {self.seed}, expected 0 to 2^64-1")

    @property
    def tokenizer_source(self) -> Path | None:
        """Where the tokenizer comes from, if anywhere."""
        if self.tokenizer is None and self.config is None and self.reduction.preset is Preset.MINIATURE:
            return MINIATURE
        return self.tokenizer


@dataclass(frozen=True)
class Synthesis:
    """A checkpoint that is decided and not yet written.

    `kept_layers` are the layers of the given config that it has; `files` are the small ones, the index not among them.
    """

    out: Path
    config: ModelConfig
    kept_layers: tuple[int, ...]
    files: dict[str, bytes]
    shards: Sequence[ShardLayout]
    manifest: Manifest

    @cached_property
    def headers(self) -> dict[str, bytes]:
        """What each shard begins with, by file name."""
        return {shard.file_name: header_bytes(shard) for shard in self.shards}

    @property
    def nbytes(self) -> int:
        """Apparent bytes of all shards."""
        return sum(map(len, self.headers.values())) + sum(shard.payload_nbytes for shard in self.shards)

    @property
    def has_tokenizer(self) -> bool:
        """Whether text can be made with it."""
        return TOKENIZER_NAMES[0] in self.files or (self.out / TOKENIZER_NAMES[0]).is_file()

    def write(self, progress: TotalProgress | None = None) -> int:
        """Write what is missing and return the bytes of the shards that were.

        Raises `OptionError`, before anything is changed, when the directory holds something else or the disk has too
        little space, and later when the disk fills up all the same.
        """
        check_directory(self.out, self.manifest)
        writer, headers, index = self._writer(), self.headers, index_bytes(self.shards)
        sizes = {shard.file_name: writer.nbytes_to_write(shard, headers[shard.file_name]) for shard in self.shards}
        missing = [shard for shard in self.shards if not writer.is_complete(shard, headers[shard.file_name])]
        wanted = sum(sizes[shard.file_name] for shard in missing)
        self._discard_partials()
        _check_space(self.out, wanted + len(index) + sum(map(len, self.files.values())))
        self._begin(incomplete=bool(missing))
        count = _counting(progress, sum(sizes.values()) - wanted, sum(sizes.values()))
        for shard in missing:
            writer.write(shard, headers[shard.file_name], count)
        ensure(self.out / INDEX_NAME, index)
        return wanted

    def _writer(self) -> ShardWriter:
        if self.manifest.seed is None:
            return ShardWriter(self.out, None)
        from shoal.synth.payload import Payload  # holes need neither numpy nor torch

        return ShardWriter(self.out, Payload(self.manifest.seed))

    def _discard_partials(self) -> None:
        for name in (*self.files, MANIFEST_NAME, INDEX_NAME, *(shard.file_name for shard in self.shards)):
            partial = partial_path(self.out / name)
            with writing(partial):
                partial.unlink(missing_ok=True)

    def _begin(self, incomplete: bool) -> None:
        """The manifest comes first: from then on the directory is known as this one's."""
        with writing(self.out):
            (self.out / FLAT_NAME).parent.mkdir(parents=True, exist_ok=True)
            if incomplete:
                (self.out / INDEX_NAME).unlink(missing_ok=True)
        ensure(self.out / MANIFEST_NAME, self.manifest.encode())
        for name, content in self.files.items():
            ensure(self.out / name, content)


def decide(options: SynthOptions) -> Synthesis:
    """What these options mean; nothing is written. Raises `ShoalError`s for a config or tokenizer that does not do."""
    preset = options.reduction.preset
    source = read_source(options.config or preset.source)
    config, kept = options.reduction.apply(source.config)
    shards = lay_out(config)
    if options.shards is not None:
        shards = reshard(shards, options.shards)
    files = config_files(config, source)
    manifest = Manifest(
        preset=preset.value,
        seed=None if preset is Preset.SPARSE else options.seed,
        shards=len(shards),
        config_sha256=sha256(b"".join(files.values())).hexdigest(),
    )
    return Synthesis(options.out, config, kept, files | _tokenizer_files(options), shards, manifest)


def index_bytes(shards: Iterable[ShardLayout]) -> bytes:
    """`model.safetensors.index.json` (spec §2): the payload's size, and the file of every tensor."""
    placed = [(tensor, shard.file_name) for shard in shards for tensor in shard.tensors]
    content = {
        "metadata": {"total_size": sum(tensor.spec.nbytes for tensor, _ in placed)},
        "weight_map": {tensor.spec.name: file_name for tensor, file_name in placed},
    }
    return (json.dumps(content, indent=2) + "\n").encode()


def _tokenizer_files(options: SynthOptions) -> dict[str, bytes]:
    source = options.tokenizer_source
    if source is None:
        return {}
    main = source / TOKENIZER_NAMES[0] if source.is_dir() else source
    beside = main.with_name(TOKENIZER_NAMES[1])
    try:
        files = {TOKENIZER_NAMES[0]: main.read_bytes()}
        return files | ({TOKENIZER_NAMES[1]: beside.read_bytes()} if beside.is_file() else {})
    except OSError as problem:
        raise TokenizerError(f"cannot read the tokenizer `{main}`: {problem.strerror}") from problem


def _check_space(out: Path, wanted: int) -> None:
    place = next(path for path in (out.absolute(), *out.absolute().parents) if path.exists())
    free = shutil.disk_usage(place).free
    if wanted > free:
        raise OptionError(
            f"`{out}` needs {wanted / GIB:.2f} GiB more, and its disk has {free / GIB:.2f} GiB free",
            hint="choose another disk, or fewer experts or layers",
        )


def _counting(progress: TotalProgress | None, done: int, total: int) -> Callable[[int], None]:
    def count(nbytes: int) -> None:
        nonlocal done
        done += nbytes
        if progress is not None:
            progress(done, total)

    return count
