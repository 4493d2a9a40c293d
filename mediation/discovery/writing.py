"""Messages of topic discovery, from values to bytes: exclusive canonical form, unsigned.

A signed element that another carries is put in as it is.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from filters.documents import parse_own
from mediation import names
from mediation.discovery.values import (
    MAX_RESULTS,
    Authorization,
    Creator,
    Delegation,
    DelegationRevocation,
    Descriptors,
    Element,
    EncryptedAdvertisement,
    Head,
    NodeDiscoveryRequest,
    NodeDiscoveryResponse,
    Possession,
    Property,
    PropertyType,
    Refusal,
    Right,
    Schema,
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
    attribute,
    canonical,
    duration_text,
    instant_text,
    leaf,
    urn,
)


def write(value: Element) -> bytes:
    """Write *value* as a document of its own, without a signature.

    Raises:
        ValueError: It asks for more results than there can be, or for none.
        Malformed: A document within it has a relative namespace.
        lxml.etree.XMLSyntaxError: One is not well-formed.
    """
    id, content = _WRITERS[type(value)](value)
    name = type(value).__name__
    start = f'<tdn:{name} xmlns:tdn="{names.TDN}"{attribute("ID", id)}>'
    # What is put in may declare what its carrier has declared.
    return canonical(parse_own(f"{start}{content}</tdn:{name}>".encode()))


def canonical_document(octets: bytes) -> bytes:
    """Write a document of descriptors or of a synopsis as it is signed: in exclusive canonical
    form, without comments."""
    return canonical(parse_own(octets))


def _head(head: Head) -> str:
    return (
        "<tdn:Head>"
        f"{leaf('MessageId', urn(head.message_id))}{leaf('From', head.sender)}"
        f"{leaf('To', head.to)}"
        f"{leaf('InReplyTo', None if head.in_reply_to is None else urn(head.in_reply_to))}"
        f"{leaf('Issued', instant_text(head.issued))}{leaf('Expires', instant_text(head.expires))}"
        "</tdn:Head>"
    )


def _message(head: Head, *content: str) -> tuple[str, str]:
    return f"m-{head.message_id}", _head(head) + "".join(content)


def _node_discovery_request(value: NodeDiscoveryRequest) -> tuple[str, str]:
    purposes = (leaf("Purpose", purpose.value) for purpose in value.purposes)
    return _message(value.head, *purposes, leaf("Institution", value.institution))


def _node_discovery_response(value: NodeDiscoveryResponse) -> tuple[str, str]:
    lifetime = value.max_lifetime
    return _message(
        value.head,
        leaf("Topic", value.topic),
        *(leaf("SynopsisType", kind.value) for kind in value.synopsis_types),
        *(leaf("Dialect", dialect) for dialect in value.dialects),
        leaf("MaxLifetime", None if lifetime is None else duration_text(lifetime)),
    )


def _creator(creator: Creator) -> str:
    return (
        f"<tdn:Creator>{leaf('EntityId', creator.entity_id)}{leaf('Name', creator.name)}"
        f"{leaf('Institution', creator.institution)}</tdn:Creator>"
    )


def _properties(properties: Iterable[Property]) -> str:
    return "".join(
        leaf(
            "Property",
            one.value,
            attribute("name", one.name)
            + attribute("type", None if one.type is PropertyType.STRING else one.type.value),
        )
        for one in properties
    )


def _document(octets: bytes) -> str:
    return f"<tdn:Document>{canonical_document(octets).decode()}</tdn:Document>"


def _schema(schema: Schema | None) -> str:
    if schema is None:
        return ""
    return leaf("Schema", schema.text, attribute("type", schema.type.value))


def _descriptors(descriptors: Descriptors) -> str:
    return (
        "<tdn:Descriptors>"
        + "".join(leaf("Path", path) for path in descriptors.paths)
        + "".join(leaf("Text", text) for text in descriptors.texts)
        + "".join(leaf("Keyword", keyword) for keyword in descriptors.keywords)
        + _properties(descriptors.properties)
        + "".join(map(_document, descriptors.documents))
        + _schema(descriptors.schema)
        + leaf("EventSigners", None if descriptors.signers is None else descriptors.signers.value)
        + "</tdn:Descriptors>"
    )


def _synopsis(synopsis: Synopsis) -> str:
    attributes = attribute("namespace", synopsis.namespace) + attribute("type", synopsis.type.value)
    if synopsis.type is SynopsisType.PROPERTIES:
        content = _properties(synopsis.properties)
    elif synopsis.type is SynopsisType.XML:
        content = _document(synopsis.document or b"")
    else:
        return leaf("Synopsis", synopsis.text, attributes)
    return f"<tdn:Synopsis{attributes}>{content}</tdn:Synopsis>"


def _creation_request(value: TopicCreationRequest) -> tuple[str, str]:
    return _message(
        value.head,
        _creator(value.creator),
        leaf("Lifetime", None if value.lifetime is None else duration_text(value.lifetime)),
        _descriptors(value.descriptors),
        _synopsis(value.synopsis),
        leaf("Encrypted", "true" if value.encrypted else None),
    )


def _clear(value: TopicAdvertisement | EncryptedAdvertisement) -> str:
    return (
        f"{leaf('TopicId', urn(value.topic_id))}{leaf('Node', value.node)}{_creator(value.creator)}"
        f"{leaf('Created', instant_text(value.created))}"
        f"{leaf('Expires', instant_text(value.expires))}"
    )


def _advertisement(value: TopicAdvertisement) -> tuple[str, str]:
    content = _clear(value) + _descriptors(value.descriptors) + _synopsis(value.synopsis)
    return f"adv-{value.topic_id}", content


def _encrypted_advertisement(value: EncryptedAdvertisement) -> tuple[str, str]:
    return f"adv-{value.topic_id}", _clear(value) + value.data.decode()


def _creation_response(value: TopicCreationResponse) -> tuple[str, str]:
    return _message(value.head, value.advertisement.decode())


def _signed_advertisement(value: SignedTopicAdvertisement) -> tuple[str, str]:
    issued = leaf("Issued", instant_text(value.issued))
    return f"sadv-{value.topic_id}", issued + value.advertisement.decode()


def _withdrawal(value: TopicWithdrawal) -> tuple[str, str]:
    return _message(value.head, leaf("TopicId", urn(value.topic_id)))


def _discovery_request(value: TopicDiscoveryRequest) -> tuple[str, str]:
    if value.max_results is not None and not 1 <= value.max_results <= MAX_RESULTS:
        raise ValueError(f"max_results is not between 1 and {MAX_RESULTS}")
    times = {
        "CreatedAfter": value.created_after,
        "CreatedBefore": value.created_before,
        "ExpiresAfter": value.expires_after,
        "ExpiresBefore": value.expires_before,
    }
    lengths = {
        "ValidityAtLeast": value.validity_at_least,
        "ValidityAtMost": value.validity_at_most,
    }
    return _message(
        value.head,
        leaf("Query", value.query.text, attribute("dialect", value.query.dialect)),
        *(leaf(name, instant_text(time)) for name, time in times.items() if time is not None),
        *(leaf(name, duration_text(one)) for name, one in lengths.items() if one is not None),
        leaf("ValidUntil", None if value.valid_until is None else instant_text(value.valid_until)),
        leaf("Creator", value.creator),
        leaf("MaxResults", None if value.max_results is None else str(value.max_results)),
        leaf("Scope", None if value.scope is Scope.NODES else value.scope.value),
    )


def _discovery_response(value: TopicDiscoveryResponse) -> tuple[str, str]:
    found = (octets.decode() for octets in value.advertisements)
    return _message(value.head, leaf("More", "true" if value.more else "false"), *found)


def _refusal(value: Refusal) -> tuple[str, str]:
    return _message(value.head, leaf("Reason", value.reason.value), leaf("Text", value.text))


def _delegation(value: Delegation) -> tuple[str, str]:
    return value.id, "".join(
        (
            leaf("TopicId", urn(value.topic_id)),
            leaf("Grantee", value.grantee),
            *(leaf("Right", right.value) for right in Right if right in value.rights),
            leaf("NotBefore", instant_text(value.not_before)),
            leaf("NotAfter", instant_text(value.not_after)),
        )
    )


def _revocation(value: DelegationRevocation) -> tuple[str, str]:
    return value.id, "".join(
        (
            leaf("TopicId", urn(value.topic_id)),
            leaf("DelegationId", value.delegation),
            leaf("Issued", instant_text(value.issued)),
            leaf("Until", instant_text(value.until)),
        )
    )


def _possession(value: Possession) -> tuple[str, str]:
    return value.id, "".join(
        (
            leaf("TopicId", urn(value.topic_id)),
            leaf("Right", value.right.value),
            leaf("Request", value.request),
            leaf("Audience", value.audience),
            "" if value.digest is None else leaf("Digest", value.digest),
            leaf("Issued", instant_text(value.issued)),
            leaf("Expires", instant_text(value.expires)),
        )
    )


def _authorization(value: Authorization) -> tuple[None, str]:
    return None, ((value.possession or b"") + (value.delegation or b"")).decode()


_WRITERS: Mapping[type, Callable[[Any], tuple[str | None, str]]] = {
    NodeDiscoveryRequest: _node_discovery_request,
    NodeDiscoveryResponse: _node_discovery_response,
    TopicCreationRequest: _creation_request,
    TopicCreationResponse: _creation_response,
    TopicAdvertisement: _advertisement,
    EncryptedAdvertisement: _encrypted_advertisement,
    SignedTopicAdvertisement: _signed_advertisement,
    TopicWithdrawal: _withdrawal,
    TopicDiscoveryRequest: _discovery_request,
    TopicDiscoveryResponse: _discovery_response,
    Refusal: _refusal,
    Delegation: _delegation,
    DelegationRevocation: _revocation,
    Possession: _possession,
    Authorization: _authorization,
}
