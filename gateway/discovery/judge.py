"""Judges what requests bring to prove a right to a topic: what costs little first.

nothing brought       refused, for nothing
counted               of a stranger, before anything is read
read, compared        topic, right, request, address, times: no signature is looked at
the advertisement     of the store; whose the topic is, by its signatures
the proof             its signatures
claimed               in the store: each proof counts once
"""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TypeVar
from urllib.parse import urlsplit
from uuid import UUID

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.x509 import load_der_x509_certificate

from filters import Reason, Refused, Topic
from gateway.discovery.brought import Asking
from gateway.discovery.protected import ProtectedTopics
from gateway.model.advertisements import AdvertisementLimits, Claimed
from gateway.observing.samples import Sample, counters
from gateway.security.principals import Principal
from gateway.security.quotas import PrincipalRate, QuotaExceeded
from gateway.store import Store, advertisements, claims
from gateway.store.advertisements import LOCK
from mediation.discovery import (
    Access,
    AnyAdvertisement,
    Authorization,
    Creator,
    Decision,
    Denial,
    Descriptors,
    Possession,
    Right,
    Role,
    Synopsis,
    SynopsisType,
    TopicAdvertisement,
    Verifier,
    check_advertisement,
    decide,
    identifier_of,
    read_as,
    role_of,
    unfit,
)
from mediation.names import TDN

PROOFS, PROOFS_AT_ONCE = 200.0, 400.0
"""Proofs of a network address that are looked at: a second, and at once."""
STRANGERS_AT_A_TIME = 1
"""Threads that look at what strangers bring."""
WAIT = 5.0
"""Seconds that a stranger waits for its turn."""
MARGIN = timedelta(minutes=10)
"""For how long after its end a proof is remembered, for events that were on their way."""
ALWAYS = datetime(9999, 1, 1, tzinfo=UTC)
"""The end of a right that has none."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Read:
    """What a request brings, read: nothing of it has been proved."""

    access: Access
    possession: bytes | None
    delegation: bytes | None
    holder: str | None


class Judge:
    """Decides, of *protected* topics and those of entities and nodes.

    Args:
        revoked: Ids of delegations.
        addresses: The URLs at which the gateway is reached, as its settings say.
        needs_digest: A proof without a digest of what it is sent with is refused.
    """

    def __init__(
        self,
        protected: ProtectedTopics,
        store: Store,
        verifier: Verifier,
        *,
        revoked: frozenset[str] = frozenset(),
        addresses: frozenset[str] = frozenset(),
        needs_digest: bool = False,
        limits: AdvertisementLimits | None = None,
    ) -> None:
        self._protected = protected
        self._store = store
        self._verifier = verifier
        self._revoked = revoked
        self._addresses = frozenset(map(normal_address, addresses))
        self._needs_digest = needs_digest
        self._limits = limits or AdvertisementLimits()
        self._proofs = PrincipalRate(PROOFS, PROOFS_AT_ONCE, "Too many proofs of possession.")
        self._strangers = asyncio.Semaphore(STRANGERS_AT_A_TIME)
        self._denials: dict[str, int] = {}

    async def decide(
        self,
        topic: Topic,
        right: Right,
        asking: Asking,
        *,
        now: datetime,
        came: datetime | None = None,
    ) -> Decision:
        """Whether who asks has *right* to *topic*.

        Args:
            came: When it came, where that was not *now*.

        Raises:
            QuotaExceeded: A stranger brings too many proofs. Refused: ``UNAVAILABLE``.
        """
        closed = self._protected.why_closed(topic)
        if closed is not None:
            return self.counted(right, Decision(closed))
        if asking.brought.authorization is None and asking.brought.certificate is None:
            return self.counted(right, Decision(Denial.MISSING))  # Which costs nothing.
        if asking.principal is not None and asking.brought.authorization is not None:
            self._count_proof(asking.principal, right)
        decision = await self._decide(topic, right, asking, came or now)
        if decision.allowed and decision.proof is not None:
            decision = await self._claim(decision, asking, now)
        return self.counted(right, decision)

    def _count_proof(self, principal: Principal, right: Right) -> None:
        try:
            self._proofs.take(principal)
        except QuotaExceeded:
            self._count(right, "rate")
            raise

    async def _decide(self, topic: Topic, right: Right, asking: Asking, now: datetime) -> Decision:
        known = self._protected.id_of(topic)
        own = None if known is not None else _own(owner_of(topic))
        if known is None and own is None:
            return Decision(Denial.EXPIRED)
        topic_id = UUID(known) if own is None else own.topic_id
        read = partial(self._read, topic_id, right, asking, now)
        brought = await self._apart(asking.principal, read)
        if isinstance(brought, Denial):
            return Decision(brought)
        advertised = await self.advertised(topic_id) if known is not None else None
        if own is None and advertised is None:
            return Decision(Denial.EXPIRED)
        judged = partial(self._judge, own or advertised, brought, now)
        return await self._apart(asking.principal, judged)

    async def advertised(self, topic_id: UUID) -> bytes | None:
        """What says whose a topic is, as it came; None where that is not kept any more."""
        rows = await self._store.submit(partial(advertisements.load, topic_ids=[str(topic_id)]))
        return rows[0].octets if rows else None

    async def _apart(self, principal: Principal | None, work: Callable[[], T]) -> T:
        """Have a thread do *work*; a stranger leaves threads for others.

        Raises:
            Refused: ``UNAVAILABLE``: too many strangers wait.
        """
        if principal is None or principal.trusted:
            return await asyncio.to_thread(work)
        try:
            async with asyncio.timeout(WAIT):
                await self._strangers.acquire()
        except TimeoutError:
            text = "Too many proofs of possession wait to be judged."
            raise Refused(Reason.UNAVAILABLE, text) from None
        try:
            return await asyncio.to_thread(work)
        finally:
            self._strangers.release()

    def _read(self, topic_id: UUID, right: Right, asking: Asking, now: datetime) -> _Read | Denial:
        """What a request brings, or why that cannot do whoever signed it."""
        holder, named, shown, digest = None, "", asking.brought, None
        try:
            said = Authorization(None)
            if shown.authorization is not None:
                said = read_as(Authorization, shown.authorization).value
            if said.possession is not None:
                claim = read_as(Possession, said.possession).value
                named = claim.audience
                if claim.digest is not None and shown.digest is not None:
                    digest = shown.digest()
            elif shown.certificate is not None:
                holder = self._holder(shown.certificate)
        except Refused:
            return Denial.MALFORMED
        audiences = self._audiences(named)
        access = Access(right, shown.request, audiences, digest, self._needs_digest)
        if holder is None:
            why = unfit(topic_id, access, said.possession, now=now)
            if why is not None:
                return why
        return _Read(access, said.possession, said.delegation, holder)

    def _judge(
        self, topic: AnyAdvertisement | bytes | None, brought: _Read, now: datetime
    ) -> Decision:
        if isinstance(topic, bytes):
            try:
                topic = check_advertisement(topic, self._verifier, now=now).advertisement
            except Refused:  # Its certificate has expired, or it has.
                topic = None
        if topic is None:
            return Decision(Denial.EXPIRED)
        return decide(
            topic,
            brought.access,
            self._verifier,
            now=now,
            possession=brought.possession,
            delegation=brought.delegation,
            holder=brought.holder,
            revoked=self._revoked,
        )

    def _holder(self, certificate: bytes) -> str | None:
        """Whose key *certificate* has; None where it cannot be read, or who it is is refused."""
        try:
            holder = identifier_of(load_der_x509_certificate(certificate), Role.ENTITY)
        except (ValueError, UnsupportedAlgorithm):
            return None
        return None if holder in self._verifier.trust.refused else holder

    async def _claim(self, decision: Decision, asking: Asking, now: datetime) -> Decision:
        assert decision.proof is not None
        id_, expires = decision.proof
        claimed = await self._store.submit(
            partial(
                claims.claim,
                sender=decision.holder,
                message=id_,
                notification=asking.use,
                # What came in time may be judged late: it must not come again after that, either.
                expires=(max(expires, now) + MARGIN).timestamp(),
                now=now.timestamp(),
                limits=self._limits,
                kind=claims.PROOF,
                once=asking.use == "subscribe",
            ),
            locks=(LOCK,),
        )
        if claimed is Claimed.YES:
            return decision
        denial = Denial.REPLAYED if claimed is Claimed.REPLAYED else Denial.CROWDED
        return replace(decision, denial=denial)

    def _audiences(self, named: str) -> frozenset[str]:
        """The addresses of this gateway, with *named* where it is one of them or below one."""
        where = normal_address(named)
        own = any(where == each or where.startswith(f"{each}/") for each in self._addresses)
        return frozenset({named}) if own else frozenset()

    # Counts.

    def counted(self, right: Right, decision: Decision) -> Decision:
        """*decision*, counted where it is a denial."""
        if decision.denial is not None:
            self._count(right, decision.denial.name.lower().replace("_", "-"))
        return decision

    def _count(self, right: Right, why: str) -> None:
        key = f"{right.value}-{why}"
        self._denials[key] = self._denials.get(key, 0) + 1

    def metrics(self) -> Iterator[Sample]:
        """What was not allowed."""
        yield counters(
            "discovery_denials",
            "Requests and messages without the right to a topic, by right and reason.",
            "reason",
            dict(self._denials),
        )


def normal_address(url: str) -> str:
    """*url* as one may be compared: scheme and host in lower case, without the port that goes
    without saying and without a slash at its end."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return url
    host = parts.hostname or ""
    host = f"[{host}]" if ":" in host else host
    said = "" if port is None or port == _USUAL.get(parts.scheme) else f":{port}"
    return f"{parts.scheme}://{host}{said}{parts.path}".rstrip("/")


_USUAL = {"http": 80, "https": 443}


def owner_of(topic: Topic) -> str | None:
    """Whose topic of topic discovery *topic* is; None: everybody's, or none of those."""
    steps = topic.steps
    if steps[0].namespace != TDN:
        return None
    if steps[0].name == "Entity" and len(steps) == 2:
        return steps[1].name
    if steps[0].name == "Services" and len(steps) == 4:
        return steps[3].name
    return None


def _own(owner: str | None) -> TopicAdvertisement | None:
    """What says that the topic of *owner* is its own."""
    if owner is None:
        return None
    role = role_of(owner)
    try:
        topic_id = UUID(owner.removeprefix("" if role is None else role.value))
    except ValueError:
        return None
    begins = datetime(1970, 1, 1, tzinfo=UTC)
    return TopicAdvertisement(
        topic_id, "", Creator(owner if role is Role.ENTITY else ""), begins, ALWAYS,
        Descriptors(), Synopsis(SynopsisType.PATH),
    )  # fmt: skip
