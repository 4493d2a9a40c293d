"""Messages of topic discovery, from bytes to values.

    bytes -> element -> signature cut out -> canonical form -> value
                             |                    |
                             |                    +-- what was signed: its digest is checked
                             +-- what signs it

A value is made of the very bytes that a signature covers, so that nobody can sign one thing and
show another. The rules of the schema (`mediation/schemas/tdn-1.xsd`) are code here, because
strangers send these messages at a high rate, with the bounds that the schema does not say.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from lxml import etree

from filters import DocumentLimits, parse_document
from filters.documents import parse_own
from mediation import names
from mediation.discovery.errors import Fault, Malformed
from mediation.discovery.parts import (
    Children,
    boolean,
    canonical,
    choice,
    duration,
    identifier,
    instant,
    is_token,
    read_if,
    text,
    uri,
    uuid,
    word_of,
)
from mediation.discovery.values import (
    ID_PREFIXES,
    MAX_DESCRIPTORS,
    MAX_MESSAGE,
    MAX_RESPONSE,
    MAX_RESULTS,
    Authorization,
    Creator,
    Delegation,
    Descriptors,
    Element,
    EncryptedAdvertisement,
    Head,
    NodeDiscoveryRequest,
    NodeDiscoveryResponse,
    Possession,
    Property,
    PropertyType,
    Purpose,
    Query,
    Refusal,
    Right,
    Scope,
    SignedTopicAdvertisement,
    Synopsis,
    SynopsisType,
    TopicAdvertisement,
    TopicCreationRequest,
    TopicCreationResponse,
    TopicDiscoveryRequest,
    TopicDiscoveryResponse,
    TopicWithdrawal,
)
from mediation.discovery.xml_signature import XmlSignature, cut_signature
from mediation.soap.envelopes import local_name, namespace_of

_Value = TypeVar("_Value", bound=Element)
_Value_co = TypeVar("_Value_co", bound=Element, covariant=True)


@dataclass(frozen=True, slots=True)
class Received(Generic[_Value_co]):
    """A document of topic discovery, read.

    Attributes:
        octets: As it came.
        signed: Its element in exclusive canonical form without its own signature: what *value* is
            made of, and what a signature has to cover.
        id: Its ID; empty where it has none, as an Authorization.
        signature: What is said to sign it; None: nothing does. Whether it does,
            `mediation.discovery.signatures` tells.
    """

    value: _Value_co
    octets: bytes
    signed: bytes
    id: str
    signature: XmlSignature | None


def read(octets: bytes, *, learnt: set[str] | None = None) -> Received[Element]:
    """Read a document of topic discovery.

    Args:
        learnt: Collects the names in the document, as `parse_document` does.

    Raises:
        Refused: It is no XML, has a document type or an instruction, or is too large or complex.
        SignatureRefused: Its signature has another shape than the one that there is.
        Malformed: It is none, or breaks the schema or a bound.
    """
    return _read(parse_document(octets, charset="utf-8", limits=_LIMITS, names=learnt), octets)


def _read(root: etree._Element, octets: bytes) -> Received[Element]:
    known = _ELEMENTS.get(root.tag)
    if known is None:
        raise Malformed("The document is no message of topic discovery.", value=str(root.tag)[:200])
    if len(octets) > known.most:
        raise Malformed(f"{local_name(root)} is larger than {known.most} bytes.")
    signature = cut_signature(root) if known.prefix else None
    signed = canonical(root)
    value = known.read(_whole(signed))
    return Received(value, octets, signed, root.get("ID", ""), signature)


def read_as(
    kind: type[_Value], octets: bytes, *, learnt: set[str] | None = None
) -> Received[_Value]:
    """Read a document that has to be a *kind*; else as `read`.

    Raises:
        Malformed: Also where it is another.
    """
    received = read(octets, learnt=learnt)
    if not isinstance(received.value, kind):
        raise Malformed(f"The document is no {kind.__name__}.")
    return received  # type: ignore[return-value]  # Its value has just been looked at.


def read_carried(octets: bytes) -> Received[TopicAdvertisement | EncryptedAdvertisement]:
    """Read the advertisement that a value carries; else as `read_advertisement`. Its bytes were
    part of a document that has been read, which had no document type and kept the limits."""
    return _advertisement_in(_read(parse_own(octets), octets))


def read_advertisement(
    octets: bytes, *, learnt: set[str] | None = None
) -> Received[TopicAdvertisement | EncryptedAdvertisement]:
    """Read an advertisement, encrypted or not; else as `read_as`."""
    return _advertisement_in(read(octets, learnt=learnt))


def _advertisement_in(
    received: Received[Element],
) -> Received[TopicAdvertisement | EncryptedAdvertisement]:
    if not isinstance(received.value, TopicAdvertisement | EncryptedAdvertisement):
        raise Malformed("The document is no advertisement of a topic.")
    return received  # type: ignore[return-value]  # As above.


_LIMITS = DocumentLimits(octets=MAX_RESPONSE)
_IDS = etree.XPath(
    "//@*[local-name() = 'ID' or local-name() = 'Id' or local-name() = 'id']", smart_strings=True
)


def _whole(signed: bytes) -> etree._Element:
    """Parse what was signed, and refuse IDs where there may be none: one that looks like that of a
    signed element, in a document within the descriptors, or twice.

    Other toolkits take attributes ``Id``, ``id`` and ``xml:id`` for IDs, too.
    """
    root = parse_own(signed)
    seen = set()
    found: list[etree._ElementUnicodeResult] = _IDS(root)  # type: ignore[assignment]
    for value in found:
        if value.strip().startswith(ID_PREFIXES):
            owner = value.getparent()
            if value in seen or owner is None or not _may_have_id(owner, value):
                raise Malformed("An ID stands where none may, or twice.", value=value[:100])
            seen.add(value)
    return root


def _may_have_id(owner: etree._Element, value: str) -> bool:
    """Whether *owner* is signed, as far up as its document goes."""
    known = _ELEMENTS.get(owner.tag)
    if known is None or not known.prefix or owner.get("ID") != value:
        return False
    above = [element.tag for element in owner.iterancestors()]
    return all(tag in _CARRIERS for tag in above)


def _id(element: etree._Element) -> str:
    """The ID of a signed element, which begins as the IDs of its kind do."""
    prefix = _ELEMENTS[element.tag].prefix
    word = element.get("ID", "")
    if not word.startswith(prefix) or not is_token(word):
        raise Malformed(f"{local_name(element)} has no ID that begins with {prefix}.")
    return word


def _message(element: etree._Element) -> tuple[Head, Children]:
    """The head of a message, and what follows it."""
    parts = Children(element, "ID")
    _id(element)
    return _head(parts.one("Head")), parts


def _head(element: etree._Element) -> Head:
    parts = Children(element)
    message_id = uuid(parts.one("MessageId"))
    sender = identifier(parts.one("From"))
    to = read_if(identifier, parts.maybe("To"))
    in_reply_to = read_if(uuid, parts.maybe("InReplyTo"))
    issued = instant(parts.one("Issued"))
    expires = instant(parts.one("Expires"))
    parts.end()
    return Head(message_id, sender, issued, expires, to, in_reply_to)


def _node_discovery_request(element: etree._Element) -> NodeDiscoveryRequest:
    head, parts = _message(element)
    purposes = tuple(choice(Purpose, child) for child in parts.many("Purpose"))
    institution = read_if(text, parts.maybe("Institution"))
    parts.end()
    return NodeDiscoveryRequest(head, purposes, institution)


def _node_discovery_response(element: etree._Element) -> NodeDiscoveryResponse:
    head, parts = _message(element)
    topic = text(parts.one("Topic"))
    types = tuple(choice(SynopsisType, child) for child in parts.many("SynopsisType"))
    dialects = tuple(uri(child) for child in parts.many("Dialect"))
    lifetime = read_if(duration, parts.maybe("MaxLifetime"))
    parts.end()
    return NodeDiscoveryResponse(head, topic, types, dialects, lifetime)


def _creator(element: etree._Element) -> Creator:
    parts = Children(element)
    entity_id = identifier(parts.one("EntityId"))
    name = read_if(text, parts.maybe("Name"))
    institution = read_if(text, parts.maybe("Institution"))
    parts.end()
    return Creator(entity_id, name, institution)


def _property(element: etree._Element) -> Property:
    value = text(element, "name", "type")
    name = element.get("name", "").strip()
    if not is_token(name):
        raise Malformed(
            "A Property has no name, or one that is no NCName of at most 80 characters."
        )
    kind = word_of(PropertyType, element.get("type", PropertyType.STRING.value), "The type")
    found = Property(name, value, kind)
    try:
        _ = found.typed
    except ValueError:
        raise Malformed(f"A Property of type {kind.value} has no such value.") from None
    return found


def _document(element: etree._Element) -> bytes:
    """The one element within a Document."""
    parts = Children(element)
    inside = parts.rest()
    if len(inside) != 1:
        raise Malformed("A Document has not exactly one element.")
    return canonical(inside[0])


def _descriptors(element: etree._Element) -> Descriptors:
    if len(canonical(element)) > MAX_DESCRIPTORS:
        raise Malformed(f"Descriptors are larger than {MAX_DESCRIPTORS} bytes.")
    paths: list[str] = []
    texts: list[str] = []
    keywords: list[str] = []
    properties: list[Property] = []
    documents: list[bytes] = []
    kinds: Mapping[str, list[str]] = {"Path": paths, "Text": texts, "Keyword": keywords}
    children = Children(element).rest()
    if not children:
        raise Malformed("Descriptors describe nothing.")
    for child in children:
        name = local_name(child) if namespace_of(child) == names.TDN else ""
        if name in kinds:
            kinds[name].append(text(child))
        elif name == "Property":
            properties.append(_property(child))
        elif name == "Document":
            documents.append(_document(child))
        else:
            raise Malformed("Descriptors have an element that they cannot have.")
    return Descriptors(
        tuple(paths), tuple(texts), tuple(keywords), tuple(properties), tuple(documents)
    )


def _synopsis(element: etree._Element) -> Synopsis:
    kind = word_of(SynopsisType, element.get("type", ""), "The type of a Synopsis")
    namespace = element.get("namespace")
    if kind is not SynopsisType.PATH and namespace is not None:
        raise Malformed("A Synopsis that is no path has a namespace.")
    if kind is SynopsisType.PROPERTIES:
        parts = Children(element, "type")
        properties = tuple(_property(child) for child in parts.many("Property"))
        parts.end()
        return Synopsis(kind, properties=properties)
    if kind is SynopsisType.XML:
        parts = Children(element, "type")
        document = _document(parts.one("Document"))
        parts.end()
        return Synopsis(kind, document=document)
    return Synopsis(kind, text(element, "type", "namespace"), namespace)


def _creation_request(element: etree._Element) -> TopicCreationRequest:
    head, parts = _message(element)
    creator = _creator(parts.one("Creator"))
    lifetime = read_if(duration, parts.maybe("Lifetime"))
    descriptors = _descriptors(parts.one("Descriptors"))
    synopsis = _synopsis(parts.one("Synopsis"))
    encrypted = read_if(boolean, parts.maybe("Encrypted")) or False
    parts.end()
    return TopicCreationRequest(head, creator, descriptors, synopsis, lifetime, encrypted)


def _advertisement(element: etree._Element) -> TopicAdvertisement:
    parts = Children(element, "ID")
    _id(element)
    topic_id = uuid(parts.one("TopicId"))
    node = identifier(parts.one("Node"))
    creator = _creator(parts.one("Creator"))
    created = instant(parts.one("Created"))
    expires = instant(parts.one("Expires"))
    descriptors = _descriptors(parts.one("Descriptors"))
    synopsis = _synopsis(parts.one("Synopsis"))
    parts.end()
    return TopicAdvertisement(topic_id, node, creator, created, expires, descriptors, synopsis)


def _encrypted_advertisement(element: etree._Element) -> EncryptedAdvertisement:
    parts = Children(element, "ID")
    _id(element)
    topic_id = uuid(parts.one("TopicId"))
    node = identifier(parts.one("Node"))
    creator = _creator(parts.one("Creator"))
    created = instant(parts.one("Created"))
    expires = instant(parts.one("Expires"))
    data = parts.take(f"{{{names.XENC}}}EncryptedData")
    if data is None:
        raise Malformed("EncryptedAdvertisement lacks EncryptedData, or has it out of place.")
    parts.end()
    return EncryptedAdvertisement(topic_id, node, creator, created, expires, canonical(data))


def _enclosed(parts: Children) -> etree._Element:
    found = parts.maybe("TopicAdvertisement")
    return found if found is not None else parts.one("EncryptedAdvertisement")


def _creation_response(element: etree._Element) -> TopicCreationResponse:
    head, parts = _message(element)
    advertisement = canonical(_enclosed(parts))
    parts.end()
    return TopicCreationResponse(head, advertisement)


def _signed_advertisement(element: etree._Element) -> SignedTopicAdvertisement:
    parts = Children(element, "ID")
    _id(element)
    issued = instant(parts.one("Issued"))
    inside = _enclosed(parts)
    parts.end()
    topic_id = inside.find(f"{{{names.TDN}}}TopicId")
    if topic_id is None:
        raise Malformed("An advertisement lacks its TopicId.")
    return SignedTopicAdvertisement(issued, uuid(topic_id), canonical(inside))


def _withdrawal(element: etree._Element) -> TopicWithdrawal:
    head, parts = _message(element)
    topic_id = uuid(parts.one("TopicId"))
    parts.end()
    return TopicWithdrawal(head, topic_id)


def _discovery_request(element: etree._Element) -> TopicDiscoveryRequest:
    head, parts = _message(element)
    query = parts.one("Query")
    dialect = query.get("dialect")
    if dialect is None:
        raise Malformed("Query has no dialect.")
    words = text(query, "dialect")
    created_after = read_if(instant, parts.maybe("CreatedAfter"))
    created_before = read_if(instant, parts.maybe("CreatedBefore"))
    expires_after = read_if(instant, parts.maybe("ExpiresAfter"))
    expires_before = read_if(instant, parts.maybe("ExpiresBefore"))
    at_least = read_if(duration, parts.maybe("ValidityAtLeast"))
    at_most = read_if(duration, parts.maybe("ValidityAtMost"))
    valid_until = read_if(instant, parts.maybe("ValidUntil"))
    creator = read_if(identifier, parts.maybe("Creator"))
    most = read_if(_max_results, parts.maybe("MaxResults"))
    scope = parts.maybe("Scope")
    parts.end()
    return TopicDiscoveryRequest(
        head,
        Query(dialect.strip(), words),
        created_after,
        created_before,
        expires_after,
        expires_before,
        at_least,
        at_most,
        valid_until,
        creator,
        most,
        # A default of the schema is also what an empty element means.
        Scope.NODES if scope is None or not text(scope) else choice(Scope, scope),
    )


def _max_results(element: etree._Element) -> int:
    """Read a number above 0; one above `MAX_RESULTS` is read as that."""
    word = text(element).strip().removeprefix("+")
    if not (word.isascii() and word.isdecimal() and len(word) <= 40 and int(word)):
        raise Malformed("MaxResults is no number above 0.")
    return min(int(word), MAX_RESULTS)


def _discovery_response(element: etree._Element) -> TopicDiscoveryResponse:
    head, parts = _message(element)
    more = parts.maybe("More")
    # A thousand are cut out, and none is read: most are never used.
    found = parts.many("SignedTopicAdvertisement")
    parts.end()
    if len(found) > MAX_RESULTS:
        raise Malformed(f"TopicDiscoveryResponse has more than {MAX_RESULTS} advertisements.")
    return TopicDiscoveryResponse(
        head,
        tuple(canonical(child) for child in found),
        False if more is None or not text(more) else boolean(more),
    )


def _refusal(element: etree._Element) -> Refusal:
    head, parts = _message(element)
    reason = choice(Fault, parts.one("Reason"))
    words = read_if(text, parts.maybe("Text"))
    parts.end()
    return Refusal(head, reason, words)


def _delegation(element: etree._Element) -> Delegation:
    parts = Children(element, "ID")
    topic_id = uuid(parts.one("TopicId"))
    grantee = identifier(parts.one("Grantee"))
    rights = [choice(Right, child) for child in (parts.one("Right"), *parts.many("Right"))]
    not_before = instant(parts.one("NotBefore"))
    not_after = instant(parts.one("NotAfter"))
    parts.end()
    if len(rights) > 2:
        raise Malformed("Delegation has more than two rights.")
    return Delegation(_id(element), topic_id, grantee, frozenset(rights), not_before, not_after)


def _possession(element: etree._Element) -> Possession:
    parts = Children(element, "ID")
    topic_id = uuid(parts.one("TopicId"))
    right = choice(Right, parts.one("Right"))
    request = uri(parts.one("Request"))
    audience = uri(parts.one("Audience"))
    issued = instant(parts.one("Issued"))
    expires = instant(parts.one("Expires"))
    parts.end()
    return Possession(_id(element), topic_id, right, request, audience, issued, expires)


def _authorization(element: etree._Element) -> Authorization:
    # It is not signed, and as a header block has attributes of SOAP.
    parts = Children(element, *(str(name) for name in element.attrib if str(name).startswith("{")))
    possession = canonical(parts.one("Possession"))
    delegation = read_if(canonical, parts.maybe("Delegation"))
    parts.end()
    return Authorization(possession, delegation)


@dataclass(frozen=True, slots=True)
class _Known:
    """An element: how it is read, how its ID begins (empty: it has none), its largest size."""

    read: Callable[[etree._Element], Element]
    prefix: str = "m-"
    most: int = MAX_MESSAGE


_ELEMENTS: Mapping[str, _Known] = {
    f"{{{names.TDN}}}{name}": known
    for name, known in {
        "NodeDiscoveryRequest": _Known(_node_discovery_request),
        "NodeDiscoveryResponse": _Known(_node_discovery_response),
        "TopicCreationRequest": _Known(_creation_request),
        "TopicCreationResponse": _Known(_creation_response),
        "TopicAdvertisement": _Known(_advertisement, "adv-"),
        "EncryptedAdvertisement": _Known(_encrypted_advertisement, "adv-"),
        "SignedTopicAdvertisement": _Known(_signed_advertisement, "sadv-"),
        "TopicWithdrawal": _Known(_withdrawal),
        "TopicDiscoveryRequest": _Known(_discovery_request),
        "TopicDiscoveryResponse": _Known(_discovery_response, most=MAX_RESPONSE),
        "Refusal": _Known(_refusal),
        "Delegation": _Known(_delegation, "dlg-"),
        "Possession": _Known(_possession, "pos-"),
        "Authorization": _Known(_authorization, ""),
    }.items()
}
_CARRIERS = frozenset(
    f"{{{names.TDN}}}{name}"
    for name in (
        "TopicCreationResponse",
        "SignedTopicAdvertisement",
        "TopicDiscoveryResponse",
        "Authorization",
    )
)
"""The elements that others which are signed may stand in."""
