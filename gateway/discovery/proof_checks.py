"""Check proofs of possession, and what else a request brings to prove a right to a topic.

What costs little comes first, so that a stranger's forgeries cost little:

nothing is brought    refused, for nothing
the rate              of a stranger, before anything is read
the claims            topic, right, request, address, times: no signature is looked at
the advertisement     of the store; whose the topic is, by its signatures
the proof             its signatures (`mediation.discovery.authorization`)
the store             each proof counts once, in all gateways
"""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import TypeVar
from urllib.parse import urlsplit
from uuid import UUID

from filters import Refused, Topic
from gateway.discovery.proofs import AccessRequest
from gateway.discovery.protected_topics import ProtectedTopics
from gateway.discovery.revocations import Revocations
from gateway.discovery.topic_owners import advertisement_of_owner, owner_of
from gateway.model.advertisements import AdvertisementLimits, Claimed
from gateway.observing.samples import Sample, counters
from gateway.parsing import Busy, ParsingThreads
from gateway.security.principals import Principal
from gateway.security.quotas import PrincipalRate, QuotaExceeded
from gateway.store import Store, advertisements, claims
from gateway.store.advertisements import LOCK
from mediation.certificates import UNREADABLE_CERTIFICATE, read_certificate
from mediation.discovery import (
    Access,
    AnyAdvertisement,
    Authorization,
    Decision,
    Denial,
    Possession,
    Right,
    Role,
    Verifier,
    check_access,
    check_advertisement,
    identifier_of,
    precheck_possession,
    read_as,
)

PROOFS, PROOFS_AT_ONCE = 200.0, 400.0
"""Proofs of one stranger that are looked at: a second, and at once."""
WAIT = 5.0
"""Seconds that a stranger waits for its turn."""
MARGIN = timedelta(minutes=10)
"""For how long after its end a proof is remembered, for events that were on their way."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Claims:
    """The claims of a request, read and compared; no signature has been checked."""

    access: Access
    possession: bytes | None
    delegation: bytes | None
    holder: str | None
    authorities: frozenset[str] = frozenset()


class ProofChecker:
    """Checks proofs of rights to *protected* topics, and to those of entities and nodes.

    Args:
        revocations: Delegations that do not count.
        addresses: The URLs at which the gateway is reached, as its settings say.
        needs_digest: A proof without a digest of its content is refused.
    """

    def __init__(
        self,
        protected: ProtectedTopics,
        store: Store,
        verifier: Verifier,
        *,
        revocations: Revocations | None = None,
        addresses: frozenset[str] = frozenset(),
        needs_digest: bool = False,
        limits: AdvertisementLimits | None = None,
    ) -> None:
        self._protected = protected
        self._store = store
        self._verifier = verifier
        self._revocations = Revocations() if revocations is None else revocations
        self._addresses = frozenset(map(normal_address, addresses))
        self._needs_digest = needs_digest
        self._limits = limits or AdvertisementLimits()
        self._proofs = PrincipalRate(PROOFS, PROOFS_AT_ONCE, "Too many proofs of possession.")
        # One thread, in which each stranger has a turn, and which is replaced before strangers have
        # taught it too many names: libxml2 keeps those for the life of a thread.
        self._strangers = ParsingThreads("proofs", wait=WAIT)
        self._denials: dict[str, int] = {}

    async def check(
        self,
        topic: Topic,
        right: Right,
        request: AccessRequest,
        *,
        now: datetime,
        came: datetime | None = None,
    ) -> Decision:
        """Decide whether the sender of *request* has *right* to *topic*.

        Args:
            came: When it came, where that was not *now*.

        Raises:
            QuotaExceeded: A stranger brings too many proofs. Refused: ``UNAVAILABLE``.
        """
        proof = request.proof
        closed = self._protected.why_closed(topic)
        if closed is not None:
            return self.counted(right, Decision(closed))
        if not proof.may_authorize and proof.certificate is None:
            return self.counted(right, Decision(Denial.MISSING))
        if request.principal is not None and proof.may_authorize:
            self._count_proof(request.principal, right)
        decision = await self._check(topic, right, request, came or now)
        if decision.allowed and decision.proof is not None:
            decision = await self._claim(decision, request, now)
        return self.counted(right, decision)

    def _count_proof(self, principal: Principal, right: Right) -> None:
        try:
            self._proofs.take(principal)
        except QuotaExceeded:
            self._count(right, "rate")
            raise

    async def _check(
        self, topic: Topic, right: Right, request: AccessRequest, now: datetime
    ) -> Decision:
        known = self._protected.id_of(topic)
        own = None if known is not None else advertisement_of_owner(owner_of(topic))
        if known is None and own is None:
            return Decision(Denial.EXPIRED)
        topic_id = UUID(known) if own is None else own.topic_id
        read = partial(self._read, topic_id, right, request, now)
        brought = await self._in_thread(request.principal, read)
        if isinstance(brought, Denial):
            return Decision(brought)
        advertised = await self.advertised(topic_id) if known is not None else None
        if own is None and advertised is None:
            return Decision(Denial.EXPIRED)
        verify = partial(self._verify, own or advertised, brought, now)
        return await self._in_thread(request.principal, verify)

    async def advertised(self, topic_id: UUID) -> bytes | None:
        """Return the advertisement of a topic as it came; None if it is not kept any more."""
        rows = await self._store.submit(partial(advertisements.load, topic_ids=[str(topic_id)]))
        return rows[0].octets if rows else None

    async def _in_thread(self, principal: Principal | None, work: Callable[[], T]) -> T:
        """Run *work* in a thread. All strangers share one, so that others have threads left.

        Raises:
            Refused: ``UNAVAILABLE``: too many strangers wait.
        """
        if principal is None or not principal.limits.quotas:
            return await asyncio.to_thread(work)
        try:
            return await self._strangers.run(0, lambda _: work(), principal.owner)
        except Busy:
            raise Busy(
                "Too many proofs of possession wait to be checked; try again soon."
            ) from None

    def _read(
        self, topic_id: UUID, right: Right, request: AccessRequest, now: datetime
    ) -> _Claims | Denial:
        """Return what a request brings, or why that is not enough whoever signed it."""
        proof, holder, named, digest = request.proof, None, "", None
        authorities = frozenset[str]()
        try:
            said = Authorization(None)
            authorization = proof.read_authorization()
            if authorization is not None:
                said = read_as(Authorization, authorization).value
            elif proof.certificate is None:
                return Denial.MISSING
            if said.possession is not None:
                claim = read_as(Possession, said.possession).value
                named = claim.audience
                if claim.digest is not None and request.digest is not None:
                    digest = request.digest()
            elif proof.certificate is not None:
                holder = self._holder(proof.certificate)
                authorities = self._verifier.authorities_of(proof.certificate, now=now)
        except Refused:
            return Denial.MALFORMED
        audiences = self._audiences(named)
        access = Access(right, proof.request, audiences, digest, self._needs_digest)
        if holder is None:
            denial = precheck_possession(topic_id, access, said.possession, now=now)
            if denial is not None:
                return denial
        return _Claims(access, said.possession, said.delegation, holder, authorities)

    def _verify(
        self, topic: AnyAdvertisement | bytes | None, brought: _Claims, now: datetime
    ) -> Decision:
        """Check all signatures."""
        if isinstance(topic, bytes):
            try:
                topic = check_advertisement(topic, self._verifier, now=now).advertisement
            except Refused:  # Its certificate has expired, or it has.
                topic = None
        if topic is None:
            return Decision(Denial.EXPIRED)
        return check_access(
            topic,
            brought.access,
            self._verifier,
            now=now,
            possession=brought.possession,
            delegation=brought.delegation,
            holder=brought.holder,
            authorities=brought.authorities,
            revoked=self._revocations.of(str(topic.topic_id)),
        )

    def _holder(self, certificate: bytes) -> str | None:
        """Return the entity whose key *certificate* has; None if it cannot be read, or the entity
        is refused."""
        try:
            holder = identifier_of(read_certificate(certificate), Role.ENTITY)
        except UNREADABLE_CERTIFICATE:
            return None
        return None if holder in self._verifier.trust.refused else holder

    async def _claim(self, decision: Decision, request: AccessRequest, now: datetime) -> Decision:
        """Note in the store that the proof of *decision* was used; deny it if it was before."""
        assert decision.proof is not None
        id_, expires = decision.proof
        claimed = await self._store.submit(
            partial(
                claims.claim,
                sender=decision.holder,
                message=id_,
                notification=request.use,
                # What came in time may be checked late: it must not come again after that, either.
                expires=(max(expires, now) + MARGIN).timestamp(),
                now=now.timestamp(),
                limits=self._limits,
                kind=claims.PROOF,
                once=request.use == "subscribe",
            ),
            locks=(LOCK,),
        )
        if claimed is Claimed.YES:
            return decision
        denial = Denial.REPLAYED if claimed is Claimed.REPLAYED else Denial.CROWDED
        return replace(decision, denial=denial)

    def _audiences(self, named: str) -> frozenset[str]:
        """Return *named* if it is an address of this gateway, or below one."""
        where = normal_address(named)
        own = any(where == each or where.startswith(f"{each}/") for each in self._addresses)
        return frozenset({named}) if own else frozenset()

    def close(self) -> None:
        """End the thread; who waits for it is refused."""
        self._strangers.close()

    # Counts.

    def counted(self, right: Right, decision: Decision) -> Decision:
        """Return *decision*, and count it if it is a denial."""
        if decision.denial is not None:
            self._count(right, decision.denial.name.lower().replace("_", "-"))
        return decision

    def _count(self, right: Right, why: str) -> None:
        key = f"{right.value}-{why}"
        self._denials[key] = self._denials.get(key, 0) + 1

    def metrics(self) -> Iterator[Sample]:
        """Return the numbers of denials."""
        yield counters(
            "discovery_denials",
            "Requests and messages without the right to a topic, by right and reason.",
            "reason",
            dict(self._denials),
        )


def normal_address(url: str) -> str:
    """Return *url* in a form to compare: scheme and host in lower case, without the default port
    and without a slash at its end."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return url
    host = parts.hostname or ""
    host = f"[{host}]" if ":" in host else host
    said = "" if port is None or port == _DEFAULT_PORTS.get(parts.scheme) else f":{port}"
    return f"{parts.scheme}://{host}{said}{parts.path}".rstrip("/")


_DEFAULT_PORTS = {"http": 80, "https": 443}
