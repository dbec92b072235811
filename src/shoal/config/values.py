"""A JSON value becomes a field of `ModelConfig`, or an error that names both. Nothing is converted."""

from typing import get_args, get_type_hints

from shoal.config.json_file import describe
from shoal.config.schema import REQUIRED_FIELDS, ModelConfig, Number
from shoal.errors import ConfigError

LARGEST_NUMBER = 2**63 - 1

Value = Number | str | bool | tuple[int, ...] | None

_HINTS = get_type_hints(ModelConfig)
_NULL_IS_A_VALUE = {name for name in REQUIRED_FIELDS if type(None) in get_args(_HINTS[name])}
_MAY_BE_NEGATIVE = {"candidate_source_layer"}


def read_value(found: object, field: str, path: str, where: object) -> Value:
    """`found` as the value of `field`; `path` and `where` are the key and the file in messages.

    Lists come back as tuples; numbers keep their own type. Raises `ConfigError` for another JSON type,
    a number that is not finite or not below 2^63, and a negative one where only a feature switch may be.
    """
    hint = _HINTS[field]
    if found is None and field in _NULL_IS_A_VALUE:
        return None
    if hint in (str, str | None):
        return _read_string(found, path, where)
    if hint == bool | None:
        return _read_bool(found, path, where)
    if hint in (tuple[int, ...], tuple[int, ...] | None):
        return _read_integers(found, path, where)
    lowest = -LARGEST_NUMBER if field in _MAY_BE_NEGATIVE else 0
    if hint in (int, int | None):
        return _read_integer(found, path, where, lowest)
    return _read_number(found, path, where)


def _read_string(found: object, path: str, where: object) -> str:
    if isinstance(found, str):
        return found
    raise _misfit(found, "a string", path, where)


def _read_bool(found: object, path: str, where: object) -> bool:
    if isinstance(found, bool):
        return found
    raise _misfit(found, "true or false", path, where)


def _read_integer(found: object, path: str, where: object, lowest: int = 0) -> int:
    if isinstance(found, int) and not isinstance(found, bool) and lowest <= found <= LARGEST_NUMBER:
        return found
    least = "0" if lowest == 0 else "-2^63"
    raise _misfit(found, f"an integer from {least} to 2^63", path, where)


def _read_number(found: object, path: str, where: object) -> Number:
    if isinstance(found, int | float) and not isinstance(found, bool) and 0 <= found <= LARGEST_NUMBER:
        return found
    raise _misfit(found, "a finite number from 0 to 2^63", path, where)


def _read_integers(found: object, path: str, where: object) -> tuple[int, ...]:
    if isinstance(found, list | tuple):
        return tuple(_read_integer(item, f"{path}[{place}]", where) for place, item in enumerate(found))
    raise _misfit(found, "a list of integers", path, where)


def _misfit(found: object, wanted: str, path: str, where: object) -> ConfigError:
    return ConfigError(f"`{path}` is {describe(found)} in `{where}`, wanted {wanted}")
