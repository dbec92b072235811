"""The release's tokenizer: plain text to ids, ids to text, and markers by their spelling.

Text never becomes a marker: `encode` leaves the added vocabulary out, so a user who types `</think>` gets the
ids of those characters (spec, prompt.md §1). Marker ids differ between checkpoints: look them up by spelling.
"""

import os
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Self

from shoal.errors import PromptError, TokenizerError

if TYPE_CHECKING:
    import tokenizers

BOS = "<｜begin▁of▁sentence｜>"
EOS = "<｜end▁of▁sentence｜>"
IMAGE = "<｜deepseek_image｜>"

MAX_NBYTES = 64 * 2**20

# Where every checkpoint of this model keeps them; all other markers only have to exist.
_FIXED_IDS = {BOS: 0, EOS: 1}
_REQUIRED = (BOS, EOS, "<｜System｜>", "<｜User｜>", "<｜Assistant｜>", "<think>", "</think>", "｜DSML｜")


class Tokenizer:
    """A byte-level BPE with the model's markers; ids are 0 .. `vocab_size` - 1 without a hole."""

    def __init__(self, whole: "tokenizers.Tokenizer", path: Path) -> None:
        from tokenizers import Tokenizer as Wrapped

        self.path = path
        self.vocab_size = whole.get_vocab_size()
        self._whole = whole
        self._marker_ids = frozenset(whole.get_added_tokens_decoder())
        # Shares the model; what it lacks is the added vocabulary.
        self._plain = Wrapped(whole.model)
        if whole.normalizer is not None:
            self._plain.normalizer = whole.normalizer
        self._plain.pre_tokenizer = whole.pre_tokenizer
        self.bos_id = self.marker_id(BOS)
        self.eos_id = self.marker_id(EOS)

    @classmethod
    def load(cls, path: Path | str, vocab_size: int | None = None) -> Self:
        """Load `tokenizer.json`, or the one in a directory, and check that it is this model's.

        Raises `TokenizerError` where it is absent, over 64 MiB, malformed, lacks a marker, or does not have
        exactly `vocab_size` ids.
        """
        file = Path(path)
        file = file / "tokenizer.json" if file.is_dir() else file
        whole = _parse(_read(file), file)
        _check_structure(whole, file)
        _check_vocabulary(whole, file, vocab_size)
        return cls(whole, file)

    def marker_id(self, marker: str) -> int:
        """The id of the marker spelled `marker`; `TokenizerError` where the vocabulary has none."""
        token_id = self._whole.token_to_id(marker)
        if token_id is None:
            raise TokenizerError(f"`{self.path}` has no marker `{marker}`")
        return int(token_id)

    def marker_ids(self) -> frozenset[int]:
        """The ids of all markers, whether the file flags them special or not: no plain text becomes one."""
        return self._marker_ids

    def encode(self, text: str) -> list[int]:
        """The ids of `text` as plain characters: marker spellings in it stay text.

        Raises `PromptError` where `text` holds half a surrogate pair.
        """
        return list(self._plain.encode(_unicode(text), add_special_tokens=False).ids)

    def encode_with_markers(self, text: str) -> list[int]:
        """The tokenizer's own reading, where a marker's spelling is the marker: for trusted text only."""
        return list(self._whole.encode(_unicode(text), add_special_tokens=False).ids)

    def encode_prompt(self, text: str, *, markers: bool = False) -> list[int]:
        """The ids of a raw completion prompt, with BOS first and exactly once; the file itself adds none.

        A BOS spelled at the start of `text` is that one BOS when `markers` is set, and plain text otherwise.
        """
        ids = self.encode_with_markers(text) if markers else self.encode(text)
        return ids if ids[:1] == [self.bos_id] else [self.bos_id, *ids]

    def decode(self, token_ids: Sequence[int]) -> str:
        """The text of `token_ids`, markers spelled out, bytes that are not UTF-8 as U+FFFD."""
        for token_id in token_ids:
            self._check_id(token_id)
        return str(self._whole.decode(list(token_ids), skip_special_tokens=False))

    def token_bytes(self, token_id: int) -> bytes:
        """The bytes that `token_id` adds to a text; they may be a part of a character."""
        self._check_id(token_id)
        token = str(self._whole.id_to_token(token_id))
        alphabet = _byte_alphabet()
        if all(character in alphabet for character in token):
            return bytes(alphabet[character] for character in token)
        return token.encode()

    def _check_id(self, token_id: int) -> None:
        if not 0 <= token_id < self.vocab_size:
            raise PromptError(f"token id {token_id} is outside the vocabulary of {self.vocab_size} ids")


@cache
def _byte_alphabet() -> dict[str, int]:
    """Which byte each character of a stored token stands for (GPT-2's printable alphabet)."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(0x100) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(0x100 + n): byte for n, byte in enumerate(others)}


def _unicode(text: str) -> str:
    """`text` unless it holds half a surrogate pair, as badly decoded arguments do."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise PromptError(
            f"the text is not Unicode: character {error.start} is the lone surrogate "
            f"U+{ord(text[error.start]):04X}, expected UTF-8"
        ) from None
    return text


def _read(file: Path) -> bytes:
    try:
        with file.open("rb") as stream:
            nbytes = os.fstat(stream.fileno()).st_size
            if nbytes > MAX_NBYTES:
                raise TokenizerError(f"`{file}` is {nbytes} bytes, expected a tokenizer of at most {MAX_NBYTES}")
            content = stream.read()
    except FileNotFoundError:
        raise TokenizerError(
            f"there is no tokenizer `{file}`",
            hint="it is part of the release; give the directory that holds the release's `tokenizer.json`.",
        ) from None
    except OSError as error:
        raise TokenizerError(f"cannot read the tokenizer `{file}`: {error.strerror}") from None
    if not content.strip():
        raise TokenizerError(f"the tokenizer `{file}` is empty, expected the release's `tokenizer.json`")
    return content


def _parse(content: bytes, file: Path) -> "tokenizers.Tokenizer":
    import tokenizers

    try:
        whole = tokenizers.Tokenizer.from_buffer(content)
    except ValueError as error:
        raise TokenizerError(f"`{file}` is not a tokenizer: {error}") from None
    # What a file may carry from its training: it would shorten or lengthen every prompt.
    whole.no_truncation()
    whole.no_padding()
    return whole


def _check_structure(whole: "tokenizers.Tokenizer", file: Path) -> None:
    for part, found, wanted in (
        ("model", type(whole.model).__name__, "BPE"),
        ("decoder", type(whole.decoder).__name__, "ByteLevel"),
    ):
        if found != wanted:
            raise TokenizerError(f"the {part} of `{file}` is `{found}`, expected `{wanted}`")


def _check_vocabulary(whole: "tokenizers.Tokenizer", file: Path, vocab_size: int | None) -> None:
    vocabulary = whole.get_vocab()
    found = max(vocabulary.values(), default=-1) + 1
    if found != len(set(vocabulary.values())):
        raise TokenizerError(f"`{file}` has {len(set(vocabulary.values()))} ids up to {found - 1}, expected no hole")
    if vocab_size is not None and found != vocab_size:
        raise TokenizerError(
            f"`{file}` has {found} ids, expected `vocab_size` {vocab_size}: it belongs to another vocabulary"
        )
    for marker in _REQUIRED:
        if marker not in vocabulary:
            raise TokenizerError(f"`{file}` has no marker `{marker}`: it belongs to another vocabulary")
    for marker, wanted in _FIXED_IDS.items():
        if vocabulary[marker] != wanted:
            raise TokenizerError(f"`{marker}` is id {vocabulary[marker]} in `{file}`, expected id {wanted}")
