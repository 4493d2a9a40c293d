"""WS-Addressing 2003/03, 2004/03, 2004/08 and 2005/08: headers and endpoint references,
read whatever a peer mixes, written in one version."""

import re
from hashlib import sha256
from typing import Literal

from lxml import etree

from filters import Reason
from mediation import names, profiles
from mediation.model.errors import MediationError
from mediation.model.messages import NO_HEADERS, EndpointReference, MessageHeaders
from mediation.model.versions import Soap, Wsa
from mediation.soap.envelopes import (
    Envelope,
    elements,
    local_name,
    namespace_of,
    octets_of,
    text_of,
    whole_text,
    xml_text,
)
from mediation.soap.layout import WSA_BY_NAMESPACE, Layout
from mediation.soap.payloads import payload_of

MAX_URI = 4096
"""The most octets of an address, an action or a message id."""
LONGEST_ID = 1000
"""The most octets of a message id that is kept as it is: PostgreSQL's indexes take no thousands."""
MAX_REFERENCE_OCTETS = 16 * 1024
MAX_REFERENCE_ELEMENTS = 32

LONGEST_CHARACTER = 4
"""The most octets of one character in UTF-8."""

_ADDRESSES = {
    **{f"{{{wsa.value}}}Address": wsa for wsa in Wsa},
    **{f"{{{namespace}}}Address": Wsa.V2005_08 for namespace in profiles.ADDRESS_NAMESPACES},
}
"""Expanded names of the address in an endpoint reference, and the version that it is then in."""
_MARKS = tuple(f"{{{wsa.value}}}IsReferenceParameter" for wsa in Wsa)
_FORGERIES = frozenset(
    {
        *(soap.value for soap in Soap),
        *WSA_BY_NAMESPACE,
        names.WSSE,
        names.WSSE_1_1,
        names.WSU,
        # Our answers are signed with what is among their headers: with this block, whoever names an
        # address for acknowledgements would have a receipt of what was never sent.
        names.EBBP_SIGNALS,
        # Who could put these into our messages would acknowledge, or number, in our name.
        names.WSRM_1_0,
        names.WSRM_1_1,
        names.MAKE_CONNECTION_1_1,
    }
)


def is_anonymous(address: str) -> bool:
    """The anonymous address of any version, also as Apache Muse misspells it."""
    return address in profiles.ANONYMOUS


def first_message_id(envelope: Envelope, wsa: Wsa | None) -> MessageHeaders:
    """The headers that a fault needs where headers are refused: their version and the message
    id."""
    if wsa is None:
        return NO_HEADERS
    tag = f"{{{wsa.value}}}MessageID"
    for block in envelope.headers:
        if block.tag == tag and block.text and len(block.text) <= MAX_URI:
            return MessageHeaders(wsa, message_id=block.text)
    return MessageHeaders(wsa)


def id_to_keep(message_id: str) -> str:
    """The form of *message_id* where ids are kept and compared: a digest, if it is long."""
    if len(message_id) * LONGEST_CHARACTER <= LONGEST_ID:
        return message_id
    octets = message_id.encode(errors="replace")
    if len(octets) <= LONGEST_ID:
        return message_id
    return f"urn:dragoman:sha256:{sha256(octets).hexdigest()}"


def read_headers(envelope: Envelope, layout: Layout) -> MessageHeaders:
    """Read the addressing headers for our role, which *layout* says where to find.

    Raises:
        MediationError: ``HEADER_REPEATED`` where one that may stand once stands twice,
            ``HEADER_INVALID`` for one beyond the limits, an endpoint reference that is none, or
            those of a draft.
    """
    if layout.draft:
        raise MediationError(Reason.HEADER_INVALID, "No draft of WS-Addressing is spoken.")
    if layout.repeated is not None:
        raise MediationError(
            Reason.HEADER_REPEATED,
            "A message addressing header stands twice.",
            names=(f"wsa:{layout.repeated}",),
        )
    at, blocks = layout.addressing, envelope.headers
    if not at:
        return NO_HEADERS if layout.wsa is None else MessageHeaders(layout.wsa)
    return MessageHeaders(
        layout.wsa,
        _uri(blocks[at["Action"]], "Action") if "Action" in at else None,
        _uri(blocks[at["To"]], "To") if "To" in at else None,
        _uri(blocks[at["MessageID"]], "MessageID", verbatim=True) if "MessageID" in at else None,
        _uri(blocks[at["RelatesTo"]], "RelatesTo", verbatim=True) if "RelatesTo" in at else None,
        _reply(blocks[at["ReplyTo"]], "ReplyTo") if "ReplyTo" in at else None,
        _reply(blocks[at["FaultTo"]], "FaultTo") if "FaultTo" in at else None,
    )


def _uri(block: etree._Element, name: str, *, verbatim: bool = False) -> str | None:
    alone = not len(block)
    whole = (block.text or "") if alone else whole_text(block)
    text = whole.strip()
    if _is_too_long(text):
        raise MediationError(
            Reason.HEADER_INVALID, "An addressing header is too long.", names=(f"wsa:{name}",)
        )
    if verbatim and text and alone:
        return whole  # A message id is echoed octet for octet.
    return text or None


def _is_too_long(text: str) -> bool:
    if len(text) * LONGEST_CHARACTER <= MAX_URI:
        return False
    return len(text.encode(errors="replace")) > MAX_URI


def _reply(block: etree._Element, name: str) -> EndpointReference:
    try:
        return read_epr(block, forged="drop")
    except MediationError as error:
        raise MediationError(Reason.HEADER_INVALID, error.text, names=(f"wsa:{name}",)) from error


def read_epr(
    element: etree._Element, *, forged: Literal["drop", "refuse"], addressed: bool = True
) -> EndpointReference:
    """Read an endpoint reference in the version of its own ``Address``.

    Takes children in any order, a nested ``EndpointReference`` (Layer 7), and reference
    properties in any version.

    Args:
        forged: What to do with reference parameters that would forge headers of SOAP, addressing,
            security, receipts or reliable messaging.
        addressed: Without an address it is none; else its address is empty then.

    Raises:
        MediationError: ``EPR_INVALID``: no address, or more than the limits allow.
    """
    children = elements(element)
    for child in children:
        if local_name(child) == "EndpointReference":
            children = elements(child)
            break
    wsa: Wsa | None = None
    address = ""
    groups: dict[str, list[etree._Element]] = {}
    for child in children:
        version = _ADDRESSES.get(child.tag)
        if version is not None and not address:
            wsa, address = version, text_of(child)
        elif namespace_of(child) in WSA_BY_NAMESPACE:
            name = local_name(child)
            groups.setdefault(name, []).extend(
                elements(child) if name.startswith("Reference") else [child]
            )
    if not addressed:
        wsa = wsa or Wsa.V2005_08
    if wsa is None or (addressed and not address):
        raise MediationError(Reason.EPR_INVALID, "An endpoint reference has no address.")
    if _is_too_long(address):
        raise MediationError(Reason.EPR_INVALID, "An address is too long.")
    if not groups:
        return EndpointReference(address, wsa)
    return EndpointReference(
        address,
        wsa,
        *_references(groups, forged),
        metadata=_metadata(groups) if wsa is Wsa.V2005_08 else (),
    )


def _metadata(groups: dict[str, list[etree._Element]]) -> tuple[bytes, ...]:
    """Metadata of a reference. It decides nothing here, so it is left out where it is too long."""
    kept = tuple(octets_of(child) for child in groups.get("Metadata", ()) if len(child))
    return kept if sum(map(len, kept)) <= MAX_REFERENCE_OCTETS else ()


def _references(
    groups: dict[str, list[etree._Element]], forged: Literal["drop", "refuse"]
) -> tuple[tuple[bytes, ...], tuple[bytes, ...]]:
    kept: list[tuple[bytes, ...]] = []
    for name in ("ReferenceProperties", "ReferenceParameters"):
        members = groups.get(name, [])
        honest = [member for member in members if namespace_of(member) not in _FORGERIES]
        if forged == "refuse" and len(honest) != len(members):
            raise MediationError(
                Reason.EPR_INVALID,
                "A reference parameter stands in the namespace of SOAP, addressing, security, "
                "receipts or reliable messaging.",
            )
        for member in honest:
            for mark in _MARKS:
                member.attrib.pop(mark, "")
        kept.append(tuple(payload_of(member) for member in honest))
    if (
        sum(map(len, kept)) > MAX_REFERENCE_ELEMENTS
        or sum(len(octets) for group in kept for octets in group) > MAX_REFERENCE_OCTETS
    ):
        raise MediationError(
            Reason.EPR_INVALID, "The reference parameters are more than the limits allow."
        )
    return kept[0], kept[1]


def write_epr(epr: EndpointReference, wsa: Wsa | None = None) -> str:
    """Write the children of an endpoint reference in version *wsa* (its own by default).

    Conversion between versions: properties and parameters become parameters upwards;
    parameters become properties where a version has none.
    """
    wsa = wsa or epr.wsa
    properties, parameters = epr.properties, epr.parameters
    if wsa is Wsa.V2005_08:
        properties, parameters = (), properties + parameters
    elif wsa is not Wsa.V2004_08:
        properties, parameters = properties + parameters, ()
    address = epr.address
    if wsa is not epr.wsa and is_anonymous(address):
        address = wsa.anonymous
    parts = [f'<wsa:Address xmlns:wsa="{wsa.value}">{xml_text(address)}</wsa:Address>']
    for name, group in (("ReferenceProperties", properties), ("ReferenceParameters", parameters)):
        if group:
            inner = b"".join(group).decode()
            parts.append(f'<wsa:{name} xmlns:wsa="{wsa.value}">{inner}</wsa:{name}>')
    if wsa is Wsa.V2005_08 and wsa is epr.wsa:
        parts.extend(octets.decode() for octets in epr.metadata)
    return "".join(parts)


_START_TAG_NAME = re.compile(rb"<[^\s/>]+")


def reference_headers(epr: EndpointReference, wsa: Wsa) -> bytes:
    """The header blocks that a message to *epr* carries, verbatim; in WS-Addressing 1.0 each
    is marked (WS-Addressing 1.0 SOAP Binding, section 3.4), in older versions none is."""
    blocks = epr.properties + epr.parameters
    if wsa is not Wsa.V2005_08:
        return b"".join(blocks)
    return b"".join(map(_mark, blocks))


def is_forged(block: etree._Element) -> bool:
    """Return True for a header block that its receiver put into its own address, by the mark of
    WS-Addressing 1.0, in a namespace in which none may be. Whoever sent the message says nothing
    by it, though the sender's signature covers it."""
    return namespace_of(block) in _FORGERIES and any(mark in block.attrib for mark in _MARKS)


def _mark(block: bytes) -> bytes:
    prefix = b"wsa"
    while b"xmlns:" + prefix + b"=" in block:
        prefix += b"_"
    name = _START_TAG_NAME.match(block)
    if name is None:  # pragma: no cover - octets_of begins with a start tag
        raise ValueError("a reference parameter is one element")
    mark = b' xmlns:%b="%b" %b:IsReferenceParameter="true"' % (
        prefix,
        Wsa.V2005_08.value.encode(),
        prefix,
    )
    return block[: name.end()] + mark + block[name.end() :]


def key_parameter(key: str, wsa: Wsa, *, named: bool = False) -> bytes:
    """The reference parameter that names one of our resources by its *key*.

    The address of each has the key too, and either suffices. Up to WS-Addressing 2004/08 it is
    ``wse:Identifier``. A peer marks what it echoes of a 1.0 reference with an attribute, which the
    schema of ``wse:Identifier`` forbids (sdc11073 refuses to send it); so there it is of a
    namespace of ours, unless the peer looks for it by that name (*named*).
    """
    namespace = names.WSE_2004_08 if named or wsa is not Wsa.V2005_08 else names.DRAGOMAN_REFERENCE
    return parameter_named(f"{{{namespace}}}Identifier", key)


def parameter_named(name: str, key: str) -> bytes:
    """The reference parameter with the expanded *name* that names one of our resources by its
    *key*."""
    namespace, _, local = name[1:].partition("}")
    return f'<k:{local} xmlns:k="{namespace}">urn:uuid:{key}</k:{local}>'.encode()


def write_headers(
    wsa: Wsa | None,
    *,
    action: str,
    to: str | None = None,
    message_id: str | None = None,
    relates_to: str | None = None,
) -> str:
    """Write addressing headers in version *wsa*, whose prefix ``wsa`` the envelope declares;
    nothing for a party that uses none. Their order is WS-Messenger's: Action, MessageID, To."""
    if wsa is None:
        return ""
    parts = [f"<wsa:Action>{xml_text(action)}</wsa:Action>"]
    for name, value in (("MessageID", message_id), ("To", to), ("RelatesTo", relates_to)):
        if value is not None:
            parts.append(f"<wsa:{name}>{xml_text(value)}</wsa:{name}>")
    return "".join(parts)
