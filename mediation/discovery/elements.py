"""The elements of topic discovery, read one by one, strictly as the schema has them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from lxml import etree

from mediation import names
from mediation.discovery.errors import Fault, Malformed
from mediation.discovery.schemas import check_schema
from mediation.discovery.values import (
    MAX_DESCRIPTORS,
    MAX_MESSAGE,
    MAX_RESPONSE,
    MAX_RESULTS,
    Authorization,
    Creator,
    Delegation,
    DelegationRevocation,
    Descriptors,
    Element,
    EncryptedAdvertisement,
    EventSigners,
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
    Schema,
    SchemaType,
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
from mediation.discovery.xml_fields import (
    Children,
    boolean,
    canonical,
    choice,
    duration,
    grantee,
    identifier,
    instant,
    is_token,
    read_if,
    text,
    uri,
    uuid,
    word_of,
)
from mediation.soap.envelopes import local_name, namespace_of


def _id(element: etree._Element) -> str:
    """The ID of a signed element, which begins as the IDs of its kind do."""
    prefix = ELEMENTS[element.tag].prefix
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
            "The name of a Property is missing, or is not an NCName of at most 80 characters."
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


def _schema(element: etree._Element) -> Schema:
    found = Schema(
        word_of(SchemaType, element.get("type", ""), "The type of a Schema"), text(element, "type")
    )
    check_schema(found)
    return found


def _descriptors(element: etree._Element) -> Descriptors:
    if len(canonical(element)) > MAX_DESCRIPTORS:
        raise Malformed(f"Descriptors are larger than {MAX_DESCRIPTORS} bytes.")
    paths: list[str] = []
    texts: list[str] = []
    keywords: list[str] = []
    properties: list[Property] = []
    documents: list[bytes] = []
    schema: Schema | None = None
    signers: EventSigners | None = None
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
        elif name == "Schema" and schema is None:
            schema = _schema(child)
        elif name == "EventSigners" and signers is None:
            signers = choice(EventSigners, child)
        else:
            raise Malformed("Descriptors have an element that they cannot have.")
    return Descriptors(
        tuple(paths),
        tuple(texts),
        tuple(keywords),
        tuple(properties),
        tuple(documents),
        schema,
        signers,
    )


def _synopsis(element: etree._Element) -> Synopsis:
    kind = word_of(SynopsisType, element.get("type", ""), "The type of a Synopsis")
    namespace = element.get("namespace")
    if kind is not SynopsisType.PATH and namespace is not None:
        raise Malformed("A Synopsis has a namespace, which only a path may have.")
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
        raise Malformed("MaxResults is not a number above 0.")
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
    whom = grantee(parts.one("Grantee"))
    rights = [choice(Right, child) for child in (parts.one("Right"), *parts.many("Right"))]
    not_before = instant(parts.one("NotBefore"))
    not_after = instant(parts.one("NotAfter"))
    parts.end()
    if len(rights) > 2:
        raise Malformed("Delegation has more than two rights.")
    return Delegation(_id(element), topic_id, whom, frozenset(rights), not_before, not_after)


def _revocation(element: etree._Element) -> DelegationRevocation:
    parts = Children(element, "ID")
    topic_id = uuid(parts.one("TopicId"))
    delegation = uri(parts.one("DelegationId"))
    issued = instant(parts.one("Issued"))
    until = instant(parts.one("Until"))
    parts.end()
    if not (delegation.startswith("dlg-") and is_token(delegation)):
        raise Malformed("DelegationId is not the ID of a Delegation.")
    return DelegationRevocation(_id(element), topic_id, delegation, issued, until)


def _possession(element: etree._Element) -> Possession:
    parts = Children(element, "ID")
    topic_id = uuid(parts.one("TopicId"))
    right = choice(Right, parts.one("Right"))
    request = uri(parts.one("Request"))
    audience = uri(parts.one("Audience"))
    digest = read_if(text, parts.maybe("Digest"))
    issued = instant(parts.one("Issued"))
    expires = instant(parts.one("Expires"))
    parts.end()
    return Possession(_id(element), topic_id, right, request, audience, issued, expires, digest)


def _authorization(element: etree._Element) -> Authorization:
    # It is not signed, and as a header block has attributes of SOAP.
    parts = Children(element, *(str(name) for name in element.attrib if str(name).startswith("{")))
    possession = read_if(canonical, parts.maybe("Possession"))
    delegation = read_if(canonical, parts.maybe("Delegation"))
    parts.end()
    return Authorization(possession, delegation)


@dataclass(frozen=True, slots=True)
class Known:
    """An element: how it is read, how its ID begins (empty: it has none), its largest size."""

    read: Callable[[etree._Element], Element]
    prefix: str = "m-"
    most: int = MAX_MESSAGE


ELEMENTS: Mapping[str, Known] = {
    f"{{{names.TDN}}}{name}": known
    for name, known in {
        "NodeDiscoveryRequest": Known(_node_discovery_request),
        "NodeDiscoveryResponse": Known(_node_discovery_response),
        "TopicCreationRequest": Known(_creation_request),
        "TopicCreationResponse": Known(_creation_response),
        "TopicAdvertisement": Known(_advertisement, "adv-"),
        "EncryptedAdvertisement": Known(_encrypted_advertisement, "adv-"),
        "SignedTopicAdvertisement": Known(_signed_advertisement, "sadv-"),
        "TopicWithdrawal": Known(_withdrawal),
        "TopicDiscoveryRequest": Known(_discovery_request),
        "TopicDiscoveryResponse": Known(_discovery_response, most=MAX_RESPONSE),
        "Refusal": Known(_refusal),
        "Delegation": Known(_delegation, "dlg-"),
        "DelegationRevocation": Known(_revocation, "rev-"),
        "Possession": Known(_possession, "pos-"),
        "Authorization": Known(_authorization, ""),
    }.items()
}
CARRIERS = frozenset(
    f"{{{names.TDN}}}{name}"
    for name in (
        "TopicCreationResponse",
        "SignedTopicAdvertisement",
        "TopicDiscoveryResponse",
        "Authorization",
    )
)
"""The elements that others which are signed may stand in."""
