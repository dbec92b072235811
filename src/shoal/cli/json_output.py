"""JSON files for other programs, whole or not at all."""

import json
import tempfile
from pathlib import Path

from shoal.errors import OptionError
from shoal.weights.whole_file import write_whole


def check_writable(file: Path) -> None:
    """Raises `OptionError` where nothing can be written, so that work of an hour is not lost for want of a place."""
    if file.is_dir():
        raise OptionError(f"cannot write `{file}`: it is a directory, expected a file's name")
    try:
        tempfile.TemporaryFile(dir=file.parent).close()
    except OSError as error:
        raise OptionError(f"cannot write `{file}`: {error.strerror}") from None


def write_json(file: Path, content: object) -> None:
    """Write `content` to `file` through a temporary file; `OptionError` where it cannot be written."""
    write_whole(file, [json.dumps(content, indent=2, ensure_ascii=False), "\n"])
