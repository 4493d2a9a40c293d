"""The header block of our own in which a publisher says properties of an event: SOAP and the
specifications of events have no place for them.

    <drg:Properties xmlns:drg="urn:dragoman:policy:1">
      <drg:Property name="region">north</drg:Property>
    </drg:Properties>

It travels with the event, as every header block of the application does. Besides, its properties
are the event's: filters over properties see them, and messaging systems carry them as theirs.
"""

import re
from collections.abc import Iterable, Mapping

from filters import Reason, quoted
from filters.documents import parse_own
from mediation import names
from mediation.model.errors import MediationError
from mediation.model.messages import NO_PROPERTIES
from mediation.soap.envelopes import elements, whole_text, xml_attribute, xml_text

_NAMESPACE = names.DRAGOMAN_POLICY.encode()
PROPERTIES = f"{{{names.DRAGOMAN_POLICY}}}Properties"
_PROPERTY = f"{{{names.DRAGOMAN_POLICY}}}Property"
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}")
_RESERVED = re.compile(r"ws_|ce_|tdn_|dragoman_|cloudevents|jms|amq|content", re.IGNORECASE)
"""Beginnings of the names that we, and messaging systems, give properties of our own."""


def properties_block(properties: Mapping[str, str]) -> bytes:
    """Write the block with *properties*, by name; `properties_in` is the inverse.

    Raises:
        MediationError: ``MESSAGE_INVALID``: a name is none, or reserved.
    """
    inner = "".join(
        f"<drg:Property name={xml_attribute(_checked(name))}>{xml_text(value)}</drg:Property>"
        for name, value in properties.items()
    )
    declared = f'xmlns:drg="{names.DRAGOMAN_POLICY}"'
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
        if element.tag != PROPERTIES:
            continue
        for one in elements(element):
            if one.tag == _PROPERTY:
                found.setdefault(_checked(one.get("name", "")), whole_text(one))
    return found or NO_PROPERTIES


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
