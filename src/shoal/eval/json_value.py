"""JSON that a model wrote: parsed strictly, compared as values."""

import json


def parse_json(text: str) -> object:
    """The value that `text` is; `ValueError` where it is none, or nested deeper than can be read."""
    try:
        return json.loads(text, parse_constant=_refuse)
    except RecursionError:
        raise ValueError("nested too deep") from None


def same_json(one: object, other: object) -> bool:
    """Whether two parsed values are the same: members in any order, 1 is 1.0, and true is not 1."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same_json(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same_json, one, other))
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    return one == other


def _refuse(constant: str) -> object:
    raise ValueError(f"`{constant}` is no JSON")
