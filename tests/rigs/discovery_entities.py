"""Entities that speak to a topic discovery node: what they send, and what they make of answers."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from uuid import UUID, uuid4

from mediation.discovery import (
    Checked,
    Created,
    Creator,
    Credentials,
    Descriptors,
    Dialect,
    Head,
    NodeDiscoveryRequest,
    Query,
    Role,
    Scope,
    SignedTopicAdvertisement,
    Synopsis,
    TopicCreationRequest,
    TopicDiscoveryRequest,
    TopicWithdrawal,
    check_created,
    encrypt,
    receive,
    write,
)
from mediation.discovery.signing import sign
from mediation.model.expiry import Duration
from tests.rigs.discovery import DESCRIPTORS, PATH
from tests.rigs.discovery_keys import Parties, parties

LIFE = timedelta(seconds=30)


@dataclass
class Speaker:
    """An entity. Without credentials it is a stranger."""

    credentials: Credentials | None
    parties: Parties = field(default_factory=parties)
    id: str = ""

    def __post_init__(self) -> None:
        if self.credentials is not None:
            self.id = self.credentials.identifier(Role.ENTITY)
        else:
            self.id = f"x-{uuid4().hex}"

    def head(self, now: datetime, to: str | None = None) -> Head:
        return Head(uuid4(), self.id, now, now + LIFE, to)

    def signed(self, message: object) -> bytes:
        if self.credentials is None:
            return write(message)  # type: ignore[arg-type]
        return sign(message, self.credentials)  # type: ignore[arg-type]

    def look_for_nodes(self, now: datetime, institution: str | None = None) -> bytes:
        return self.signed(NodeDiscoveryRequest(self.head(now), (), institution))

    def creation(
        self,
        now: datetime,
        *,
        synopsis: Synopsis = PATH,
        descriptors: Descriptors = DESCRIPTORS,
        lifetime: timedelta | None = timedelta(days=30),
        encrypted: bool = False,
        node: str = "",
    ) -> TopicCreationRequest:
        return TopicCreationRequest(
            self.head(now, node or self.parties.node_id),
            Creator(self.id, "North mole", "Harbour Office"),
            descriptors,
            synopsis,
            None if lifetime is None else Duration(0, lifetime),
            encrypted,
        )

    def for_node(self, message: object) -> bytes:
        """Sign *message*, and encrypt it for the node."""
        parties = self.parties
        return encrypt(self.signed(message), parties.node_id, parties.node.certificate)

    def query(
        self,
        now: datetime,
        text: str,
        dialect: Dialect | str = Dialect.STRING,
        *,
        most: int | None = None,
        scope: Scope = Scope.NODES,
        creator: str | None = None,
    ) -> bytes:
        uri = dialect if isinstance(dialect, str) else dialect.value
        return self.signed(
            TopicDiscoveryRequest(
                self.head(now),
                Query(uri, text),
                max_results=most,
                scope=scope,
                creator=creator,
            )
        )

    def advertisement(self, created: Created, issued: datetime) -> bytes:
        topic_id = created.advertisement.topic_id
        return self.signed(SignedTopicAdvertisement(issued, topic_id, created.signed))

    def withdrawal(self, topic_id: UUID, now: datetime) -> bytes:
        return self.signed(TopicWithdrawal(self.head(now), topic_id))

    def read(self, octets: bytes, now: datetime) -> Checked:
        """Read an answer."""
        return receive(octets, self.parties.verifier(), {self.id: self.credentials}, now=now)

    def made(self, request: TopicCreationRequest, answer: bytes, now: datetime) -> Created:
        """What an answer to *request* brings."""
        assert self.credentials is not None
        return check_created(
            request, self.read(answer, now), self.parties.verifier(), self.credentials, now=now
        )
