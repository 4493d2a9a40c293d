"""The Security header of an envelope, and the elements that signatures and keys refer to."""

import base64
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from lxml import etree

from filters import DocumentLimits, parse_document
from mediation import names
from mediation.soap.envelopes import Envelope, elements, read_envelope, whole_text
from mediation.ws_security.errors import invalid, unsupported_algorithm

SECURITY = f"{{{names.WSSE}}}Security"
SIGNATURE = f"{{{names.DSIG}}}Signature"
ENCRYPTED_KEY = f"{{{names.XENC}}}EncryptedKey"
_WSU_ID = f"{{{names.WSU}}}Id"
_ID_ATTRIBUTES = (_WSU_ID, "Id", "ID", "{http://www.w3.org/XML/1998/namespace}id")
_WITH_ID = etree.XPath("//*[@wsu:Id or @Id or @ID or @xml:id]", namespaces={"wsu": names.WSU})
_PREFIXES = f"{{{names.EXCLUSIVE_C14N}}}InclusiveNamespaces"
MAX_PREFIXES = 16
"""Prefixes that canonicalisation treats as the inclusive one does: more of them cost."""


class SecuredEnvelope(NamedTuple):
    """An envelope with a Security header for us.

    Attributes:
        body: The element itself.
    """

    envelope: Envelope
    root: etree._Element
    security: etree._Element
    body: etree._Element


def read_secured(
    octets: bytes, limits: DocumentLimits, learnt: set[str] | None = None
) -> SecuredEnvelope | None:
    """Parse an envelope; None where it has no Security header for us.

    Raises:
        MediationError: ``TOKEN_INVALID``: it has several.
        Refused: It is no envelope.
    """
    root = parse_document(octets, limits=limits, names=learnt)
    envelope = read_envelope(root)
    blocks = [one for one in envelope.headers if one.tag == SECURITY]
    if not blocks:
        return None
    if len(blocks) > 1:
        raise invalid("there are several Security headers")
    return SecuredEnvelope(envelope, root, blocks[0], elements(root)[-1])


def elements_by_id(root: etree._Element, ids: Iterable[str]) -> dict[str, etree._Element]:
    """The element of each of *ids*, by any attribute that somebody may take for an id.

    Raises:
        MediationError: ``TOKEN_INVALID``: there is none, or there are several: whoever checks a
            signature, and whoever acts on the message, could then see different ones.
    """
    wanted: dict[str, list[etree._Element]] = {one: [] for one in ids}
    with_id: list[etree._Element] = _WITH_ID(root)  # type: ignore[assignment]  # It finds elements.
    for element in with_id:
        for said in {element.get(name) for name in _ID_ATTRIBUTES}:
            if said in wanted:
                wanted[said].append(element)
    if any(len(found) != 1 for found in wanted.values()):
        raise invalid("an id that it refers to is there not once")
    return {one: found[0] for one, found in wanted.items()}


def reference_id(uri: str | None) -> str:
    """The id that *uri* refers to.

    Raises:
        MediationError: ``TOKEN_INVALID``: it refers to something else than an element of the
            message.
    """
    if not uri or not uri.startswith("#") or len(uri) > 1024 or "(" in uri or len(uri) < 2:
        raise invalid("it refers to something else than an element of the message")
    return uri[1:]


def set_id(element: etree._Element, id: str) -> str:
    """Give *element* an id, which it returns; the one that it had may be anything."""
    element.set(_WSU_ID, id)
    return id


def canonical(element: etree._Element, prefixes: Sequence[str] = ()) -> bytes:
    """*element* in exclusive canonical form, without comments.

    Raises:
        MediationError: ``TOKEN_INVALID``: it has none, for a namespace has a relative name.
    """
    try:
        found: bytes = etree.tostring(
            element,
            method="c14n",
            exclusive=True,
            with_comments=False,
            with_tail=False,
            inclusive_ns_prefixes=list(prefixes) or None,
        )
    except etree.C14NError:
        raise invalid("what is signed has no canonical form") from None
    return found


def read_canonicalization(method: etree._Element) -> tuple[str, ...]:
    """The prefixes that a transform or a CanonicalizationMethod names.

    Raises:
        MediationError: ``ALGORITHM_UNSUPPORTED``: it is not exclusive canonicalisation, or names
            too many.
    """
    uri = algorithm(method)
    if uri != names.EXCLUSIVE_C14N:
        raise unsupported_algorithm(uri[:200])
    parts = elements(method)
    if not parts:
        return ()
    if len(parts) > 1 or parts[0].tag != _PREFIXES:
        raise unsupported_algorithm("canonicalisation with other parameters")
    prefixes = tuple(parts[0].get("PrefixList", "").split())
    if len(prefixes) > MAX_PREFIXES:
        raise unsupported_algorithm(f"canonicalisation with more than {MAX_PREFIXES} prefixes")
    return prefixes


def algorithm(element: etree._Element) -> str:
    """The algorithm that *element* names."""
    return element.get("Algorithm", "").strip()


def only(parent: etree._Element, *tags: str) -> list[etree._Element]:
    """The children of *parent*, which has these in this order, and no others.

    Raises:
        MediationError: ``TOKEN_INVALID``.
    """
    found = elements(parent)
    if [one.tag for one in found] != list(tags):
        raise invalid(f"{str(parent.tag).rpartition('}')[2]} has other content than it may have")
    return found


def octets_in(element: etree._Element) -> bytes:
    """The octets that *element* has in Base64.

    Raises:
        MediationError: ``TOKEN_INVALID``.
    """
    try:
        return base64.b64decode("".join(whole_text(element).split()), validate=True)
    except ValueError:
        raise invalid("what should be Base64 is not") from None
