"""XML as JSON, for consumers that read no XML.

    <w:storm xmlns:w="urn:w" n="1">       {"w:storm": {
      <w:speed unit="kn">60</w:speed>        "@xmlns:w": "urn:w", "@n": "1",
      <w:at>Genoa</w:at>                     "w:speed": {"@unit": "kn", "#text": "60"},
      <w:at>Pisa</w:at>                      "w:at": ["Genoa", "Pisa"]}}
    </w:storm>

An attribute is a member ``@name``; a child is a member of its name, with its prefix as it is
written; children of one name are an array; the text of an element that has attributes is
``#text``, and of one that has none is all that it is. Everything is text: no schema says what is a
number. A declaration of a namespace is an attribute of the element that makes it.

JSON has no place for comments, processing instructions, the position of text between children (it
is joined), the order of children of different names in turn, and white space between children.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, cast

from lxml import etree

from filters.documents import parse_own

_XML = "http://www.w3.org/XML/1998/namespace"

MOST_PARTS = 20_000
"""Elements and attributes of XML that becomes JSON; what has more stays XML."""
REMEMBERED = 8
"""Payloads of which the JSON is remembered: each may be some megabytes."""


def project(payload: bytes) -> Any:
    """The JSON value of *payload*."""
    root = parse_own(payload)
    outer = _Open({}, {})
    around = [outer]
    declares = False
    for event, value in etree.iterwalk(root, events=("start-ns", "start", "end")):
        if event == "start-ns":
            declares = True
        elif event == "start":
            element = cast("etree._Element", value)
            around.append(_opened(element, around[-1].scope, declares=declares))
            declares = False
        else:
            element = cast("etree._Element", value)
            inner = _closed(element, around.pop())
            _add(around[-1].members, _name(element), inner)
    return outer.members


def may_project(payload: bytes) -> bool:
    """Return whether *payload* has few enough elements and attributes to become JSON.

    What may be one counts as one: they are counted by their marks, without parsing.
    """
    elements = payload.count(b"<") - payload.count(b"</")
    return elements + payload.count(b'="') + payload.count(b"='") <= MOST_PARTS


@lru_cache(REMEMBERED)
def write_projection(payload: bytes) -> bytes:
    """*payload* as JSON in UTF-8; what was made lately is not made again, for each of the three
    modes of an event has the same."""
    return json.dumps(project(payload), ensure_ascii=False, separators=(",", ":")).encode()


def _name(element: etree._Element) -> str:
    local = str(element.tag).rpartition("}")[2]
    return f"{element.prefix}:{local}" if element.prefix else local


@dataclass(slots=True)
class _Open:
    """An element whose end is still to come."""

    members: dict[str, Any]
    scope: dict[str | None, str]
    """Its namespaces by prefix: one value for all elements between two declarations, for to ask an
    element of theirs takes as long as there are namespaces and elements around it."""


def _opened(element: etree._Element, scope: dict[str | None, str], *, declares: bool) -> _Open:
    members: dict[str, Any] = {}
    inner = scope
    if declares:
        inner = dict(element.nsmap)
        for prefix, namespace in sorted(inner.items(), key=lambda each: each[0] or ""):
            if scope.get(prefix) != namespace:
                members[f"@xmlns:{prefix}" if prefix else "@xmlns"] = namespace
        if None in scope and None not in inner:
            members["@xmlns"] = ""
    for name, value in element.attrib.items():
        members[f"@{_attribute_name(str(name), inner)}"] = str(value)
    return _Open(members, inner)


def _closed(element: etree._Element, opened: _Open) -> Any:
    members = opened.members
    text = element.text or ""
    if len(element):
        text = "".join([text, *(node.tail or "" for node in element)])
    if not text.strip() and any(not name.startswith("@") for name in members):
        text = ""
    if not members:
        return text
    if text:
        members["#text"] = text
    return members


def _add(members: dict[str, Any], name: str, value: Any) -> None:
    there = members.get(name)
    if name not in members:
        members[name] = value
    elif isinstance(there, list):
        there.append(value)
    else:
        members[name] = [there, value]


def _attribute_name(name: str, scope: Mapping[str | None, str]) -> str:
    if not name.startswith("{"):
        return name
    namespace, _, local = name[1:].partition("}")
    if namespace == _XML:
        return f"xml:{local}"
    prefix = next(
        prefix for prefix, uri in scope.items() if prefix is not None and uri == namespace
    )
    return f"{prefix}:{local}"
