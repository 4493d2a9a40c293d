"""Arguments of functions for columns: what somebody gives in Python, and in SQL.

A column has no type before it is part of a query, and Spark asks a function of Python for neither
the number nor the types of its arguments. So a worker checks these, by the types that Arrow has for
a batch: once for a batch, never for a row.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

MAX_TYPE = 80
"""Characters of a type that an error shows: a struct may have hundreds of fields."""


@dataclass(frozen=True, slots=True)
class Signature:
    """The arguments of *function* in their order, of which the first *required* must be given."""

    function: str
    names: Sequence[str]
    required: int

    def check(self, arrays: Sequence[Any]) -> None:
        """Check arrays of Arrow's, one for each argument.

        Raises:
            TypeError: There are too few or too many, or one has another type; the text says which.
        """
        if not self.required <= len(arrays) <= len(self.names):
            optional = self.names[self.required :]
            takes = ", ".join(self.names[: self.required])
            takes += "".join(f"[, {name}" for name in optional) + "]" * len(optional)
            raise TypeError(
                f"{self.function} takes ({takes}); "
                f"it was given {len(arrays)} argument{'s' * (len(arrays) != 1)}"
            )
        for name, array in zip(self.names, arrays, strict=False):
            fits, wanted = _TYPES[name]
            if not fits(array.type):
                # What a cast makes of a struct or a list is text, but not what anybody meant.
                plain = array.type.num_fields == 0 and fits is not _is_map
                raise TypeError(
                    f"{self.function}: {name} is {_type_name(array.type)}; give {wanted}"
                    f"{' (cast it)' if plain else ''}"
                )

    def checked(self, function: Callable[..., Any], *arrays: Any) -> Any:
        """Return what *function* gives for *arrays*, after `check`."""
        self.check(arrays)
        return function(*arrays)


def require_columns(function: str, columns: Mapping[str, Any]) -> None:
    """Check that all of *columns*, by the names of their parameters, are columns or names of such.

    Raises:
        TypeError: One is something else.
    """
    from pyspark.sql import Column

    for name, column in columns.items():
        if not isinstance(column, str | Column):
            raise TypeError(f"{function}: {name} is {shown(column)}; give a column or its name")


def require_expression(function: str, expression: Any, namespaces: Any) -> None:
    """Check the types of an XPath and of what its prefixes stand for.

    Raises:
        TypeError: The expression is not text, or the namespaces map prefixes to something else.
    """
    if not isinstance(expression, str):
        raise TypeError(f"{function}: expression is {shown(expression)}; give an XPath as text")
    if namespaces is None:
        return
    if not isinstance(namespaces, Mapping) or not all(
        isinstance(text, str) for pair in namespaces.items() for text in pair
    ):
        raise TypeError(
            f"{function}: namespaces does not map prefixes to URIs; "
            'give a dictionary such as {"w": "http://example.org/weather"}'
        )


def shown(value: Any) -> str:
    """What an error calls *value*, which is of a wrong type."""
    return "None" if value is None else f"of the type {type(value).__name__}"


def _is_text(type: Any) -> bool:
    from pyarrow import types

    # Of a NULL in SQL Spark knows no other type.
    return bool(types.is_string(type) or types.is_large_string(type) or types.is_null(type))


def _is_document(type: Any) -> bool:
    from pyarrow import types

    return _is_text(type) or bool(types.is_binary(type) or types.is_large_binary(type))


def _is_map(type: Any) -> bool:
    from pyarrow import types

    if types.is_map(type):
        return _is_text(type.key_type) and _is_text(type.item_type)
    return bool(types.is_null(type))


_Type = tuple[Callable[[Any], bool], str]
_TEXT: _Type = (_is_text, "a string")
_MAP: _Type = (_is_map, "a map<string,string>")
_TYPES: Mapping[str, _Type] = {
    "payload": (_is_document, "a string or binary"),
    "topic": _TEXT,
    "action": _TEXT,
    "properties": _MAP,
    "expression": _TEXT,
    "namespaces": _MAP,
}


def _type_name(type: Any) -> str:
    """The name of a type of Arrow's in Spark's SQL."""
    from pyspark.errors import PySparkException
    from pyspark.sql.pandas.types import from_arrow_type

    name = str(type)
    with suppress(PySparkException):  # One that Spark has no name for.
        name = from_arrow_type(type).simpleString()
    return name if len(name) <= MAX_TYPE else f"{name[:MAX_TYPE]}..."
