"""Registrations of publishers: who may publish what where that is asked for, and which publishers
are to be subscribed at while somebody wants what they have.

    RegisterPublisher ---> registered ---> DestroyRegistration, Destroy, its time is over ---> gone
                               |
                               +-- with Demand: a source for each of its topics, of which `demand`
                                   says whether it is wanted

A registration comes into the store with its sources and in place of former ones, and leaves it with
them, in one transaction: no crash, and no other gateway, sees one without the other.
"""

import asyncio
import contextlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache, partial

import structlog
from sqlalchemy import Connection

from filters import Expression, Reason, Refused, TopicPattern, parse_expression
from filters.topics import TopicIndex
from gateway.delivery import WorkSharing
from gateway.egress import AddressPolicy
from gateway.model.registrations import Registration
from gateway.model.sources import SourceRow, Wanted
from gateway.resources import ResourceUnknown
from gateway.security.keys import new_key, public_id
from gateway.security.principals import Principal
from gateway.security.quotas import PrincipalRate, QuotaExceeded
from gateway.security.resource_addresses import shown
from gateway.sources.new_sources import NewSource
from gateway.sources.requester import checked
from gateway.sources.sources import Sources, TooManySources
from gateway.store import Store, StoreUnavailable, run_apart
from gateway.store import registrations as rows
from gateway.store import sources as source_rows
from gateway.subscriptions.lifecycle.leases import LeaseTerms, grant
from mediation.model.messages import EndpointReference, Notification
from mediation.model.requests import RegisterPublisher
from mediation.model.specification import LeaseRules
from mediation.model.versions import Spec

MOST = 10_000
MOST_OF_OWNER = 100
"""Registrations, in all and of one stranger."""
RESERVED = 2000
"""Of all, those that strangers leave to trusted peers."""
REGISTERS, REGISTERS_AT_ONCE = 2.0, 20.0
"""Registrations that one stranger may ask for: a second, and at once."""
LOGGED = 200
"""Characters of a stranger's text that the log has."""
ROUND = 1.0
"""Seconds from one look at what has ended to the next."""
RECONCILE = 30.0
"""Seconds from one look at what was left behind to the next."""
_RULES = LeaseRules()
_log = structlog.get_logger("dragoman.registrations")


@dataclass(frozen=True, slots=True)
class _Inserted:
    """What an insertion changed besides: the registrations that it replaced, and the ids of the
    sources that are to be removed."""

    replaced: Sequence[Registration]
    removed: Collection[str]


class Registrations:
    """All registrations, in memory and in the store.

    Args:
        required: Whether only what is registered may be published.
        most: Registrations in all; strangers leave `RESERVED` of them to trusted peers.
    """

    def __init__(
        self,
        store: Store,
        sources: Sources,
        policy: AddressPolicy,
        sharing: WorkSharing,
        *,
        terms: LeaseTerms,
        required: bool = False,
        most: int = MOST,
    ) -> None:
        self._store = store
        self._sources = sources
        self._policy = policy
        self._sharing = sharing
        self._terms = terms
        self._most = most
        self.required = required
        self._by_key: dict[str, Registration] = {}
        self._open: set[str] = set()
        """The keys of those that name no topics: they may publish on all, and on none."""
        self._topics = TopicIndex[tuple[str, Expression]]()
        """The keys of the others with each of their topics, where registrations are required."""
        self._state: tuple[int, float, float] | None = None
        """What the store said of those that are known."""
        self._rate = PrincipalRate(REGISTERS, REGISTERS_AT_ONCE, "Too many registrations.")

    async def start(self) -> None:
        """Load the registrations.

        Raises:
            StoreUnavailable: The store cannot be read.
        """
        await self.learn()

    @property
    def all(self) -> Collection[Registration]:
        return list(self._by_key.values())

    async def register(
        self, request: RegisterPublisher, spec: Spec, principal: Principal, *, now: datetime
    ) -> Registration:
        """Register a publisher; on return it is in the store, and so are its sources.

        Raises:
            Refused: as the specification says; nothing is registered.
        """
        self._rate.take(principal)
        expires = self.lease(request, principal, now)
        key = new_key()
        registration = Registration(
            key, public_id(key), principal.owner, spec, request, now, expires
        )
        sources = self._sources_of(registration, principal)

        def operation(connection: Connection) -> _Inserted | Refused:
            insert = partial(
                self._insert,
                registration=registration,
                sources=sources,
                trusted=not principal.limits.quotas,
            )
            [outcome] = run_apart([insert], connection)
            if isinstance(outcome, _Inserted | Refused):
                return outcome
            try:
                raise outcome
            finally:
                del outcome

        # Another gateway may register the same publisher at this moment.
        locks = (f"registrations of {registration.owner}",)
        outcome = await self._store.submit(operation, locks=locks)
        if isinstance(outcome, Refused):
            try:
                raise outcome
            finally:
                del outcome
        for former in outcome.replaced:
            self._leave(former)
            _log.info("publisher.gone", registration=former.id, why="replaced")
        self._enter(registration)
        for row in sources:
            self._sources.enter(row)
        await self._sources.remove(outcome.removed)
        _log.info(
            "publisher.registered",
            registration=registration.id,
            publisher=_logged(request.publisher.address) if request.publisher else None,
            topics=[_logged(topic.text) for topic in request.topics],
            demand=request.demand,
        )
        return registration

    def lease(
        self, request: RegisterPublisher, principal: Principal, now: datetime
    ) -> datetime | None:
        """The end that a registration gets which asks for the time of *request*.

        Raises:
            LeaseRefused: It gets none.
        """
        if not principal.limits.leases and request.expires.unspecified:
            return None  # Apache CXF's publishers never say, and never come back.
        return grant(
            request.expires, _RULES, self._terms, trusted=not principal.limits.leases, now=now
        )

    def _sources_of(self, registration: Registration, principal: Principal) -> list[SourceRow]:
        """The sources of a registration: of a publisher on demand.

        Raises:
            Refused: Nothing may be sent to it, or a topic cannot be subscribed to.
        """
        request = registration.request
        if not request.demand or request.publisher is None:
            return []
        checked(request.publisher.address, self._policy)
        return [
            self._sources.make(new, principal, registration=registration.id, on=Wanted.OFF)
            for new in _sources_of(request, request.publisher, registration.spec)
        ]

    def _insert(
        self,
        connection: Connection,
        *,
        registration: Registration,
        sources: Sequence[SourceRow],
        trusted: bool,
    ) -> "_Inserted":
        """Insert a registration with its sources, in place of earlier ones of the same publisher on
        demand: it has restarted, and what it has would come twice.

        Raises:
            QuotaExceeded: There is no room; nothing that was done here holds.
        """
        request, owner = registration.request, registration.owner
        replaced: list[Registration] = []
        removed: list[str] = []
        if request.demand and request.publisher is not None:
            known = rows.of_publisher(connection, owner, request.publisher.address)
            replaced = [one for one in known if _asks_the_same(one.request, request)]
        for former in replaced:
            removed += rows.delete(connection, former.id) or ()
        of_owner, in_all = None, self._most
        if not trusted:
            of_owner, in_all = MOST_OF_OWNER, self._most - RESERVED
        if not rows.insert(connection, registration, of_owner=of_owner, in_all=in_all):
            raise QuotaExceeded(Reason.QUOTA, "There are too many registrations.")
        for row in sources:
            if not self._sources.insert(connection, row, trusted=trusted):
                raise TooManySources
        return _Inserted(replaced, removed)

    async def find(self, key: str | None) -> Registration:
        """The registration with this key.

        Raises:
            ResourceUnknown: There is none.
        """
        registration = self._by_key.get(key or "")
        if self._sharing.shared and key is not None:
            registration = await self._store.submit(partial(rows.find, key=key))
        if registration is None or _is_over(registration, datetime.now(UTC)):
            raise ResourceUnknown
        return registration

    async def move(self, registration: Registration, expires: datetime | None) -> None:
        """Move the end of a registration.

        Raises:
            ResourceUnknown: It is gone.
        """
        if not await self._store.submit(partial(rows.move, id_=registration.id, expires=expires)):
            self._leave(registration)
            raise ResourceUnknown
        if registration.key in self._by_key:  # Another gateway's may not be known yet.
            self._by_key[registration.key] = replace(registration, expires=expires)

    async def destroy(self, registration: Registration, *, why: str = "destroyed") -> None:
        """End a registration; on return it is gone from the store, and nothing more is wanted of
        its sources.

        Raises:
            ResourceUnknown: It was gone.
        """
        removed = await self._store.submit(partial(rows.delete, id_=registration.id))
        self._leave(registration)
        if removed is None:
            raise ResourceUnknown
        await self._sources.remove(removed)
        _log.info("publisher.gone", registration=registration.id, why=why)

    async def check(self, notifications: Sequence[Notification]) -> None:
        """See that somebody registered to publish *notifications*, where that is required.

        Raises:
            Refused: ``TOPIC_UNREGISTERED``.
        """
        if not self.required or all(map(self._is_registered, notifications)):
            return
        if self._sharing.shared:
            await self.learn()
        for notification in notifications:
            if not self._is_registered(notification):
                raise Refused(
                    Reason.TOPIC_UNREGISTERED,
                    "Nobody registered to publish on the topic: send RegisterPublisher first.",
                    value=str(notification.topic),
                )

    def _is_registered(self, notification: Notification) -> bool:
        topic = notification.topic
        return bool(self._open) or (topic is not None and bool(self._topics.find(topic)))

    def _enter(self, registration: Registration) -> None:
        """Know *registration*."""
        key, topics = registration.key, registration.request.topics
        known, self._by_key[key] = key in self._by_key, registration
        if known:  # Its end may have moved.
            return
        if not topics:
            self._open.add(key)
        elif self.required:
            for topic in dict.fromkeys(topics):
                self._topics.add((key, topic), (pattern_of(topic),))

    def _leave(self, registration: Registration) -> None:
        """Know *registration* no more."""
        key = registration.key
        if self._by_key.pop(key, None) is None:
            return
        self._open.discard(key)
        if self.required:
            for topic in dict.fromkeys(registration.request.topics):
                self._topics.remove((key, topic))

    # Rounds.

    async def run(self) -> None:
        """End what has expired, and remove what was left behind, for ever."""
        loop, reconciled = asyncio.get_running_loop(), 0.0
        while True:
            try:
                if self._sharing.shared:
                    await self.learn()
                if self._sharing.keeps_house:
                    await self._expire()
                    if loop.time() - reconciled > RECONCILE:
                        await self.reconcile()
                        reconciled = loop.time()
            except StoreUnavailable:
                pass  # It is done the next time.
            except Exception:
                _log.exception("registrations.error")
            await asyncio.sleep(ROUND)

    async def learn(self) -> None:
        """Learn the registrations of the store, where they are others than those known.

        Raises:
            StoreUnavailable: They are known as before.
        """
        state = await self._store.submit(rows.state)
        if state == self._state:
            return
        there = {one.key: one for one in await self._store.submit(rows.load)}
        for registration in self.all:
            if registration.key not in there:
                self._leave(registration)
        for registration in there.values():
            self._enter(registration)
        self._state = state

    async def _expire(self) -> None:
        now = datetime.now(UTC)
        for registration in self.all:
            if _is_over(registration, now):
                with contextlib.suppress(ResourceUnknown):
                    await self.destroy(registration, why="expired")

    async def reconcile(self) -> None:
        """Remove sources whose registration is gone, and know those of every other one.

        Raises:
            StoreUnavailable: It is done the next time.
        """
        owned = {
            entry.source.registration
            for entry in self._sources.entries
            if entry.row.wanted is not Wanted.REMOVED
        }
        await self.learn()  # After: what is owned by then is there, or is gone.
        there = {registration.id for registration in self.all}
        orphans = {one for one in owned if one is not None} - there
        if orphans:
            remove = partial(source_rows.remove_of, registrations=orphans)
            await self._sources.remove(await self._store.submit(remove))
        if any(one.request.demand and one.id not in owned for one in self.all):
            await self._sources.read()  # Who registered did not wait for the store.


@lru_cache(maxsize=4096)
def pattern_of(expression: Expression) -> TopicPattern:
    """The topics that *expression* selects."""
    return parse_expression(expression)


def _logged(text: str) -> str:
    """A stranger's text, as a log bears it."""
    return shown(text)[:LOGGED]


def _is_over(registration: Registration, now: datetime) -> bool:
    return registration.expires is not None and registration.expires <= now


def _asks_the_same(one: RegisterPublisher, other: RegisterPublisher) -> bool:
    """Whether one publisher asks for the same: until when does not count."""
    return (one.publisher, one.demand, _meant(one.topics)) == (
        other.publisher,
        other.demand,
        _meant(other.topics),
    )


def _meant(topics: Sequence[Expression]) -> frozenset[Expression]:
    """*topics* in any order, with the prefixes that each of them uses."""
    return frozenset(replace(one, namespaces=tuple(sorted(_used(one)))) for one in topics)


def _sources_of(
    request: RegisterPublisher, publisher: EndpointReference, spec: Spec
) -> list[NewSource]:
    """The sources of a publisher on demand: one for each topic, so that each is wanted by itself;
    one for all where it names none."""
    every: list[Expression | None] = [*request.topics] or [None]
    return [
        NewSource(
            publisher.address,
            spec.version,
            None if topic is None else topic.text,
            namespaces=() if topic is None else _used(topic),
            lease=timedelta(hours=1).total_seconds(),
            silence=0.0,  # Apache CXF's publishers cannot be asked.
            spec=spec,
            reference=publisher,
        )
        for topic in every
    ]


def _used(topic: Expression) -> tuple[tuple[str, str], ...]:
    """The prefixes of *topic* that its text has."""
    return tuple((prefix, uri) for prefix, uri in topic.namespaces if f"{prefix}:" in topic.text)
