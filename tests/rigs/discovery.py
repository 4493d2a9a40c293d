"""Values of topic discovery, and one of each message."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

from mediation.discovery import (
    Authorization,
    Creator,
    Delegation,
    DelegationRevocation,
    Descriptors,
    Element,
    EncryptedAdvertisement,
    Fault,
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
    write,
)
from mediation.model.expiry import Duration

NOW = datetime(2027, 3, 4, 5, 6, 7, tzinfo=UTC)
MESSAGE_ID = UUID("0b5ae7d4-9c1e-4d57-8a35-6b1f0c4f2e11")
TOPIC_ID = UUID("5d0f6f0c-3b1a-4c55-9c57-0d4f0a9b7e21")
ENTITY = "e-" + "0123456789abcdef" * 2
NODE = "tdn-" + "fedcba9876543210" * 2


def head(sender: str = ENTITY, to: str | None = None, *, answers: UUID | None = None) -> Head:
    return Head(MESSAGE_ID, sender, NOW, NOW + timedelta(seconds=30), to, answers)


TIDE = b'<gauge xmlns="http://harbour.example.net/tide"><metres>3.1</metres></gauge>'
SCHEMA = (
    '<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema" targetNamespace="urn:tide">'
    '<xs:element name="tide" type="xs:decimal"/></xs:schema>'
)
DESCRIPTORS = Descriptors(
    paths=("Tide/North/Gauge",),
    texts=("Height of the water at the north mole",),
    keywords=("tide", "height"),
    properties=(Property("gauge", "12", PropertyType.LONG), Property("unit", "m")),
    documents=(TIDE,),
    schema=Schema(SchemaType.XSD, SCHEMA),
)
CREATOR = Creator(ENTITY, "North mole", "Harbour Office")
PATH = Synopsis(SynopsisType.PATH, "Tide/{uuid}", "http://harbour.example.net/tide")
ADVERTISEMENT = TopicAdvertisement(
    TOPIC_ID,
    NODE,
    CREATOR,
    NOW,
    NOW + timedelta(days=30),
    DESCRIPTORS,
    Synopsis(SynopsisType.PATH, f"Tide/u-{TOPIC_ID}", "http://harbour.example.net/tide"),
)
ENCRYPTED = EncryptedAdvertisement(
    TOPIC_ID,
    NODE,
    Creator(ENTITY),
    NOW,
    NOW + timedelta(days=30),
    b'<xenc:EncryptedData xmlns:xenc="http://www.w3.org/2001/04/xmlenc#"></xenc:EncryptedData>',
)
SIGNED = SignedTopicAdvertisement(NOW, TOPIC_ID, write(ADVERTISEMENT))
POSSESSION = Possession(
    f"pos-{MESSAGE_ID}",
    TOPIC_ID,
    Right.SUBSCRIBE,
    "urn:uuid:7",
    "https://gateway.example.net/soap",
    NOW,
    NOW + timedelta(seconds=30),
)
DELEGATION = Delegation(
    f"dlg-{MESSAGE_ID}", TOPIC_ID, ENTITY, frozenset(Right), NOW, NOW + timedelta(days=7)
)
REVOCATION = DelegationRevocation(
    f"rev-{MESSAGE_ID}", TOPIC_ID, DELEGATION.id, NOW, DELEGATION.not_after
)
ELEMENTS: tuple[Element, ...] = (
    NodeDiscoveryRequest(head(), (Purpose.CREATE, Purpose.DISCOVER), "Harbour Office"),
    NodeDiscoveryResponse(
        head(NODE, ENTITY, answers=MESSAGE_ID),
        f"Services/Discovery/TopicDiscoveryNode/{NODE}",
        tuple(SynopsisType),
        ("urn:dragoman:tdn:1:query:sql",),
        Duration(0, timedelta(days=365)),
    ),
    TopicCreationRequest(
        head(to=NODE), CREATOR, DESCRIPTORS, PATH, Duration(1, timedelta(hours=1.5)), True
    ),
    TopicCreationResponse(head(NODE, ENTITY, answers=MESSAGE_ID), write(ADVERTISEMENT)),
    ADVERTISEMENT,
    ENCRYPTED,
    SIGNED,
    SignedTopicAdvertisement(NOW, TOPIC_ID, write(ENCRYPTED)),
    TopicWithdrawal(head(), TOPIC_ID),
    TopicDiscoveryRequest(
        head(),
        Query("urn:dragoman:tdn:1:query:string", "tide & height"),
        created_after=NOW,
        created_before=NOW,
        expires_after=NOW,
        expires_before=NOW,
        validity_at_least=Duration(0, timedelta(hours=1)),
        validity_at_most=Duration(12, timedelta()),
        valid_until=NOW,
        creator=ENTITY,
        max_results=17,
        scope=Scope.ENTITIES,
    ),
    TopicDiscoveryResponse(head(NODE, ENTITY, answers=MESSAGE_ID), (write(SIGNED),), True),
    Refusal(head(NODE, ENTITY, answers=MESSAGE_ID), Fault.INVALID_QUERY, "a < b is no query"),
    DELEGATION,
    REVOCATION,
    POSSESSION,
    Authorization(write(POSSESSION), write(DELEGATION)),
)
"""One of each, with all that it can say."""
