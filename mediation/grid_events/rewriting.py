"""Calls made of payloads that `write_payload` wrote, without a parser.

    <eventType>storm</eventType>    <eventType xsi:type='xsd:string'>storm</eventType>
    a field of a payload            the same field of a call

A payload has plain fields in a known order, and a call has the same ones with their types; so texts
are taken over as they are, escaped as they are. What is not exactly of that form is left to
`read_payload` and `write_fields`, which come to the same.
"""

import re
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
from mediation.soap.addressing import LONGEST_CHARACTER

_TEXT = r"[^<>\x00-\x08\x0b-\x1f\ufffe\uffff]*+"
"""A text without characters that are written anew as something else, but for escaped ones."""
_ESCAPED = (b"&amp;", b"&lt;", b"&gt;")
"""The signs that are escaped, and only they, are written anew as they were written."""
_TRIMMED = rf"(?![ \t\n]){_TEXT}(?<![ \t\n])"
_NUMBERS = {"timestamp": r"0|[1-9][0-9]{0,13}", "seqNo": r"0|-?[1-9][0-9]{0,17}"}
"""Numbers that are in their range, and written anew as they were written."""


class _Written(NamedTuple):
    """A type of events, and what matches all of a payload of it, with a group for each field."""

    type: EventType
    pattern: re.Pattern[str]
    longest: tuple[int | None, ...]
    """The octets that each field may have."""


def _written(type_: EventType) -> tuple[bytes, _Written]:
    prefix, name = type_.prefix, type_.name
    start = f'<{prefix}:{name.local} xmlns:{prefix}="{name.namespace}">'
    fields = "".join(
        f"(?:<{field}>({_pattern_of(field)})</{field}>)?"
        for field, _ in (*BASE_FIELDS, *type_.fields)
    )
    pattern = re.compile(f"{re.escape(start)}{fields}</{prefix}:{name.local}>")
    longest = tuple(LONGEST.get(field) for field, _ in (*BASE_FIELDS, *type_.fields))
    return start.encode(), _Written(type_, pattern, longest)


def _pattern_of(field: str) -> str:
    return _NUMBERS.get(field) or (_TEXT if field in VERBATIM else _TRIMMED)


_STARTS = dict(_written(type_) for type_ in EVENT_TYPES.values())
_TYPE = 1
_BASE = len(BASE_FIELDS)
_HANDBACK = _BASE - 1


def rewrite_payload(payload: bytes, generation: Generation) -> tuple[Event, str, str] | None:
    """Make of a payload what `write_fields` makes of its event: an event of its type, without
    values, and the fields before the handback, and behind it. None where that takes a parser."""
    written = _STARTS.get(payload[: payload.find(b">") + 1])
    if written is None or payload.count(b"&") != sum(map(payload.count, _ESCAPED)):
        return None
    try:
        found = written.pattern.fullmatch(payload.decode())
    except UnicodeDecodeError:
        return None
    if found is None:
        return None
    texts = found.groups()
    for text, longest in zip(texts, written.longest, strict=True):
        if text is not None and longest is not None and len(text) * LONGEST_CHARACTER > longest:
            return None
    type_ = texts[_TYPE]
    if type_ is not None and type_.count(".") >= MOST_PARTS:
        return None
    parts = [
        absent if text is None else f"{opened}{text}{closed}"
        for text, (opened, closed, absent) in zip(
            texts, field_tags(written.type, generation), strict=True
        )
    ]
    behind = zip(
        parts[_BASE:], texts[_BASE:], strict=True
    )  # Of its own fields it says what it has.
    further = [part for part, text in behind if text is not None]
    return _EVENTS[written.type.name], "".join(parts[:_HANDBACK]), "".join(further)


_EVENTS = {name: Event(type_name=name) for name in EVENT_TYPES}
