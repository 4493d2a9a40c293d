"""The header block of our own in which a publisher says properties of an event: SOAP and the
specifications of events have no place for them.

    <drg:Properties xmlns:drg="urn:dragoman:policy:1">
      <drg:Property name="region">north</drg:Property>
    </drg:Properties>

It travels with the event, as every header block of the application does. Besides, its properties
are the event's: filters over properties see them, and messaging systems carry them as theirs.

In a message with several events, or an answer with events that were fetched, ``event`` says whose
properties a block has, counted from 1. So the signature of an event (`names.EVENT_SIGNATURE`) comes
to every consumer that is sent envelopes:

    <drg:Properties event="2">
      <drg:Property name="eventsignature">eyJhbGciOi..MEUCIQ</drg:Property>
    </drg:Properties>
"""

import re
from collections.abc import Iterable, Mapping, Sequence

from lxml import etree

from filters import Reason, quoted
from filters.documents import parse_own
from mediation import names
from mediation.model.errors import MediationError
from mediation.model.messages import NO_PROPERTIES, Notification
from mediation.soap.envelopes import elements, whole_text, xml_attribute, xml_text

_NAMESPACE = names.DRAGOMAN_POLICY.encode()
PROPERTIES = f"{{{names.DRAGOMAN_POLICY}}}Properties"
_PROPERTY = f"{{{names.DRAGOMAN_POLICY}}}Property"
_SIGNATURE = names.EVENT_SIGNATURE.encode()
_NUMBER = "event"
_NUMBERED = b" event="
_DIGITS = re.compile("[1-9][0-9]{0,5}")
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}")
_RESERVED = re.compile(r"ws_|ce_|tdn_|dragoman_|cloudevents|jms|amq|content", re.IGNORECASE)
"""Beginnings of the names that we, and messaging systems, give properties of our own."""


def properties_block(properties: Mapping[str, str], number: int = 0) -> bytes:
    """Write the block with *properties*, by name; `properties_in` is the inverse.

    Args:
        number: That of their event, where the message has several; 0: they are of all.

    Raises:
        MediationError: ``MESSAGE_INVALID``: a name is none, or reserved.
    """
    inner = "".join(
        f"<drg:Property name={xml_attribute(_checked(name))}>{xml_text(value)}</drg:Property>"
        for name, value in properties.items()
    )
    declared = f'xmlns:drg="{names.DRAGOMAN_POLICY}"'
    if number:
        declared += f' {_NUMBER}="{number}"'
    return f"<drg:Properties {declared}>{inner}</drg:Properties>".encode()


def properties_in(blocks: Iterable[bytes]) -> Mapping[str, str]:
    """Read the properties that an event has by its header blocks; the first of a name counts.

    Raises:
        MediationError: ``MESSAGE_INVALID``: a name is none, or reserved.
    """
    found: dict[str, str] = {}
    for block in blocks:
        if _NAMESPACE not in block:
            continue
        element = parse_own(block)
        if element.tag == PROPERTIES and _NUMBER not in element.attrib:
            _read(element, found)
    return found or NO_PROPERTIES


def take_numbered(
    blocks: tuple[bytes, ...],
) -> tuple[tuple[bytes, ...], Mapping[int, Mapping[str, str]]]:
    """Read the properties that single events of a message have by its header blocks. Returns the
    other blocks, and the properties by the number of their event, from 1.

    Raises:
        MediationError: ``MESSAGE_INVALID``: a name is none, or reserved.
    """
    if not any(_NUMBERED in block and _NAMESPACE in block for block in blocks):
        return blocks, {}
    others: list[bytes] = []
    found: dict[int, dict[str, str]] = {}
    for block in blocks:
        element = parse_own(block) if _NUMBERED in block and _NAMESPACE in block else None
        number = "" if element is None else element.get(_NUMBER, "")
        if element is None or element.tag != PROPERTIES or not _DIGITS.fullmatch(number):
            others.append(block)
            continue
        _read(element, found.setdefault(int(number), {}))
    return tuple(others), found


def signature_block(notification: Notification) -> bytes:
    """Write the block with the signature of an event that did not come in SOAP, whose header blocks
    would have it; empty where there is none to be written."""
    signature = notification.properties.get(names.EVENT_SIGNATURE)
    if signature is None or any(_SIGNATURE in block for block in notification.headers):
        return b""
    return properties_block({names.EVENT_SIGNATURE: clean_text(signature)})


def signature_blocks(signatures: Sequence[str | None]) -> bytes:
    """Write the blocks with the *signatures* of the events of one message, in their order."""
    return b"".join(
        properties_block({names.EVENT_SIGNATURE: clean_text(one)}, number)
        for number, one in enumerate(signatures, 1)
        if one is not None
    )


def clean_text(text: str) -> str:
    """*text* without the characters that no XML has; who writes to a broker may write any."""
    return _NOT_IN_XML.sub("", text)


_NOT_IN_XML = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def _read(element: etree._Element, found: dict[str, str]) -> None:
    for one in elements(element):
        if one.tag == _PROPERTY:
            found.setdefault(_checked(one.get("name", "")), whole_text(one))


def has_properties(blocks: Iterable[bytes]) -> bool:
    """Return whether one of these header blocks may have properties; quicker than reading them."""
    return any(_NAMESPACE in block for block in blocks)


def _checked(name: str) -> str:
    if not _NAME.fullmatch(name) or _RESERVED.match(name):
        raise MediationError(
            Reason.MESSAGE_INVALID,
            f"{quoted(name)} is not the name of a property: up to 64 letters, digits and"
            " underscores, and none that begins as the names of messaging systems do.",
        )
    return name
