"""Calls made of payloads that `write_payload` wrote, without a parser.

    <eventType>storm</eventType>    <eventType xsi:type='xsd:string'>storm</eventType>
    a field of a payload            the same field of a call

A payload has plain fields in a known order, and a call has the same ones with their types; so texts
are taken over as they are, escaped as they are. What is not exactly of that form is left to
`read_payload` and `write_fields`, which come to the same.
"""

import re
from functools import lru_cache
from typing import NamedTuple

from mediation.grid_events.encoding import Generation
from mediation.grid_events.events import (
    LONGEST,
    MOST_PARTS,
    VERBATIM,
    Event,
    field_tags,
)
from mediation.grid_events.types import BASE_FIELDS, EVENT_TYPES, EventType

_TEXT = rb"[^<>\x00-\x08\x0b-\x1f]*+"
"""A text without signs that are written anew as something else, but for escaped ones."""
_TRIMMED = rb"(?![ \t\n])%b(?<![ \t\n])" % _TEXT
_NUMBERS = {"timestamp": rb"0|[1-9][0-9]{0,13}", "seqNo": rb"0|-?[1-9][0-9]{0,17}"}
"""Numbers that are in their range, and written anew as they were written."""
_ESCAPED = (b"&amp;", b"&lt;", b"&gt;")
"""What is escaped as we escape it."""
_NO_XML = b"\xef\xbf"
"""The first octets of U+FFFE and U+FFFF, which no XML has, and of some that it has."""


class _Written(NamedTuple):
    """A type of events, and what matches all of a payload of it, with a group for each field."""

    type: EventType
    pattern: re.Pattern[bytes]
    longest: tuple[int | None, ...]
    """The octets that each field may have."""


def _written(type_: EventType) -> tuple[bytes, _Written]:
    prefix, name = type_.prefix, type_.name
    start = f'<{prefix}:{name.local} xmlns:{prefix}="{name.namespace}">'.encode()
    names = [name for name, _ in (*BASE_FIELDS, *type_.fields)]
    fields = b"".join(
        b"(?:<%b>(%b)</%b>)?" % (name.encode(), _pattern_of(name), name.encode()) for name in names
    )
    end = f"</{prefix}:{name.local}>".encode()
    pattern = re.compile(re.escape(start) + fields + end)
    return start, _Written(type_, pattern, tuple(map(LONGEST.get, names)))


def _pattern_of(field: str) -> bytes:
    return _NUMBERS.get(field) or (_TEXT if field in VERBATIM else _TRIMMED)


_STARTS = dict(_written(type_) for type_ in EVENT_TYPES.values())
_TYPE = 1
_BASE = len(BASE_FIELDS)
_HANDBACK = _BASE - 1


def rewrite_payload(payload: bytes, generation: Generation) -> tuple[Event, bytes, bytes] | None:
    """Make of a payload what `write_fields` makes of its event: an event of its type, without
    values, and the fields before the handback, and behind it. None where that takes a parser."""
    texts = texts_in(payload)
    if texts is None:
        return None
    type_ = _STARTS[payload[: payload.find(b">") + 1]].type
    parts: list[bytes] = []  # Three of each field, and joined once: a message may be long.
    for text, (opened, closed, absent) in zip(texts, _tags(type_, generation), strict=True):
        parts += (absent, b"", b"") if text is None else (opened, text, closed)
    before, behind = b"".join(parts[: 3 * _HANDBACK]), b"".join(parts[3 * _BASE :])
    return _EVENTS[type_.name], before, behind


def texts_in(payload: bytes) -> tuple[bytes | None, ...] | None:
    """The texts of the fields of a payload, in order, those of a derived type behind those of the
    base type; None for each that is not there. They are escaped as they came, so that all of them
    are what `write_payload` writes of them, and within all limits. None where it is not, or where
    that takes a parser."""
    written = _STARTS.get(payload[: payload.find(b">") + 1])
    if written is None or not _is_plain(payload):
        return None
    found = written.pattern.fullmatch(payload)
    if found is None:
        return None
    texts: tuple[bytes | None, ...] = found.groups()
    for text, longest in zip(texts, written.longest, strict=True):
        if text is not None and longest is not None and len(text) > longest:
            return None
    type_ = texts[_TYPE]
    return None if type_ is not None and type_.count(b".") >= MOST_PARTS else texts


def _is_plain(payload: bytes) -> bool:
    """Return whether a payload is UTF-8, has no sign that is escaped but those that we escape, and
    none that no XML has."""
    if b"&" in payload and sum(map(payload.count, _ESCAPED)) != payload.count(b"&"):
        return False
    return payload.isascii() or (_NO_XML not in payload and _is_utf_8(payload))


def _is_utf_8(octets: bytes) -> bool:
    try:
        octets.decode()
    except UnicodeDecodeError:
        return False
    return True


@lru_cache(maxsize=16)
def _tags(type_: EventType, generation: Generation) -> tuple[tuple[bytes, bytes, bytes], ...]:
    """Return what stands around the text of each field, and in place of one that has none: of a
    derived type's own fields only those are said that have a text."""
    tags = [
        (opened.encode(), closed.encode(), absent.encode())
        for opened, closed, absent in field_tags(type_, generation)
    ]
    own = [(opened, closed, b"") for opened, closed, _ in tags[_BASE:]]
    return (*tags[:_BASE], *own)


_EVENTS = {name: Event(type_name=name) for name in EVENT_TYPES}
