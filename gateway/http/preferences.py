"""The preferences of a request (RFC 7240, ``Prefer``)."""

import re
from collections.abc import Iterable, Iterator, Mapping

_TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]++"
_PART = re.compile(
    rf'[ \t]*+(?:({_TOKEN})(?:[ \t]*+=[ \t]*+(?:({_TOKEN})|"((?:[^"\\]|\\.)*)"))?)?[ \t]*+([;,]|\Z)'
)
"""A preference or a parameter, with its value, and what ends it; there may be nothing of it."""
_ESCAPED = re.compile(r"\\(.)")


def preferences_of(headers: Iterable[tuple[bytes, bytes]]) -> Mapping[str, str]:
    """Read all fields of a request, whose names are in lower case.

    Returns:
        The value of each preference, by its name in lower case; empty: it has none. What is said
        twice counts as it is said first. Parameters are left out, and so is what follows, in its
        field, something that is no preference.
    """
    found: dict[str, str] = {}
    for name, value in headers:
        if name == b"prefer":
            for preference, said in _read(value.decode("latin-1")):
                found.setdefault(preference, said)
    return found


def _read(text: str) -> Iterator[tuple[str, str]]:
    at, is_parameter = 0, False
    while at < len(text):
        part = _PART.match(text, at)
        if part is None:
            return
        name, plain, quoted, end = part.groups("")
        if name and not is_parameter:
            yield name.lower(), plain or _ESCAPED.sub(r"\1", quoted)
        at, is_parameter = part.end(), end == ";"
