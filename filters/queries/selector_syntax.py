"""The syntax tree of a message selector.

``BETWEEN`` is spelt out as two comparisons, ``NOT IN``, ``NOT LIKE`` and ``IS NOT NULL`` as the
negation of what they negate. A comparison of a literal with a name has the name on its left.
"""

from dataclasses import dataclass
from typing import Self, TypeAlias

Value: TypeAlias = str | int | float | bool
"""The value of a property."""

ANY, ONE = "%", "_"


@dataclass(frozen=True, slots=True)
class Literal:
    value: Value


@dataclass(frozen=True, slots=True)
class Identifier:
    """A property: its value, or itself a condition where it is a boolean."""

    name: str


@dataclass(frozen=True, slots=True)
class Negative:
    operand: "Node"


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """``+ - * /``."""

    operator: str
    left: "Node"
    right: "Node"


@dataclass(frozen=True, slots=True)
class Comparison:
    """``= <> < <= > >=``."""

    operator: str
    left: "Node"
    right: "Node"


@dataclass(frozen=True, slots=True)
class In:
    name: str
    values: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Like:
    """A pattern, as its parts: texts, in which None stands for any one character, and between two
    of them any number of characters."""

    name: str
    parts: tuple[tuple[str | None, ...], ...]

    @classmethod
    def read(cls, name: str, pattern: str, escape: str = "") -> Self:
        """Read a pattern with ``%``, ``_`` and perhaps a character that escapes these and itself.

        Raises:
            ValueError: Something else is escaped.
        """
        parts: list[list[str | None]] = [[]]
        characters = iter(pattern)
        for character in characters:
            if character == escape:
                character = next(characters, "")
                if character not in (ANY, ONE, escape):
                    raise ValueError(pattern)
                parts[-1].append(character)
            elif character == ANY:
                parts.append([])
            else:
                parts[-1].append(None if character == ONE else character)
        return cls(name, tuple(map(tuple, parts)))


@dataclass(frozen=True, slots=True)
class IsNull:
    name: str


@dataclass(frozen=True, slots=True)
class Not:
    operand: "Node"


@dataclass(frozen=True, slots=True)
class And:
    operands: "tuple[Node, ...]"


@dataclass(frozen=True, slots=True)
class Or:
    operands: "tuple[Node, ...]"


Node: TypeAlias = (
    Literal | Identifier | Negative | Arithmetic | Comparison | In | Like | IsNull | Not | And | Or
)
