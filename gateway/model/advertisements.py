"""Advertisements of topics as a node keeps them, and what becomes of those that come."""

from dataclasses import dataclass
from enum import Enum


@dataclass(frozen=True, slots=True)
class AdvertisementRow:
    """An advertisement that was checked.

    Attributes:
        created, expires, issued: POSIX seconds.
        claim: The digest of whose the topic is, and of its synopsis: another one under the same id
            is an attack.
        topic: Of the messaging system, in Clark's notation, where the synopsis names one: the topic
            is protected.
        described: What it is searched by, in JSON.
        octets: The SignedTopicAdvertisement as it came; None: its creator has withdrawn it.
    """

    topic_id: str
    creator: str
    node: str
    created: float
    expires: float
    issued: float
    claim: bytes
    topic: str | None
    described: str
    octets: bytes | None


@dataclass(frozen=True, slots=True)
class RevocationRow:
    """A delegation that somebody takes back, who has signed that.

    Attributes:
        creator: The signer, whose the topic may not be.
        until: When the delegation ends, in POSIX seconds.
    """

    topic_id: str
    delegation: str
    creator: str
    until: float


@dataclass(frozen=True, slots=True)
class AdvertisementLimits:
    """How many advertisements are kept, those that were withdrawn not counted; of the latter as
    many again. ``requests`` is how many messages are remembered until they expire, and as many
    proofs again; ``requests_of_sender`` and ``proofs_of_sender`` are how many of one sender.
    ``revocations`` is how many delegations are known as taken back, ``revocations_of_topic`` and
    ``revocations_of_creator`` how many of them are of one topic, and of one creator."""

    in_all: int = 100_000
    of_creator: int = 1_000
    requests: int = 100_000
    requests_of_sender: int = 1_000
    proofs_of_sender: int = 10_000
    revocations: int = 200_000
    revocations_of_topic: int = 1_000
    revocations_of_creator: int = 2_000


class Kept(Enum):
    """What became of an advertisement."""

    NEW = "new"
    NEWER = "newer"
    """It took the place of an older one."""
    KNOWN = "known"
    """It is no newer than the known one."""
    WITHDRAWN = "withdrawn"
    """Its creator has taken the topic back."""
    CONFLICT = "conflict"
    """It claims a known topic for another creator, or with another synopsis."""
    CREATOR_FULL = "creator-full"
    FULL = "full"


class Revoked(Enum):
    """What became of a revocation."""

    NEW = "new"
    KNOWN = "known"
    UNKNOWN = "unknown"
    """No advertisement of its topic is known; its creator publishes both again."""
    NOT_CREATOR = "not-creator"
    """The topic is another's."""
    FULL = "full"


class Claimed(Enum):
    """Whether a message may be answered."""

    YES = "yes"
    REPLAYED = "replayed"
    """It came before, in another notification."""
    TOO_OFTEN = "too-often"
    """Its sender has asked for as much lately as it may."""
    CROWDED = "crowded"
    """There is no room to remember it, or its sender has taken its part of it."""
