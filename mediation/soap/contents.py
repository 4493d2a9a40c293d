"""Content of a Body, a Message or another element around an event, as one payload.

    <s:Body><n:alarm href="#1"/><part id="1"/></s:Body>     several elements are one event
                       |
    <d:data xmlns:d="urn:dragoman:data:1"><n:alarm ../><part ../></d:data>

One element that stands alone is the payload as it is. Several elements, text beside them, and what
the element around them says in attributes are kept in ``d:data``. Comments are not.
"""

from collections.abc import Collection
from typing import Any

from lxml import etree

from filters import Reason
from filters.documents import parse_own
from mediation import names
from mediation.model.errors import MediationError
from mediation.model.versions import Soap
from mediation.soap.envelopes import (
    Envelope,
    attributes_of,
    children_of,
    elements,
    local_name,
    octets_of,
    xml_text,
)
from mediation.soap.payloads import payload_of

SMALL, MAX_GROWTH = 16 * 1024, 4
"""Bytes of an event's parts from which on they are at most so many times as long as they were: each
repeats the namespaces around it, where it is not ``d:data`` that declares them for all."""
_PREFIXES = ("d", *(f"d{number}" for number in range(1000)))
_START = f'<d:data xmlns:d="{names.DRAGOMAN_DATA}">'.encode()
_END = b"</d:data>"
_OF_MESSAGES = frozenset(
    {
        *(soap.value for soap in Soap),
        names.SOAP_ENCODING_1_1,
        names.XSI,
        names.XSI_1999,
        names.XSI_2000_10,
        names.WSU,
    }
)
"""Namespaces of attributes that are about the message, not about the event: encodings, types of
schemas, identifiers for signatures."""
_IDENTIFIERS = frozenset({"id", "Id", "ID", f"{{{names.XML}}}id"})


def content_of(
    parent: etree._Element, known: Collection[str] = (), *, in_ours: bool = False
) -> bytes:
    """Make a payload of what stands in *parent*, which has elements, text or both.

    Args:
        known: Attributes of *parent* that are read elsewhere.
        in_ours: As in `payload_of`.
    """
    told = attributes_told(parent, known)
    children = elements(parent)
    if not told and len(children) == 1 and not has_text(parent):
        return payload_of(children[0], in_ours=in_ours)
    start = _start(parent, told) if told else _START
    inner = _inner(parent, in_ours)
    if len(inner) > SMALL and len(inner) > MAX_GROWTH * len(whole := octets_of(parent)):
        return _with_shared_namespaces(parent, told, whole)
    return b"".join((start, inner, _END))


def _with_shared_namespaces(
    parent: etree._Element, told: tuple[tuple[str, str], ...], whole: bytes
) -> bytes:
    """``d:data`` that declares itself all that is declared around its parts.

    Args:
        whole: The octets of *parent*.
    """
    prefix = next(one for one in _PREFIXES if one not in parent.nsmap)
    scope: Any = {**parent.nsmap, prefix: names.DRAGOMAN_DATA}
    start = octets_of(etree.Element(f"{{{names.DRAGOMAN_DATA}}}data", dict(told), nsmap=scope))
    name = start[1 : start.index(b" ")]
    # In texts and values "<" and ">" are written "&lt;" and "&gt;".
    inner = whole[whole.index(b">") + 1 : whole.rindex(b"</")]
    return b"%b>%b</%b>" % (start.removesuffix(b"/>"), inner, name)


def body_content(envelope: Envelope, *, in_ours: bool = False) -> bytes:
    """Make a payload of what stands in the Body of *envelope*, which has an element."""
    body = envelope.body[0].getparent()
    assert body is not None, "an envelope has a Body"
    return content_of(body, _IDENTIFIERS, in_ours=in_ours)


def check_body(envelope: Envelope) -> None:
    """Refuse a Body whose own attributes say something of an event: nobody would be told.

    Raises:
        MediationError: ``MESSAGE_INVALID``.
    """
    _check_attributes(envelope.body[0].getparent())


def _check_attributes(body: etree._Element | None) -> None:
    if body is not None and (told := attributes_told(body, _IDENTIFIERS)):
        refuse_attributes(body, told)


def check_alone(envelope: Envelope) -> None:
    """Refuse a Body with something beside the one element that is read: it would be lost.

    Raises:
        MediationError: ``MESSAGE_INVALID``.
    """
    first = envelope.body[0]
    body = first.getparent()
    if len(envelope.body) > 1 or (body is not None and has_text(body)):
        raise MediationError(
            Reason.MESSAGE_INVALID,
            f"The Body has more than {local_name(first)}: send what else there is by itself.",
        )
    _check_attributes(body)


def check_nothing_else(
    parent: etree._Element,
    known: Collection[str] = (),
    expected: Collection[str] = (),
    *,
    text: bool = False,
) -> None:
    """Refuse what an element says that nobody would be told: attributes that are none of *known*,
    text, unless that is read, and, where *expected* names any, other elements than these.

    Raises:
        MediationError: ``MESSAGE_INVALID``.
    """
    if told := attributes_told(parent, known):
        refuse_attributes(parent, told)
    strange = [one for one in elements(parent) if expected and one.tag not in expected]
    if strange or (not text and has_text(parent)):
        what = local_name(strange[0]) if strange else "text"
        raise MediationError(
            Reason.MESSAGE_INVALID,
            f"{local_name(parent)} has {what}, which nobody could be told: leave it out.",
        )


def refuse_attributes(parent: etree._Element, told: tuple[tuple[str, str], ...]) -> None:
    """Refuse the attributes of *parent*.

    Raises:
        MediationError: ``MESSAGE_INVALID``.
    """
    name = told[0][0].rpartition("}")[2]
    raise MediationError(
        Reason.MESSAGE_INVALID,
        f"{local_name(parent)} has an attribute {name}, which nobody could be told: put it into "
        "the event.",
    )


def attributes_told(
    element: etree._Element, known: Collection[str] = ()
) -> tuple[tuple[str, str], ...]:
    """The attributes of *element* that say something of an event, but those of *known* names."""
    if not element.keys():
        return ()
    return tuple(
        (name, value)
        for name, value in attributes_of(element)
        if name not in known and name[1:].rpartition("}")[0] not in _OF_MESSAGES
    )


def has_text(parent: etree._Element) -> bool:
    """Return whether there is text in *parent* itself, besides white space."""
    return _has_text(parent, children_of(parent))


def _has_text(parent: etree._Element, children: list[etree._Element]) -> bool:
    if (text := parent.text) is not None and text.strip():
        return True
    return any((tail := child.tail) is not None and tail.strip() for child in children)


def _inner(parent: etree._Element, in_ours: bool) -> bytes:
    """The elements of *parent*, each as `payload_of`, and the texts between them, if there is any
    text."""
    text = has_text(parent)
    parts = [xml_text(parent.text or "").encode()] if text else []
    for child in children_of(parent):
        if isinstance(child.tag, str):
            parts.append(payload_of(child, in_ours=in_ours))
        if text:
            parts.append(xml_text(child.tail or "").encode())
    return b"".join(parts)


def what_else(
    element: etree._Element,
    attributes: frozenset[str] = frozenset(),
    read: Collection[etree._Element] = (),
    *,
    text: bool = False,
) -> bytes | None:
    """Write what *element* says besides what is read of it, as an element of its name in the
    namespace of ``d:data``; None where that is nothing.

    Args:
        attributes: Those that are read.
        read: The children that are read.
        text: Its text is read, too.
    """
    children = children_of(element)
    known_attributes = attributes.issuperset(element.keys())
    if (
        len(read) == len(children)
        and known_attributes
        and (text or not _has_text(element, children))
    ):
        return None  # As nearly always: all that stands in it is read.
    told = attributes_told(element, attributes)
    known = set(read)  # A list would be searched for each child.
    others = [child for child in elements(element) if child not in known]
    texts = []
    if not text and _has_text(element, children):
        texts = [element.text or "", *(child.tail or "" for child in children)]
    if not (told or others or texts):
        return None
    name = local_name(element)
    start = _start(element, told, name)
    inner = b"".join((xml_text("".join(texts).strip()).encode(), *map(payload_of, others)))
    return b"%b%b</d:%b>" % (start, inner, name.encode())


def _start(parent: etree._Element, told: tuple[tuple[str, str], ...], name: str = "data") -> bytes:
    """The start tag of ``d:data``, or of another *name*, with the attributes that are *told*."""
    # The stubs know of no default namespace.
    scope: Any = {
        prefix: uri
        for prefix, uri in parent.nsmap.items()
        if prefix != "d" and uri != names.DRAGOMAN_DATA
    }
    around = etree.Element("around", nsmap=scope)
    tag = f"{{{names.DRAGOMAN_DATA}}}{name}"
    made = etree.SubElement(around, tag, dict(told), nsmap={"d": names.DRAGOMAN_DATA})
    return payload_of(made).removesuffix(b"/>") + b">"


def parts_in(payload: bytes) -> bytes | None:
    """Return the content of the Body of which *payload* was made, where that was not one element
    alone; None for any other payload."""
    if not (payload.startswith(_START) and payload.endswith(_END)):
        return None
    inner = payload[len(_START) : -len(_END)]
    if b"d:" in inner:  # A part that was not written here may use the prefix.
        inner = _inner(parse_own(payload), False)
    return inner
