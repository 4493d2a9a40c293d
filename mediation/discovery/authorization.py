"""Check the right to publish on a protected topic, or to subscribe to it.

A topic is protected when somebody advertised it. Its creator may do both; others what a Delegation
of the creator gives them, until it ends. A Possession, made for one request alone, proves that the
sender has the key; a client certificate of TLS proves the same.
"""

from dataclasses import dataclass, replace
from datetime import datetime
from enum import Enum
from uuid import UUID

from filters import Refused
from mediation.discovery.checks import ReplayWindow, check_times
from mediation.discovery.errors import Crowded, SignatureRefused, Untimely
from mediation.discovery.identifiers import Role
from mediation.discovery.reading import read_as
from mediation.discovery.signatures import Verifier
from mediation.discovery.values import (
    AnyAdvertisement,
    Delegation,
    Possession,
    Right,
)


class Denial(Enum):
    """Why access is denied. The value is told to the sender."""

    MISSING = "the request proves no right to the topic"
    MALFORMED = "what the request brings cannot be read"
    UNAUTHENTICATED = "a signature is missing or wrong, or its signer is not trusted"
    OTHER_TOPIC = "what the request brings is for another topic"
    OTHER_RIGHT = "what the request brings is for another right"
    OTHER_REQUEST = "the proof of possession was made for another request"
    OTHER_AUDIENCE = "the proof of possession was made for another address"
    OTHER_CONTENT = "the proof of possession was made for other content than it came with"
    NO_DIGEST = "the proof of possession has no digest of the content, which is asked for here"
    UNTIMELY = "the proof of possession is over, not yet issued, or lives too long"
    REPLAYED = "the proof of possession came before"
    CROWDED = "too many proofs of possession came lately"
    NOT_DELEGATED = "the topic is another's, and the request brings no delegation"
    OTHER_DELEGATOR = "the delegation is not by the creator of the topic"
    OTHER_GRANTEE = "the delegation is for another"
    NOT_YET = "the delegation does not hold yet"
    OVER = "the delegation is over"
    TOO_LONG = "the delegation outlives the topic"
    REVOKED = "the delegation is revoked"
    EXPIRED = "the topic has expired"
    WITHDRAWN = "the topic was withdrawn by its creator"
    UNKNOWN = "no advertisement of the topic is known here"
    OTHER_SIGNER = "the event is signed by neither its publisher nor the creator of the topic"
    FORGED = "the seal is for another message, or not by this gateway"


AUTHORIZATION_PROPERTY = "tdn_authorization"
"""The property of a message in STOMP or AMQP with the base64 of a ``tdn:Authorization``."""


@dataclass(frozen=True, slots=True)
class Access:
    """A request for access to a topic.

    Attributes:
        request: The message id of the request.
        audiences: The addresses that this gateway is known by; a request is sent to one of them.
        digest: The digest of the content that the proof came with; None where it is unknown.
        needs_digest: A Possession without a digest is not enough.
    """

    right: Right
    request: str
    audiences: frozenset[str]
    digest: str | None = None
    needs_digest: bool = False


@dataclass(frozen=True, slots=True)
class Decision:
    """The answer to an access request: allowed or not, to whom, and for how long.

    Attributes:
        denial: Why it is denied; None: it is allowed.
        holder: The identifier of the sender, where that is proved.
        until: When the right ends: no lease is longer.
        delegation: The id of the delegation that it rests on.
        proof: The id of the Possession that it rests on, and when that expires.
    """

    denial: Denial | None = None
    holder: str = ""
    until: datetime | None = None
    delegation: str | None = None
    proof: tuple[str, datetime] | None = None

    @property
    def allowed(self) -> bool:
        return self.denial is None


def check_access(
    topic: AnyAdvertisement,
    access: Access,
    verifier: Verifier,
    *,
    now: datetime,
    possession: bytes | None = None,
    delegation: bytes | None = None,
    holder: str | None = None,
    authorities: frozenset[str] = frozenset(),
    revoked: frozenset[str] = frozenset(),
) -> Decision:
    """Decide whether *access* to *topic*, an advertisement that was checked, is allowed.

    A Possession may come only once, which is the caller's to see: for one process `admit_decision`
    does it.

    Args:
        possession, delegation: Signed elements that the request brings.
        holder: The identifier that the key of a TLS client certificate gives; then no Possession is
            looked at.
        authorities: The identifiers of those that have certified *holder*.
        revoked: Ids of delegations.
    """
    try:
        return _check_access(
            topic,
            access,
            verifier,
            now,
            possession,
            delegation,
            None if holder is None else _Holder(holder, authorities),
            revoked,
        )
    except _Denied as denied:
        return Decision(denied.denial, denied.holder)
    except SignatureRefused:
        return Decision(Denial.UNAUTHENTICATED)
    except Refused:
        return Decision(Denial.MALFORMED)


def precheck_possession(
    topic_id: UUID,
    access: Access,
    possession: bytes | None,
    *,
    now: datetime,
) -> Denial | None:
    """Return why `check_access` would deny *possession*, whoever signed it; None if it might not.

    It comes first for strangers, because it costs no check of a signature.
    """
    if possession is None:
        return Denial.MISSING
    try:
        claim = read_as(Possession, possession).value
    except Refused:
        return Denial.MALFORMED
    return _claim_denial(topic_id, access, claim, now)


def admit_decision(decision: Decision, window: ReplayWindow, *, now: datetime) -> Decision:
    """Remember the Possession that *decision* rests on; deny one that came before."""
    if not decision.allowed or decision.proof is None:
        return decision
    id, expires = decision.proof
    try:
        window.admit(decision.holder, id, expires=expires, now=now)
    except Untimely:
        return replace(decision, denial=Denial.REPLAYED)
    except Crowded:
        return replace(decision, denial=Denial.CROWDED)
    return decision


@dataclass(frozen=True, slots=True)
class _Holder:
    """Who has proved its key, and who has certified it."""

    id: str
    authorities: frozenset[str]


class _Denied(Exception):
    def __init__(self, denial: Denial, holder: str = "") -> None:
        super().__init__(denial.value)
        self.denial = denial
        self.holder = holder


def _check_access(
    topic: AnyAdvertisement,
    access: Access,
    verifier: Verifier,
    now: datetime,
    possession: bytes | None,
    delegation: bytes | None,
    holder: _Holder | None,
    revoked: frozenset[str],
) -> Decision:
    if now >= topic.expires:
        raise _Denied(Denial.EXPIRED)
    proof = None
    if holder is None:
        if possession is None:
            raise _Denied(Denial.MISSING)
        holder, proof = _check_possession(topic.topic_id, access, verifier, now, possession)
    if holder.id == topic.creator.entity_id:
        return Decision(None, holder.id, topic.expires, None, proof)
    if delegation is None:
        raise _Denied(Denial.NOT_DELEGATED, holder.id)
    given = _check_delegation(topic, access, verifier, now, delegation, holder)
    if given.id in revoked:
        raise _Denied(Denial.REVOKED, holder.id)
    return Decision(None, holder.id, given.not_after, given.id, proof)


def _check_possession(
    topic_id: UUID,
    access: Access,
    verifier: Verifier,
    now: datetime,
    octets: bytes,
) -> tuple[_Holder, tuple[str, datetime]]:
    """Return the signer, and id and expiry of its proof."""
    received = read_as(Possession, octets)
    claim = received.value
    why = _claim_denial(topic_id, access, claim, now)
    if why is not None:
        raise _Denied(why)
    signer = verifier.verify(received, Role.ENTITY, now=now)
    return _Holder(signer.identifier, signer.authorities), (claim.id, claim.expires)


def _claim_denial(
    topic_id: UUID, access: Access, claim: Possession, now: datetime
) -> Denial | None:
    """Return why *claim* is not for *access*; None if it is."""
    if claim.topic_id != topic_id:
        return Denial.OTHER_TOPIC
    if claim.right is not access.right:
        return Denial.OTHER_RIGHT
    if claim.request != access.request:
        return Denial.OTHER_REQUEST
    if claim.audience not in access.audiences:
        return Denial.OTHER_AUDIENCE
    if claim.digest is None:
        if access.needs_digest:
            return Denial.NO_DIGEST
    elif claim.digest != access.digest:
        return Denial.OTHER_CONTENT
    try:
        check_times(claim.issued, claim.expires, now=now)
    except Untimely:
        return Denial.UNTIMELY
    return None


def _check_delegation(
    topic: AnyAdvertisement,
    access: Access,
    verifier: Verifier,
    now: datetime,
    octets: bytes,
    holder: _Holder,
) -> Delegation:
    received = read_as(Delegation, octets)
    given = received.value
    if given.topic_id != topic.topic_id:
        raise _Denied(Denial.OTHER_TOPIC, holder.id)
    if access.right not in given.rights:
        raise _Denied(Denial.OTHER_RIGHT, holder.id)
    if given.grantee != holder.id and given.grantee not in holder.authorities:
        raise _Denied(Denial.OTHER_GRANTEE, holder.id)
    if now < given.not_before:
        raise _Denied(Denial.NOT_YET, holder.id)
    if now >= given.not_after:
        raise _Denied(Denial.OVER, holder.id)
    if given.not_after > topic.expires:
        raise _Denied(Denial.TOO_LONG, holder.id)
    signer = verifier.verify(received, Role.ENTITY, now=now)
    if signer.identifier != topic.creator.entity_id:
        raise _Denied(Denial.OTHER_DELEGATOR, holder.id)
    return given
