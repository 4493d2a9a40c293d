"""The action of an event whose publisher gave it none, made from the name of its root element."""

import re
from functools import lru_cache
from typing import cast

from lxml import etree

from mediation.names import DRAGOMAN_DATA

_DATA = f"{{{DRAGOMAN_DATA}}}data"
_NAME = rb"[^\s:=<>\"'/&]+"
_START_TAG = re.compile(
    rb"<(?:(?P<prefix>%b):)?(?P<local>%b)"
    rb"(?P<attributes>(?:\s+[^\s=<>\"'/&]+\s*=\s*(?:\"[^\"<]*\"|'[^'<]*'))*)\s*/?>" % (_NAME, _NAME)
)
_LONGEST_TAG = 512
"""The most octets of a start tag whose name, and action, are remembered."""
_ATTRIBUTE = re.compile(rb"([^\s=<>\"'/&]+)\s*=\s*(?:\"([^\"<]*)\"|'([^'<]*)')")


def payload_action(payload: bytes) -> str:
    """Make the action of an event from the name of its root, or of its first part:
    ``namespace/local``."""
    end = payload.find(b">") + 1
    action = _tag_action(payload[:end]) if end <= _LONGEST_TAG else _tag_action.__wrapped__(payload)
    return action or _named_action(*_parsed_name(payload))


def payload_name(payload: bytes) -> tuple[str, str]:
    """The namespace and the local name of the root of *payload*, or of the first of its parts
    (`mediation.soap.contents`).

    Raises:
        ValueError: It is not an element; or lxml's XMLSyntaxError.
    """
    start = payload[: payload.find(b">") + 1]
    name = _kept_name(start) if len(start) <= _LONGEST_TAG else _tag_name(start)
    return name or _parsed_name(payload)


@lru_cache(maxsize=1024)
def _tag_action(start: bytes) -> str | None:
    """Make the action by the start tag at the beginning of *start*; None where that takes a
    parser."""
    name = _tag_name(start)
    return None if name is None else _named_action(*name)


def _tag_name(start: bytes) -> tuple[str, str] | None:
    """Read the name in the start tag at the beginning of *start*; None where that takes a
    parser."""
    tag = _START_TAG.match(start)
    if tag is None or b"&" in tag[0]:
        return None
    prefix, local = tag["prefix"], tag["local"].decode()
    declaration = b"xmlns:" + prefix if prefix else b"xmlns"
    for name, double, single in _ATTRIBUTE.findall(tag["attributes"]):
        if name == declaration:
            namespace = (double or single).decode()
            # Of several parts the first names the event.
            return None if prefix and f"{{{namespace}}}{local}" == _DATA else (namespace, local)
    return None if prefix else ("", local)  # The prefix xml needs no declaration.


_kept_name = lru_cache(maxsize=1024)(_tag_name)  # The same few come with every event.


def _named_action(namespace: str, local: str) -> str:
    if namespace:
        return f"{namespace.rstrip('/')}/{local}"
    return f"urn:dragoman:event:{local}"


def _parsed_name(payload: bytes) -> tuple[str, str]:
    parser = etree.XMLPullParser(("start",), resolve_entities=False, no_network=True)
    end, wrapper = 0, None
    while end < len(payload):  # Tag by tag: a parser keeps every name that it meets.
        start, end = end, payload.find(b">", end) + 1 or len(payload)
        parser.feed(payload[start:end])
        if end == len(payload):
            parser.close()
        for _, element in parser.read_events():
            name = etree.QName(cast(etree._Element, element))
            if name.text == _DATA and wrapper is None:
                wrapper = name.namespace or "", name.localname
                continue
            return name.namespace or "", name.localname
    if wrapper is not None:
        return wrapper
    raise ValueError("a payload is one element")
