"""Identifiers of entities and nodes, which only the holder of a key can claim.

An identifier begins with ``e-`` (entity) or ``tdn-`` (node); what follows is the beginning of the
SHA-256 of the key's SubjectPublicKeyInfo, so that it outlives the certificate. Who has no key is
``x-`` and random digits. All are NCNames: levels of topics.
"""

import hashlib
from enum import Enum
from uuid import UUID

from cryptography.x509 import Certificate

from filters import Step, Topic
from mediation import names
from mediation.public_keys import subject_public_key_info

_DIGITS = 32


class Role(Enum):
    """The owner of a key: a node or an entity. The value begins its identifiers."""

    ENTITY = "e-"
    NODE = "tdn-"


STRANGER = "x-"
"""The beginning of the identifier of an entity without a key."""


def identifier_of(certificate: Certificate, role: Role) -> str:
    """The identifier that the key of *certificate* gives."""
    octets = subject_public_key_info(certificate.public_key())
    return role.value + hashlib.sha256(octets).hexdigest()[:_DIGITS]


AUTHORITY = "ca-"
"""The beginning of the identifier of an authority, of whom everybody is meant whom it certified."""


def authority_of(certificate: Certificate) -> str:
    """The identifier that the key of an authority's *certificate* gives."""
    return AUTHORITY + identifier_of(certificate, Role.ENTITY).removeprefix(Role.ENTITY.value)


def stranger(random: UUID) -> str:
    """An identifier without a key, of a UUID that was never used before."""
    return STRANGER + random.hex


def is_stranger(identifier: str) -> bool:
    """Return True if *identifier* is of an entity without a key."""
    return identifier.startswith(STRANGER)


def role_of(identifier: str) -> Role | None:
    """Return the role that *identifier* begins with; None for an entity without a key."""
    return next((role for role in Role if identifier.startswith(role.value)), None)


# Where they are written to: topics in the namespace of topic discovery.


def _topic(*levels: str) -> Topic:
    return Topic((Step(names.TDN, levels[0]), *(Step(None, level) for level in levels[1:])))


NODES = _topic("Services", "Discovery", "TopicDiscoveryNode")
"""Searches for nodes."""
TOPICS = _topic("Services", "Discovery", "Topics")
"""Advertisements, withdrawals, and queries to all nodes."""


def topic_of(identifier: str) -> Topic:
    """The topic of what is written to one alone: answers to an entity, messages to a node."""
    if role_of(identifier) is Role.NODE:
        return Topic((*NODES.steps, Step(None, identifier)))
    return _topic("Entity", identifier)


def queries_of(node: str) -> Topic:
    """The topic of queries to one node."""
    return Topic((*TOPICS.steps, Step(None, node)))


def path_of(topic: Topic) -> str:
    """*topic*, which is of topic discovery, as a NodeDiscoveryResponse writes it: a path without
    its namespace."""
    return "/".join(step.name for step in topic.steps)
