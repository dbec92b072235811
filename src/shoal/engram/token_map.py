"""The compressed token map: tokens that read alike ("The", "the") share one id (spec §6.1).

The map depends on the tokenizer file and on the Unicode tables of the tokenizers library. One key more or
less renumbers every later key and silently rehashes every row: the number of keys is checked on each load.
"""

import hashlib
import os
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from shoal.config.schema import ModelConfig
from shoal.engram.hashing import DEAD, Int64Array
from shoal.errors import EngramError, PromptError, TokenizerError

_MAX_NBYTES = 64 * 2**20
_DIGEST_NBYTES = 32
# A private-use character that no token holds: it carries a lone space past the strip.
_LONE_SPACE = "\ue000"


@dataclass(frozen=True, eq=False)
class TokenMap:
    """`ids` int64 [vocab_size]: the compressed id of each token id, numbered by first appearance.

    `pad` is the compressed id of `engram_pad_id`.
    """

    ids: Int64Array
    pad: int

    @classmethod
    def load(cls, tokenizer_file: Path, config: ModelConfig, cache: Path | None) -> Self:
        """The map of `tokenizer_file`, checked against `config`; kept in the directory `cache` unless None.

        Raises `TokenizerError` for an unreadable file, `EngramError` for a map of another size.
        """
        import tokenizers

        content = _read(tokenizer_file)
        entry = None
        if cache is not None:
            entry = cache / f"token-map-{hashlib.sha256(content).hexdigest()}-{tokenizers.__version__}.bin"
        ids = _read_entry(entry, config.vocab_size) if entry else None
        if ids is None:
            ids = build_ids(content, tokenizer_file, config.vocab_size)
            if entry:
                _write_entry(entry, ids)
        _check_size(ids, config.engram_compressed_vocab_size, tokenizer_file)
        if not 0 <= config.engram_pad_id < len(ids):
            raise EngramError(f"`engram_pad_id` is {config.engram_pad_id}, expected an id of 0 .. {len(ids) - 1}")
        return cls(ids, int(ids[config.engram_pad_id]))

    def compress(self, token_ids: Sequence[int] | Int64Array, dead: NDArray[np.bool_] | None = None) -> Int64Array:
        """The compressed ids of `token_ids`: int64 [tokens], `DEAD` where the mask `dead` [tokens] is set.

        Raises `PromptError` for an id outside the vocabulary.
        """
        ids = np.asarray(token_ids, dtype=np.int64)
        outside = (ids < 0) | (ids >= len(self.ids))
        if outside.any():
            raise PromptError(f"token id {ids[outside][0]} is outside the vocabulary of {len(self.ids)} ids")
        compressed = self.ids[ids]
        return compressed if dead is None else np.where(dead, np.int64(DEAD), compressed)


def build_ids(content: bytes, tokenizer_file: Path, vocab_size: int) -> Int64Array:
    """Build the map int64 [vocab_size] from the bytes of a `tokenizer.json` (about 2 s for 129,280 ids)."""
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_buffer(content)
    except ValueError as error:
        raise TokenizerError(f"`{tokenizer_file}` is not a tokenizer: {error}") from None
    if tokenizer.get_vocab_size() != vocab_size:
        raise EngramError(
            f"`{tokenizer_file}` has {tokenizer.get_vocab_size()} ids, expected `vocab_size` {vocab_size}"
        )
    texts = tokenizer.decode_batch([[token_id] for token_id in range(vocab_size)], skip_special_tokens=False)
    normalize = _normalizer()
    first_seen: dict[str, int] = {}
    ids = np.empty(vocab_size, dtype=np.int64)
    for token_id, text in enumerate(texts):
        # Part of a character decodes to U+FFFD alone; such tokens are told apart by their raw spelling.
        key = tokenizer.id_to_token(token_id) if "\ufffd" in text else normalize(text) or text
        ids[token_id] = first_seen.setdefault(str(key), len(first_seen))
    return ids


def _normalizer() -> Callable[[str], str]:
    """Spec §6.1's normalisation, from the library the release built its map with."""
    from tokenizers import Regex, normalizers

    sequence = normalizers.Sequence(
        [
            normalizers.NFKC(),
            normalizers.NFD(),
            normalizers.StripAccents(),
            normalizers.Lowercase(),
            normalizers.Replace(Regex(r"[ \t\r\n]+"), " "),
            normalizers.Replace(Regex(r"^ $"), _LONE_SPACE),
            normalizers.Strip(),
            normalizers.Replace(_LONE_SPACE, " "),
        ]
    )
    normalize: Callable[[str], str] = sequence.normalize_str
    return normalize


def _check_size(ids: Int64Array, wanted: int, tokenizer_file: Path) -> None:
    found = int(ids.max()) + 1
    if found != wanted:
        raise EngramError(
            f"the compressed token map of `{tokenizer_file}` has {found} keys, "
            f"expected `engram_compressed_vocab_size` {wanted}",
            hint="another tokenizer or tokenizers version rehashes every row; use the model's own "
            "tokenizer.json and the tokenizers version in constraints.txt.",
        )


def _read(tokenizer_file: Path) -> bytes:
    try:
        nbytes = tokenizer_file.stat().st_size
        if nbytes > _MAX_NBYTES:
            raise TokenizerError(f"`{tokenizer_file}` is {nbytes} bytes, expected at most {_MAX_NBYTES}")
        return tokenizer_file.read_bytes()
    except OSError as error:
        raise TokenizerError(f"cannot read the tokenizer `{tokenizer_file}`: {error.strerror}") from None


def _read_entry(entry: Path, vocab_size: int) -> Int64Array | None:
    """The cached map, or None where it is absent or not what was written: then it is rebuilt."""
    try:
        content = entry.read_bytes()
    except OSError:
        return None
    digest, payload = content[:_DIGEST_NBYTES], content[_DIGEST_NBYTES:]
    if len(payload) != 8 * vocab_size or hashlib.sha256(payload).digest() != digest:
        return None
    return np.frombuffer(payload, dtype="<i8").astype(np.int64)


def _write_entry(entry: Path, ids: Int64Array) -> None:
    """Write whole or not at all. A cache that cannot be written costs two seconds, never the run."""
    payload = ids.astype("<i8").tobytes()
    with suppress(OSError):
        entry.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=entry.parent, prefix=entry.name)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(hashlib.sha256(payload).digest() + payload)
            Path(temporary).replace(entry)
        except OSError:
            Path(temporary).unlink()
            raise
