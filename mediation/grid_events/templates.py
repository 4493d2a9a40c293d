"""Calls of handleEvent that are prepared once, `Template`: what is not constant is a hole.

Numbers fill their holes to the same width, whatever they are: zeros stand before them, which
xsd:long and xsd:double allow. Where no hole is for a text, every call has the same length.
"""

import math
from collections.abc import Mapping, Sequence

from mediation.grid_events.encoding import GREATEST_LONG, LEAST_LONG, Generation, TypeName
from mediation.grid_events.events import Event
from mediation.grid_events.references import CHANNEL
from mediation.grid_events.rpc import (
    ENVELOPE_END,
    HANDLE_EVENT,
    envelope_start,
    method_tags,
    type_attributes,
)
from mediation.grid_events.types import TypeNames
from mediation.model.versions import Soap
from mediation.soap.envelopes import http_headers, xml_text

_LONG_WIDTH, _DOUBLE_WIDTH = 20, 24
_FORMATS = {"long": f"%0{_LONG_WIDTH}d", "double": "%s", "boolean": "%d", "string": "%s"}
_WIDTHS = {"long": _LONG_WIDTH, "double": _DOUBLE_WIDTH, "boolean": 1}
"""Of what fills a hole of such a type; a text has its own."""


class Template:
    """A call of handleEvent with holes.

    Args:
        type_name: The type of the event.
        fields: All of its fields, in order, with their types in XML Schema.
        constants: Values that all calls have, by field; None is null. Each other field is a hole.
        binding: The namespace of the method.
    """

    def __init__(
        self,
        type_name: TypeName,
        fields: Sequence[tuple[str, str]],
        constants: Mapping[str, object],
        *,
        binding: str | None = CHANNEL,
        generation: Generation = Generation.V2001,
    ) -> None:
        unknown = constants.keys() - {name for name, _ in fields}
        if unknown:
            raise ValueError(f"an event of {type_name} has no field {', '.join(sorted(unknown))}")
        start, end = method_tags(HANDLE_EVENT, binding)
        named = type_attributes(Event(type_name=type_name), TypeNames.SCHEMA)
        parts = [_constant(f"{envelope_start(generation)}{start}<p1 {named}>")]
        holes, length = [], 0
        for name, kind in fields:
            if name in constants and constants[name] is None:
                parts.append(f"<{name} xsi:{generation.null}='1'/>")
                continue
            shape = _FORMATS[kind]
            if name in constants:
                shape = _constant(_texts(kind, constants[name]))
            else:
                holes.append((name, kind))
                length += _WIDTHS.get(kind, 0) - len(shape)
            parts.append(f"<{name} xsi:type='xsd:{kind}'>{shape}</{name}>")
        parts.append(_constant(f"</p1>{end}{ENVELOPE_END}"))
        self._text = "".join(parts)
        self.holes: tuple[tuple[str, str], ...] = tuple(holes)
        """The names of the holes, and their types."""
        action = f"{binding}#{HANDLE_EVENT}" if binding else ""
        self.headers: tuple[tuple[str, str], ...] = http_headers(Soap.V1_1, action)
        """The HTTP headers of every call."""
        constant = all(kind in _WIDTHS for _, kind in holes)
        doubled = len((self._text.replace("%%", "%")).encode())
        self.length: int | None = doubled + length if constant else None
        """The octets of every call; None where a hole is for a text."""

    def fill(self, values: Mapping[str, object]) -> bytes:
        """A call.

        Raises:
            KeyError: A hole has no value.
            ValueError: One has a value that its type cannot have.
        """
        filled = tuple([_FILLS[kind](values[name]) for name, kind in self.holes])
        return (self._text % filled).encode()


def _constant(text: str) -> str:
    """*text* as it stands in what is formatted."""
    return text.replace("%", "%%")


def _texts(kind: str, value: object) -> str:
    """A constant."""
    if kind in ("string", "boolean"):
        return str(_FILLS[kind](value))
    return repr(value) if kind == "double" and math.isfinite(float(str(value))) else str(value)


def _text(value: object) -> str:
    return xml_text(str(value))


def _long(value: object) -> int:
    number = int(value)  # type: ignore[call-overload]
    if not LEAST_LONG <= number <= GREATEST_LONG:
        raise ValueError(f"{number} is not an xsd:long")
    return int(number)


def _double(value: object) -> str:
    number = float(value)  # type: ignore[arg-type]
    if math.isfinite(number):
        return repr(number).zfill(_DOUBLE_WIDTH)
    # These are words, before which no zero may stand.
    return ("NaN" if math.isnan(number) else "INF" if number > 0 else "-INF").rjust(_DOUBLE_WIDTH)


def _boolean(value: object) -> int:
    return 1 if value else 0


_FILLS = {"string": _text, "long": _long, "double": _double, "boolean": _boolean}
