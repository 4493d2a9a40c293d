"""The messages of topic discovery, as values.

What somebody signed is kept as the bytes of its element, wherever it is carried: an advertisement
within its creation response or within its creator's signature, signed advertisements in a discovery
response, a delegation. `mediation.discovery.reading` makes a value of such bytes when it is needed.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import TypeAlias
from uuid import UUID

from filters import dialects
from mediation.discovery.errors import Fault
from mediation.model.expiry import Duration

MAX_MESSAGE = 64 * 2**10
"""The most bytes of a message."""
MAX_RESPONSE = 2**20
"""The most bytes of a TopicDiscoveryResponse."""
MAX_DESCRIPTORS = 16 * 2**10
"""The most bytes of the descriptors of a topic, as they are signed."""
MAX_RESULTS = 1000
"""The most advertisements of a TopicDiscoveryResponse."""
DEFAULT_RESULTS = 100
"""The most advertisements that are meant by a request that does not say."""
MAX_TOKEN = 80
"""The most characters of the name of a property, and of a level of a path."""
ID_PREFIXES = ("m-", "adv-", "sadv-", "dlg-", "rev-", "pos-")
"""The beginnings of IDs of signed elements. No other attribute may begin so."""


class Purpose(Enum):
    CREATE = "create"
    DISCOVER = "discover"


class Right(Enum):
    PUBLISH = "publish"
    SUBSCRIBE = "subscribe"


class Scope(Enum):
    """The receivers of a query: nodes, or the creators of topics themselves."""

    NODES = "nodes"
    ENTITIES = "entities"


class SynopsisType(Enum):
    PATH = "path"
    INTEGER = "integer"
    TAGS = "tags"
    PROPERTIES = "properties"
    XML = "xml"


class PropertyType(Enum):
    STRING = "string"
    LONG = "long"
    DOUBLE = "double"
    BOOLEAN = "boolean"


class Dialect(Enum):
    """The dialects of queries that have a name."""

    STRING = dialects.QUERY_STRING
    REGEX = dialects.QUERY_REGEX
    SQL = dialects.QUERY_SQL
    XPATH = dialects.XPATH_1_0
    XQUERY = dialects.QUERY_XQUERY


# What is known of a topic.


@dataclass(frozen=True, slots=True)
class Property:
    """A property; ``value`` is its text, as it was written."""

    name: str
    value: str
    type: PropertyType = PropertyType.STRING

    @property
    def typed(self) -> str | int | float | bool:
        """The value, read as its type says.

        Raises:
            ValueError: It is not such a value.
        """
        return _TYPED[self.type](self.value)


class SchemaType(Enum):
    """What a schema is written in. The value is its media type."""

    XSD = "application/xml"
    JSON_SCHEMA = "application/schema+json"


@dataclass(frozen=True, slots=True)
class Schema:
    """The schema of a topic's events, as its creator wrote it. Nothing that it refers to is
    fetched."""

    type: SchemaType
    text: str


class EventSigners(Enum):
    """Who has to sign the events of a topic, besides proving the right to publish them."""

    CREATOR = "creator"
    PUBLISHERS = "publishers"
    """The creator, or the entity that publishes the event by a delegation."""


@dataclass(frozen=True, slots=True)
class Descriptors:
    """The description of a topic, for people and queries. A document is one element, in exclusive
    canonical form once it was read.

    Attributes:
        signers: Who has to sign its events; None: nobody has to.
    """

    paths: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    keywords: tuple[str, ...] = ()
    properties: tuple[Property, ...] = ()
    documents: tuple[bytes, ...] = ()
    schema: Schema | None = None
    signers: EventSigners | None = None


@dataclass(frozen=True, slots=True)
class Synopsis:
    """The mark of a topic's events.

    Attributes:
        text: Of a path, an integer, or tags.
        namespace: The topic namespace of a path.
        properties: Of the type properties.
        document: Of the type xml; one element.
    """

    type: SynopsisType
    text: str = ""
    namespace: str | None = None
    properties: tuple[Property, ...] = ()
    document: bytes | None = None


@dataclass(frozen=True, slots=True)
class Creator:
    """The creator of a topic: the identifier that its key gives, and its name."""

    entity_id: str
    name: str | None = None
    institution: str | None = None


@dataclass(frozen=True, slots=True)
class TopicAdvertisement:
    """A topic, unique and somebody's. Its node signs it."""

    topic_id: UUID
    node: str
    creator: Creator
    created: datetime
    expires: datetime
    descriptors: Descriptors
    synopsis: Synopsis


@dataclass(frozen=True, slots=True)
class EncryptedAdvertisement:
    """A TopicAdvertisement that only its creator can read, and who has its key from the creator.

    Attributes:
        data: An ``xenc:EncryptedData`` that holds the TopicAdvertisement, signed by its node. All
            else is repeated from that: nodes see whose topic it is, and until when.
    """

    topic_id: UUID
    node: str
    creator: Creator
    created: datetime
    expires: datetime
    data: bytes


@dataclass(frozen=True, slots=True)
class SignedTopicAdvertisement:
    """An advertisement that its creator wants known.

    Attributes:
        advertisement: A TopicAdvertisement or EncryptedAdvertisement, signed by its node.
    """

    issued: datetime
    topic_id: UUID
    advertisement: bytes


# Messages. Each has a head.


@dataclass(frozen=True, slots=True)
class Head:
    """The head of every message. ``to`` names the receiver of a message for one alone."""

    message_id: UUID
    sender: str
    issued: datetime
    expires: datetime
    to: str | None = None
    in_reply_to: UUID | None = None


@dataclass(frozen=True, slots=True)
class NodeDiscoveryRequest:
    """A search for nodes; no purpose means both."""

    head: Head
    purposes: tuple[Purpose, ...] = ()
    institution: str | None = None


@dataclass(frozen=True, slots=True)
class NodeDiscoveryResponse:
    """A node that offers itself.

    Attributes:
        topic: Where to write to it, a path in the namespace of topic discovery.
        dialects: The URIs of the dialects that it evaluates.
    """

    head: Head
    topic: str
    synopsis_types: tuple[SynopsisType, ...] = ()
    dialects: tuple[str, ...] = ()
    max_lifetime: Duration | None = None


@dataclass(frozen=True, slots=True)
class TopicCreationRequest:
    """A topic that somebody wants made.

    Attributes:
        lifetime: None: as long as the node lets it live.
        synopsis: A placeholder, into which the node puts its UUID.
        encrypted: The advertisement is to be encrypted for the creator.
    """

    head: Head
    creator: Creator
    descriptors: Descriptors
    synopsis: Synopsis
    lifetime: Duration | None = None
    encrypted: bool = False


@dataclass(frozen=True, slots=True)
class TopicCreationResponse:
    """A topic that was made: a TopicAdvertisement or EncryptedAdvertisement, signed."""

    head: Head
    advertisement: bytes


@dataclass(frozen=True, slots=True)
class TopicWithdrawal:
    """A topic that its creator takes back before it expires."""

    head: Head
    topic_id: UUID


@dataclass(frozen=True, slots=True)
class Query:
    """A query in a dialect, of which `Dialect` has those that are known."""

    dialect: str
    text: str


@dataclass(frozen=True, slots=True)
class TopicDiscoveryRequest:
    """A search for topics. All conditions that are not None have to hold.

    Attributes:
        validity_at_least, validity_at_most: How long a topic lives, from its creation until it
            expires.
        valid_until: It must live until then, or longer.
        creator: The identifier of whoever made it.
        max_results: None means `DEFAULT_RESULTS`.
    """

    head: Head
    query: Query
    created_after: datetime | None = None
    created_before: datetime | None = None
    expires_after: datetime | None = None
    expires_before: datetime | None = None
    validity_at_least: Duration | None = None
    validity_at_most: Duration | None = None
    valid_until: datetime | None = None
    creator: str | None = None
    max_results: int | None = None
    scope: Scope = Scope.NODES


@dataclass(frozen=True, slots=True)
class TopicDiscoveryResponse:
    """Topics that were found.

    Attributes:
        advertisements: A SignedTopicAdvertisement each, as its creator published it.
        more: A limit cut the list.
    """

    head: Head
    advertisements: tuple[bytes, ...] = ()
    more: bool = False


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a request is not done."""

    head: Head
    reason: Fault
    text: str | None = None


# Rights.


@dataclass(frozen=True, slots=True)
class Delegation:
    """A right to a topic that its creator gives away. By ``id`` it can be revoked.

    Attributes:
        grantee: The identifier of an entity; or of an authority (``ca-``): then everybody whom that
            has certified, directly or through others.
    """

    id: str
    topic_id: UUID
    grantee: str
    rights: frozenset[Right]
    not_before: datetime
    not_after: datetime


@dataclass(frozen=True, slots=True)
class DelegationRevocation:
    """A delegation that its creator takes back before it ends. Whoever has it may publish it again:
    nothing gives back what it takes.

    Attributes:
        delegation: The id of the delegation.
        until: When the delegation ends at the latest: the revocation is kept as long.
    """

    id: str
    topic_id: UUID
    delegation: str
    issued: datetime
    until: datetime


@dataclass(frozen=True, slots=True)
class Possession:
    """A proof, for one request alone, that its sender has the key of an identifier.

    Attributes:
        request: The message id of the request that it comes with.
        audience: The address that the request is sent to.
        digest: SHA-256, in base64, of what it is sent with (`content_digests`); None: it says
            nothing of that.
    """

    id: str
    topic_id: UUID
    right: Right
    request: str
    audience: str
    issued: datetime
    expires: datetime
    digest: str | None = None


@dataclass(frozen=True, slots=True)
class Authorization:
    """The proof of a request for a protected topic: a signed Possession, unless a client
    certificate of TLS stands for it, and a signed Delegation unless the topic is the sender's."""

    possession: bytes | None
    delegation: bytes | None = None


Message: TypeAlias = (
    NodeDiscoveryRequest
    | NodeDiscoveryResponse
    | TopicCreationRequest
    | TopicCreationResponse
    | TopicWithdrawal
    | TopicDiscoveryRequest
    | TopicDiscoveryResponse
    | Refusal
)
"""Elements with a head."""
AnyAdvertisement: TypeAlias = TopicAdvertisement | EncryptedAdvertisement
Signable: TypeAlias = (
    Message
    | AnyAdvertisement
    | SignedTopicAdvertisement
    | Delegation
    | DelegationRevocation
    | Possession
)
"""Elements that are signed; they have an ID."""
Element: TypeAlias = Signable | Authorization
"""Everything that can be the outermost element of a document of topic discovery."""


_LONG = re.compile(r"[+-]?[0-9]{1,40}")
_DOUBLE = re.compile(
    r"[+-]?(?:[0-9]{1,400}(?:\.[0-9]{0,400})?|\.[0-9]{1,400})(?:[eE][+-]?[0-9]{1,9})?"
)
_SPECIAL = {"INF": float("inf"), "-INF": float("-inf"), "NaN": float("nan")}
_BOOLEAN = {"true": True, "1": True, "false": False, "0": False}


def _long(text: str) -> int:
    if _LONG.fullmatch(text.strip(_BLANKS)) is None or not -(2**63) <= int(text) < 2**63:
        raise ValueError("not a long")
    return int(text)


def _double(text: str) -> float:
    word = text.strip(_BLANKS)
    if word in _SPECIAL:
        return _SPECIAL[word]
    if _DOUBLE.fullmatch(word) is None:
        raise ValueError("not a double")
    return float(word)


def _boolean(text: str) -> bool:
    try:
        return _BOOLEAN[text.strip(_BLANKS)]
    except KeyError:
        raise ValueError("not a boolean") from None


_BLANKS = " \t\r\n"
_TYPED: Mapping[PropertyType, Callable[[str], str | int | float | bool]] = {
    PropertyType.STRING: str,
    PropertyType.LONG: _long,
    PropertyType.DOUBLE: _double,
    PropertyType.BOOLEAN: _boolean,
}
