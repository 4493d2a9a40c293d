"""SOAP 1.1 and 1.2 envelopes: taken apart into header blocks and body children, and put together.

lxml elements stay inside this floor: what is kept of them leaves as octets.
"""

import re
from collections.abc import Iterable
from typing import Any, NamedTuple
from xml.sax.saxutils import escape, quoteattr

from lxml import etree

from filters import Reason

# Offered from here, too, beside the other readers of an envelope's elements.
from filters.documents import text_of as text_of
from filters.documents import whole_text as whole_text
from mediation import names
from mediation.model.errors import MediationError
from mediation.model.versions import Soap, Wsa

UNDERSTOOD: frozenset[str] = frozenset(
    {
        *(wsa.value for wsa in Wsa),
        names.WSSE,
        names.WSE_2004_08,
        names.WSE_2011_03,
        names.WSN_1_3,
        names.WSN_1_3_SLASH,
        names.WSN_IBM,
        names.WSN_2004_06,
        names.SYNAPSE_TOPIC,
        names.WSMAN,
        names.WSMAN_MICROSOFT,
        names.WSMAN_MACHINE_ID,
        names.GRID_EVENTS,
    }
)
"""Namespaces of header blocks that count as understood. Security is ignored until it is asked for;
`management.headers` looks at the blocks of WS-Management one by one."""

_OURS = {
    Soap.V1_1: frozenset({"", names.SOAP_NEXT_1_1}),
    Soap.V1_2: frozenset({"", names.SOAP_NEXT_1_2, names.SOAP_RECEIVER_1_2}),
}


class _Form(NamedTuple):
    """The names of the parts of an envelope in a version of SOAP, and the roles that we play."""

    soap: Soap
    header: str
    body: str
    role: str
    ours: frozenset[str]


_FORMS = {
    f"{{{soap.value}}}Envelope": _Form(
        soap,
        f"{{{soap.value}}}Header",
        f"{{{soap.value}}}Body",
        f"{{{soap.value}}}{'actor' if soap is Soap.V1_1 else 'role'}",
        _OURS[soap],
    )
    for soap in Soap
}
"""Names in a version of SOAP, by the expanded name of the envelope."""


class Envelope(NamedTuple):
    """An envelope taken apart: the header blocks for us, their expanded names, and the body's child
    elements."""

    soap: Soap
    headers: tuple[etree._Element, ...]
    names: tuple[str, ...]
    body: tuple[etree._Element, ...]


def children_of(parent: etree._Element) -> list[etree._Element]:
    """The children of *parent*, comments among them."""
    # A slice is quicker than an iterator; the stubs know none.
    untyped: Any = parent
    found: list[etree._Element] = untyped[:]
    return found


def elements(parent: etree._Element) -> list[etree._Element]:
    """The child elements of *parent*: no comments."""
    # As `children_of`, spelled out. The tag of a comment is a function.
    untyped: Any = parent
    return [child for child in untyped[:] if isinstance(child.tag, str)]


def octets_of(element: etree._Element) -> bytes:
    """*element* as a document of its own, every namespace in scope declared on it."""
    return etree.tostring(element, encoding="UTF-8", with_tail=False)


def local_name(element: etree._Element) -> str:
    return str(element.tag).rpartition("}")[2]


def namespace_of(element: etree._Element) -> str:
    # Much quicker than etree.QName.
    return str(element.tag)[1:].rpartition("}")[0]


def attributes_of(element: etree._Element) -> tuple[tuple[str, str], ...]:
    """The expanded names of the attributes of *element*, and their values."""
    untyped: Any = element
    return tuple(untyped.items())


def namespaces_of(element: etree._Element) -> tuple[tuple[str, str], ...]:
    """The prefixes in scope on *element*, sorted; the default namespace has the prefix ``""``."""
    return sorted_namespaces(element.nsmap.items())


def sorted_namespaces(declared: Iterable[tuple[str | None, str]]) -> tuple[tuple[str, str], ...]:
    """Namespaces as `namespaces_of` has them."""
    return tuple(sorted([(prefix or "", uri) for prefix, uri in declared if uri]))


def soap_of(root: etree._Element) -> Soap:
    """The SOAP version of an envelope.

    Raises:
        MediationError: ``ENVELOPE`` where *root* is not an envelope, ``VERSION_MISMATCH`` where it
            is one of an unknown version (SOAP 1.2 Part 1, section 5.4.7).
    """
    return _form_of(root).soap


def _form_of(root: etree._Element) -> _Form:
    form = _FORMS.get(root.tag)
    if form is not None:
        return form
    if local_name(root) != "Envelope":
        raise MediationError(Reason.ENVELOPE, "The document is not a SOAP envelope.")
    raise MediationError(
        Reason.VERSION_MISMATCH, "The envelope's namespace is neither SOAP 1.1's nor 1.2's."
    )


def read_envelope(root: etree._Element) -> Envelope:
    """Take an envelope apart.

    Raises:
        MediationError: as `soap_of`; ``ENVELOPE`` for children out of place (SOAP 1.1
            section 4, SOAP 1.2 Part 1 section 5).
    """
    form = _form_of(root)
    children = elements(root)
    header = children.pop(0) if children and children[0].tag == form.header else None
    if len(children) != 1 or children[0].tag != form.body:
        raise MediationError(
            Reason.ENVELOPE, "An envelope holds at most one Header, then exactly one Body."
        )
    blocks = [] if header is None else elements(header)
    if any(map(etree._Element.keys, blocks)):
        role, ours = form.role, form.ours
        blocks = [
            block for block in blocks if (meant := block.get(role)) is None or meant.strip() in ours
        ]
    tags = tuple([block.tag for block in blocks])
    return Envelope(form.soap, tuple(blocks), tags, tuple(elements(children[0])))


def _stripped(value: str | None) -> str:
    return (value or "").strip()


def check_understood(envelope: Envelope, strange: Iterable[int]) -> None:
    """Refuse an envelope with a mandatory header block that nobody here understands.

    Args:
        strange: The places of those header blocks that nobody here understands.

    Raises:
        MediationError: ``NOT_UNDERSTOOD``, its names the blocks' (SOAP 1.2 Part 1, section 5.4.8).
    """
    unknown = tuple(
        envelope.names[place]
        for place in strange
        if is_mandatory(envelope.headers[place], envelope.soap)
    )
    if unknown:
        raise MediationError(
            Reason.NOT_UNDERSTOOD,
            "A mandatory header block is not understood.",
            names=unknown,
        )


def is_mandatory(block: etree._Element, soap: Soap) -> bool:
    """Return whether a header block says that it must be understood."""
    return _stripped(block.get(f"{{{soap.value}}}mustUnderstand")) in ("1", "true")


def write_envelope(soap: Soap, wsa: Wsa | None, header: str, body: str) -> bytes:
    """Write an envelope around serialised header blocks and body. Its prefixes are ``s`` and
    ``wsa``."""
    return f"{envelope_start(soap, wsa)}{header}{ENVELOPE_MIDDLE}{body}{ENVELOPE_END}".encode()


def envelope_start(soap: Soap, wsa: Wsa | None) -> str:
    addressing = f' xmlns:wsa="{wsa.value}"' if wsa else ""
    return f'<s:Envelope xmlns:s="{soap.value}"{addressing}><s:Header>'


_NOT_IN_XML = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
ENVELOPE_MIDDLE = "</s:Header><s:Body>"
ENVELOPE_END = "</s:Body></s:Envelope>"


def http_headers(soap: Soap, action: str) -> tuple[tuple[str, str], ...]:
    """Make the Content-Type and action headers of a message; an action that HTTP cannot hold is
    left out."""
    safe = (
        action
        if action.isascii() and action.isprintable() and not set(action) & {'"', "\\"}
        else ""
    )
    if soap is Soap.V1_1:
        return (("Content-Type", "text/xml; charset=utf-8"), ("SOAPAction", f'"{safe}"'))
    parameter = f'; action="{safe}"' if safe else ""
    return (("Content-Type", f"application/soap+xml; charset=utf-8{parameter}"),)


def xml_text(text: str) -> str:
    """Escape *text* as element content; a character that XML 1.0 cannot hold becomes U+FFFD."""
    if text.isprintable():
        if not ("&" in text or "<" in text or ">" in text):
            return text  # Nearly always so.
        return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return escape(_printable(text), {"\r": "&#13;"})


def xml_attribute(text: str) -> str:
    """Escape and quote *text* as an attribute's value."""
    if text.isprintable() and not ("&" in text or "<" in text or ">" in text or '"' in text):
        return f'"{text}"'
    return quoteattr(_printable(text))


def _printable(text: str) -> str:
    return text if text.isprintable() else _NOT_IN_XML.sub("\ufffd", text)
