"""The sources of the gateway, in memory and in the store.

Every gateway that uses the store knows all of them: what producers send may come to any. One of
them keeps each source, the one that has its share of the work (`lease_keeper`).
"""

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial

import structlog
from sqlalchemy import Connection

from filters import Reason, Refused
from gateway.delivery import PartitionShare
from gateway.egress import AddressPolicy
from gateway.model.sources import (
    Credential,
    EndTold,
    Login,
    Source,
    SourceRow,
    Standing,
    State,
    Wanted,
)
from gateway.observing.samples import Sample, counter, gauges
from gateway.security.password_cipher import PasswordCipher
from gateway.security.principals import Principal
from gateway.security.quotas import QuotaExceeded
from gateway.security.resource_addresses import shown
from gateway.sources.bookmarks import HeldBookmarks, known_as
from gateway.sources.new_sources import NewSource, source_of
from gateway.store import Store, StoreUnavailable, bookmarks
from gateway.store import sources as rows

MOST = 1000
"""Sources, of operators and of registrations together."""
RESERVED = 200
"""Of these, those that strangers' registrations leave to others."""
UNKNOWN_FOR = 1.0
"""Seconds for which a key that the store did not know is not asked for again."""
UNKNOWN_KEYS = 10_000
FRESH = 3.0
"""Seconds for which a key is believed to be one of a source, where other gateways keep some."""
_log = structlog.get_logger("dragoman.sources")


class SourceUnknown(Refused):
    """There is no such source, or no subscription of it with that key any more."""

    def __init__(self) -> None:
        super().__init__(Reason.SOURCE_UNKNOWN, "There is no such subscription here.")


class TooManySources(QuotaExceeded):
    """There is no room for another source."""

    def __init__(self) -> None:
        super().__init__(Reason.QUOTA, "There are too many sources.")


@dataclass(slots=True, eq=False)
class Entry:
    """A source as this gateway knows it; `Sources` alone writes to it.

    Attributes:
        share: The share under which this gateway keeps it; None: another one does.
        exchanging: Whether an exchange with the producer is under way.
        hurried: The next one is due when that is over.
        last_event: When the last event came, here or to another gateway.
        read_at: When it was last known to be as in the store.
    """

    row: SourceRow
    share: PartitionShare | None = None
    exchanging: bool = False
    hurried: bool = False
    last_event: float | None = None
    read_at: float = 0.0

    @property
    def id(self) -> str:
        return self.row.source.id

    @property
    def source(self) -> Source:
        return self.row.source

    @property
    def standing(self) -> Standing:
        return self.row.standing

    @property
    def state(self) -> str:
        """The state for people: one that is to be removed is being removed, whatever it does."""
        removed = self.row.wanted is Wanted.REMOVED
        return (State.REMOVING if removed else self.standing.state).value


class Sources:
    """All sources.

    Args:
        shared: Whether other gateways use the store.
        base: The gateway's URL, without a slash at its end.
        cipher: Encrypts the passwords of sources.
    """

    def __init__(
        self,
        store: Store,
        policy: AddressPolicy,
        *,
        cipher: PasswordCipher,
        shared: bool,
        base: str,
        most: int = MOST,
        most_of_owner: int = 100,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._store = store
        self._policy = policy
        self.cipher = cipher
        self._shared = shared
        self._base = base
        self._most = most
        self._most_of_owner = most_of_owner
        self._clock = clock
        self.bookmarks = HeldBookmarks(store, clock)
        self._entries: dict[str, Entry] = {}
        self._by_key: dict[str, Entry] = {}
        self._unknown: dict[str, float] = {}
        self._came: dict[str, tuple[int, float]] = {}
        self._being_written: Mapping[str, tuple[int, float]] = {}
        """What came, while the store is about to have it; it is in neither place then."""
        self.events = 0
        """Events that this gateway took in from producers."""
        self.changed = asyncio.Event()
        """Something is wanted, or has come: set for the keeper."""

    async def start(self) -> None:
        """Load the sources.

        Raises:
            StoreUnavailable: The store cannot be read.
        """
        for row in await self._store.submit(rows.load):
            self._enter(row)

    @property
    def entries(self) -> Collection[Entry]:
        return list(self._entries.values())

    def by_id(self, id_: str) -> Entry | None:
        """The source with this id."""
        return self._entries.get(id_)

    def metrics(self) -> Iterator[Sample]:
        """The sources that this gateway keeps, by state, and the events that came to it."""
        states = Counter(
            entry.standing.state.value
            for entry in self._entries.values()
            if entry.share is not None
        )
        values: dict[tuple[str, ...], float] = {
            (state.value,): states[state.value] for state in State
        }
        yield gauges("sources", "Sources that this gateway keeps.", ("state",), values)
        yield counter("source_events", "Events that came from producers of sources.", self.events)

    # What operators and registrations ask for.

    async def add(
        self,
        wanted: NewSource,
        principal: Principal,
        *,
        registration: str | None = None,
        on: Wanted = Wanted.ON,
    ) -> Entry:
        """Add a source; it is in the store on return, and kept from then on.

        Raises:
            Refused: The address may not be sent to, or the Subscribe cannot be written.
            QuotaExceeded: There are too many.
        """
        row = self.make(wanted, principal, registration=registration, on=on)
        if wanted.login is not None:
            row = replace(row, source=await self._with_login(row.source, wanted.login))
        insert = partial(self.insert, row=row, trusted=not principal.limits.quotas)
        if not await self._store.submit(insert):
            raise TooManySources
        return self.enter(row)

    async def _with_login(self, source: Source, login: Login) -> Source:
        sealed = await asyncio.to_thread(self.cipher.encrypt, login.password)
        if source.credential is not None:
            return replace(source, credential=source.credential.keeping(sealed))
        return replace(
            source,
            credential=Credential(login.user, sealed, login.basic, login.negotiate, login.kind),
        )

    def make(
        self,
        wanted: NewSource,
        principal: Principal,
        *,
        registration: str | None = None,
        on: Wanted = Wanted.ON,
    ) -> SourceRow:
        """Make the row of a new source, for `insert`; without the credential of a login.

        Raises:
            Refused: The address may not be sent to, or the Subscribe cannot be written.
        """
        source = source_of(
            wanted,
            principal,
            registration,
            policy=self._policy,
            base=self._base,
            now=self._clock(),
        )
        return SourceRow(source, on, Standing(since=source.created, due=source.created), revision=1)

    def insert(self, connection: Connection, row: SourceRow, *, trusted: bool) -> bool:
        """Insert a source in a transaction of the store, after which it is to be entered. Returns
        whether there was room for it."""
        of_owner, in_all = None, self._most
        if not trusted:
            of_owner, in_all = self._most_of_owner, self._most - RESERVED
        return rows.insert(connection, row, of_owner=of_owner, in_all=in_all)

    def enter(self, row: SourceRow) -> Entry:
        """Keep a new source that is in the store now."""
        source, entry = row.source, self._enter(row)
        self.changed.set()
        _log.info(
            "source.added",
            source=source.id,
            producer=shown(source.url),
            spec=source.spec.version.value,
            by="registration" if source.registration else source.made_by or "operator",
        )
        return entry

    async def want(self, id_: str, wanted: Wanted) -> None:
        """Change what is wanted of a source; the gateway that keeps it does the rest.

        Raises:
            SourceUnknown: There is no such source.
        """
        revision = await self._store.submit(partial(rows.want, id_=id_, wanted=wanted))
        if revision is None:
            self._drop(id_)
            raise SourceUnknown
        await self.read([id_])
        self.changed.set()

    async def remove(self, ids: Collection[str]) -> None:
        """Have sources removed that the store says are to be."""
        if ids:
            with contextlib.suppress(StoreUnavailable):  # They are orphans: see `Registrations`.
                await self.read(ids)
            self.changed.set()

    # What producers send.

    async def find(self, key: str) -> Entry:
        """The source whose producer was given *key*.

        Raises:
            SourceUnknown: There is none, or it has another key now.
        """
        entry, now = self._by_key.get(key), self._clock()
        if entry is not None and not (self._shared and now - entry.read_at > FRESH):
            return entry
        # Nobody else adds keys to a store that is ours alone.
        if not self._shared or self._unknown.get(key, 0.0) > now:
            raise SourceUnknown
        row = await self._store.submit(partial(rows.find, key=key))
        if row is None:
            if len(self._unknown) >= UNKNOWN_KEYS:
                self._unknown.clear()
            self._unknown[key] = now + UNKNOWN_FOR
            raise SourceUnknown
        return self._enter(row)

    async def end(self, entry: Entry, told: EndTold) -> None:
        """Note that a producer said that its subscription has ended; the gateway that keeps the
        source does the rest.

        Raises:
            StoreUnavailable: It is not noted.
        """
        await self._store.submit(partial(rows.end, id_=entry.id, told=told))
        await self.read([entry.id])
        self.changed.set()

    def count_events(self, entry: Entry, events: int) -> None:
        """Note that *events* of a source came."""
        now = self._clock()
        number, _ = self._came.get(entry.id, (0, now))
        self._came[entry.id] = number + events, now
        entry.last_event = now
        self.events += events

    def counts(self, entry: Entry) -> tuple[int, float | None]:
        """The number of events of a source, and when the last one came."""
        number, _ = self._came.get(entry.id, (0, 0.0))
        being_written, _ = self._being_written.get(entry.id, (0, 0.0))
        return entry.row.events + being_written + number, entry.last_event

    # The keeper.

    def take_share(self, entry: Entry, share: PartitionShare) -> None:
        """Keep a source at this gateway, under *share*."""
        entry.share = share

    def lose_share(self, entry: Entry) -> None:
        """Leave a source to the gateway that keeps it now."""
        entry.share = None

    def begin_exchange(self, entry: Entry) -> None:
        """Note that an exchange with the producer is under way: no other one begins."""
        entry.exchanging = True

    def end_exchange(self, entry: Entry) -> None:
        """Note that the exchange is over, and have the keeper look at the source."""
        entry.exchanging = False
        if entry.hurried:
            self._hurry(entry)
        self.changed.set()

    def hurry(self, credentials: Collection[str]) -> None:
        """Have sources that fail asked again at once, and not when they are due, whose credential
        is one of these of the settings: it is another one now."""
        for entry in self._entries.values():
            credential = entry.source.credential
            if credential is not None and credential.configured in credentials:
                self._hurry(entry)
        self.changed.set()

    def _hurry(self, entry: Entry) -> None:
        entry.hurried = entry.exchanging
        if entry.standing.failures and not entry.exchanging:
            self.stand(entry, replace(entry.standing, due=self._clock()))

    # The store.

    async def learn(self) -> None:
        """Write what came to the store, and learn what other gateways have changed.

        Raises:
            StoreUnavailable: What came is written the next time.
        """
        came, self._came = self._came, {}
        if not came and not self._shared:
            return

        def operation(connection: Connection) -> Mapping[str, tuple[int, int, float | None]]:
            rows.count(connection, came)
            return rows.glance(connection)

        self._being_written = came
        try:
            seen = await self._store.submit(operation)
        except StoreUnavailable:
            for id_, (number, at) in came.items():
                more, later = self._came.get(id_, (0, at))
                self._came[id_] = number + more, later
            raise
        finally:
            self._being_written = {}
        for id_ in self._entries.keys() - seen.keys():
            self._drop(id_)
        changed = []
        for id_, (revision, events, last) in seen.items():
            entry = self._entries.get(id_)
            if entry is not None:  # Also where more is read of it, which takes a moment.
                self._put(entry, events=events, last_event=last)
            if entry is None or entry.row.revision < revision:
                changed.append(id_)
            else:
                entry.read_at = self._clock()
        if changed:
            await self.read(changed)

    async def keep(self, entry: Entry, standing: Standing, share: PartitionShare) -> None:
        """Keep how a source stands: on return it is in the store.

        Raises:
            Fenced: Another gateway keeps it.
            StoreUnavailable: Nothing was changed.
            SourceUnknown: It is not there any more.
        """

        def operation(connection: Connection) -> int | None:
            share.check(connection)
            return rows.keep(connection, entry.id, standing)

        revision = await self._store.submit(operation)
        if revision is None:
            self._drop(entry.id)
            raise SourceUnknown
        self.stand(entry, standing)
        if revision > entry.row.revision + 1:  # Something else is wanted, too.
            await self.read([entry.id])
        else:
            self._put(entry, revision=revision)

    async def forget(self, entry: Entry, share: PartitionShare) -> None:
        """Delete a source.

        Raises:
            Fenced: Another gateway keeps it.
            StoreUnavailable: Nothing was changed.
        """

        def operation(connection: Connection) -> None:
            share.check(connection)
            rows.forget(connection, entry.id)
            bookmarks.forget(connection, known_as(entry.source))

        await self._store.submit(operation)
        self._drop(entry.id)
        _log.info("source.removed", source=entry.id)

    def stand(self, entry: Entry, standing: Standing) -> None:
        """Have a source stand so in memory."""
        for key in (entry.standing.key, entry.standing.pending):
            if key is not None:
                self._by_key.pop(key, None)
        self._put(entry, standing=standing)
        self._index(entry)

    async def read(self, ids: Iterable[str] | None = None) -> None:
        """Read sources anew: those with *ids*, or all.

        Raises:
            StoreUnavailable: They are known as before.
        """
        ids = None if ids is None else list(ids)
        for row in await self._store.submit(partial(rows.load, ids=ids)):
            self._enter(row)

    def _enter(self, row: SourceRow) -> Entry:
        """Know *row*. How a source stands that is kept here is known better in memory."""
        entry = self._entries.get(row.source.id)
        if entry is None:
            entry = self._entries[row.source.id] = Entry(row, last_event=row.last_event)
        elif row.revision >= entry.row.revision:
            kept = entry.standing if entry.share is not None else row.standing
            self.stand(entry, kept)
            self._put(
                entry,
                wanted=row.wanted,
                ended=row.ended,
                revision=row.revision,
                events=row.events,
                last_event=row.last_event,
            )
        entry.read_at = self._clock()
        self._index(entry)
        return entry

    def _put(self, entry: Entry, **changes: object) -> None:
        entry.row = replace(entry.row, **changes)  # type: ignore[arg-type]
        last = entry.row.last_event
        if last is not None and (entry.last_event is None or entry.last_event < last):
            entry.last_event = last

    def _index(self, entry: Entry) -> None:
        for key in (entry.standing.key, entry.standing.pending):
            if key is not None:
                self._by_key[key] = entry
                self._unknown.pop(key, None)

    def _drop(self, id_: str) -> None:
        entry = self._entries.pop(id_, None)
        if entry is not None:
            for key in (entry.standing.key, entry.standing.pending):
                if key is not None:
                    self._by_key.pop(key, None)
