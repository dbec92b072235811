"""The members of a JSON object from a file nobody vouches for: each is taken by its type, what is left is refused."""

from collections.abc import Mapping
from typing import TypeVar

from shoal.checkpoint.json_object import quoted, shown
from shoal.errors import EvalError

T = TypeVar("T")

_WORDS = {str: "a string", int: "a whole number", bool: "true or false", list: "a list", dict: "an object"}


class Fields:
    """The `members` of the object at `path` in the line `where`. Errors name the line, the field, found and wanted."""

    def __init__(self, members: Mapping[str, object], where: str, path: str = "") -> None:
        self.where, self.path = where, path
        self._left = dict(members)

    def __contains__(self, name: str) -> bool:
        return name in self._left

    def optional(self, name: str, kind: type[T]) -> T | None:
        """The member, None where there is none."""
        return self.required(name, kind) if name in self._left else None

    def required(self, name: str, kind: type[T]) -> T:
        """The member, of exactly this type; text is not empty."""
        if name not in self._left:
            raise EvalError(f"{quoted(self.where)}: {self._quoted(name)} is missing, expected {_WORDS[kind]}")
        value = self._left.pop(name)
        # Not isinstance: true is an int.
        if type(value) is not kind:
            raise self.error(name, value, _WORDS[kind])
        if isinstance(value, str) and not value.strip():
            raise self.error(name, value, "text")
        return value

    def objects(self, name: str) -> list["Fields"] | None:
        """The members of a list of objects; None where there is no list."""
        values = self.optional(name, list)
        if values is None:
            return None
        found = []
        for index, value in enumerate(values):
            place = f"{name}[{index}]"
            if not isinstance(value, dict):
                raise self.error(place, value, "an object")
            found.append(Fields(value, self.where, f"{self.path}{place}."))
        return found

    def inner(self, name: str) -> "Fields":
        """The members of an object."""
        return Fields(self.required(name, dict), self.where, f"{self.path}{name}.")

    def rest(self) -> dict[str, object]:
        """All members not yet taken."""
        left, self._left = self._left, {}
        return left

    def refuse_rest(self, wanted: str) -> None:
        """Raises `EvalError` where a member is left."""
        if self._left:
            raise EvalError(
                f"{quoted(self.where)}: unknown field {self._quoted(next(iter(self._left)))}, expected {wanted}"
            )

    def error(self, name: str, value: object, wanted: str) -> EvalError:
        """The sentence about a member that is not what was wanted."""
        return EvalError(f"{quoted(self.where)}: {self._quoted(name)} is {shown(value)}, expected {wanted}")

    def _quoted(self, name: str) -> str:
        return quoted(self.path + name)
