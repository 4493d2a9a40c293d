"""Mailboxes: messages kept for readers that nobody can reach, until they fetch them.

A mailbox is one thing with several doors: WS-BaseNotification's pull points, ONVIF's PullMessages,
WS-Messenger's message box, WS-MakeConnection, Server-Sent Events and JSON. It keeps whole SOAP
envelopes, in the store. Who reads leases them: they leave the mailbox when they were handed over,
and are the oldest again when they were not.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import TypeVar

import structlog
from sqlalchemy import Connection

from filters import Reason, Refused
from gateway.mailboxes.errors import MailboxUnknown
from gateway.mailboxes.leases import MailboxLeases
from gateway.mailboxes.quotas import MailboxQuotas
from gateway.mailboxes.waiting import WaitingReaders
from gateway.model.mailboxes import (
    Mailbox,
    MailboxBounds,
    MailboxKind,
    MailboxSize,
    PutResult,
)
from gateway.model.moments import moment_of
from gateway.model.subscriber_grants import Holds, SubscriberGrant
from gateway.observing.samples import Sample, counter
from gateway.security.keys import new_key, public_id
from gateway.security.principals import Principal, owner_in
from gateway.security.quotas import QuotaExceeded
from gateway.security.tenant_quotas import counting_refusals
from gateway.store import Store
from gateway.store import mailbox_messages as messages
from gateway.store import mailboxes as rows
from gateway.store.dead_letters import Selection, Slice
from gateway.store.owner_bytes import BytesExceeded, OwnerBytes

LOOK_AROUND = 0.5
"""Seconds between two looks for messages that other replicas have put in, while readers wait."""
REPLAY = 300.0
"""Seconds for which messages that were sent over a stream can be sent again."""
FULL_FOR = 5.0
"""Seconds after which a sender may try a full mailbox again."""
T = TypeVar("T")
_log = structlog.get_logger("dragoman.mailboxes")


class Mailboxes:
    """All mailboxes.

    Args:
        trusts: Returns whether an owner of mailboxes is trusted.
        holds: Whether the right by which a message was put in is still good; None: all are.
        signs: Some of what is handed out is signed: nothing is kept that cannot be.

    Attributes:
        shared: Whether other gateways make, fill and read them, too.
        waiting: The readers that wait.
        leases: The messages that readers take.
    """

    def __init__(
        self,
        store: Store,
        quotas: MailboxQuotas,
        *,
        shared: bool = False,
        trusts: Callable[[str], bool] = lambda _: True,
        owner_bytes: OwnerBytes | None = None,
        clock: Callable[[], float] = time.time,
        holds: Holds | None = None,
        signs: bool = False,
    ) -> None:
        self._store = store
        self._signs = signs
        self.shared = shared
        self._clock = clock
        self._quotas = quotas
        self._trusts = trusts
        self._owner_bytes = owner_bytes or OwnerBytes(store, trusts=lambda _: True)
        self._by_key: dict[str, Mailbox] = {}
        self._named: dict[str, Mailbox] = {}
        self.waiting = WaitingReaders()
        self.leases = MailboxLeases(
            store, self.waiting, clock=clock, forget=self._forget, holds=holds
        )
        self.dropped = 0
        """Messages that went to the dead letters, for want of room or of a reader."""
        self.expired = 0
        """Messages that were removed because their life was over, and nobody asked for them."""

    async def start(self) -> None:
        """Load the mailboxes of the store.

        Raises:
            StoreUnavailable: The store cannot be read.
        """
        for mailbox in await self._store.submit(rows.load):
            self._know(mailbox)

    def __len__(self) -> int:
        return len(self._by_key)

    def metrics(self) -> Iterator[Sample]:
        """The messages that went to the dead letters, and those that expired."""
        yield counter(
            "mailbox_dropped",
            "Messages of mailboxes that found no room or no reader: they are dead letters.",
            self.dropped,
        )
        yield counter(
            "mailbox_expired",
            "Messages of mailboxes whose life was over before they were taken.",
            self.expired + self.leases.expired,
        )

    def _know(self, mailbox: Mailbox) -> Mailbox:
        self._by_key[mailbox.key] = mailbox
        if mailbox.name is not None:
            self._named[mailbox.name] = mailbox
        return mailbox

    def _forget(self, key: str) -> None:
        mailbox = self._by_key.pop(key, None)
        if mailbox is not None and mailbox.name is not None:
            self._named.pop(mailbox.name, None)
        self.waiting.wake(key)

    # Mailboxes.

    async def make(
        self, kind: MailboxKind, principal: Principal, *, name: str | None = None
    ) -> Mailbox:
        """Make a mailbox; where another request was quicker, return the one with this *name*.

        Raises:
            QuotaExceeded: There are too many.
        """
        key = new_key()
        mailbox = Mailbox(key, public_id(key), principal.owner, kind, name)
        making = self.making(mailbox, principal)

        def make(connection: Connection) -> Mailbox | None:
            there = rows.find(connection, name=name) if name is not None else None
            if there is None:
                making(connection)
            return there

        with counting_refusals(principal.quotas):
            there = await self._store.submit(make)
        return self.made(mailbox) if there is None else self._know(there)

    def making(self, mailbox: Mailbox, principal: Principal) -> Callable[[Connection], None]:
        """The operation that makes *mailbox*, for a transaction that does more, within
        `counting_refusals`; when that is committed, `made` must be called.

        Raises:
            QuotaExceeded: (the transaction) There are too many.
            BytesExceeded: Too much is kept for *principal*.
        """
        self._owner_bytes.check(mailbox.owner)
        quotas = self._quotas

        def make(connection: Connection) -> None:
            if principal.quotas is not None:
                there = rows.number_of(connection, owner_in(principal.tenant, ""))
                principal.quotas.check_mailboxes(there)
            if not rows.make(
                connection,
                mailbox,
                now=self._clock(),
                of_owner=quotas.owner if principal.limits.quotas else None,
                in_all=quotas.total,
            ):
                raise QuotaExceeded(Reason.QUOTA, "There are too many mailboxes.")

        return make

    def made(self, mailbox: Mailbox) -> Mailbox:
        """Note that *mailbox* is in the store."""
        _log.info(
            "mailbox.created", mailbox=mailbox.id, kind=mailbox.kind.value, owner=mailbox.owner
        )
        return self._know(mailbox)

    def known(self, key: str) -> Mailbox | None:
        """The mailbox with this key, as far as this process knows."""
        return self._by_key.get(key)

    def known_by_name(self, name: str) -> Mailbox | None:
        """The mailbox of the consumer with this address, as far as this process knows."""
        return self._named.get(name)

    @property
    def most(self) -> int:
        """The number of mailboxes that a stranger may have."""
        return self._quotas.owner

    async def find(self, key: str | None) -> Mailbox:
        """The mailbox with this key.

        Raises:
            MailboxUnknown: There is none.
        """
        mailbox = self._by_key.get(key) if key else None
        if key and not (key.isascii() and key.isprintable()):  # No key looks like that.
            raise MailboxUnknown
        if key and self.shared:  # Another replica may have made or destroyed it.
            mailbox = await self._store.submit(partial(rows.find, key=key))
            if mailbox is not None:
                self._know(mailbox)
            else:
                self._forget(key)
        if mailbox is None:
            raise MailboxUnknown("" if key else "clientid")
        return mailbox

    async def reached(self, key: str | None, principal: Principal) -> Mailbox:
        """The mailbox with this key, for *principal*, who wants to read or end it.

        Raises:
            MailboxUnknown: There is none, or it is of a tenant that *principal* does not reach.
        """
        mailbox = await self.find(key)
        if not principal.reaches(mailbox.owner):
            raise MailboxUnknown
        return mailbox

    async def number_of(self, tenant: str) -> int:
        """The number of mailboxes of *tenant*, which is not the default one."""
        return await self._store.submit(partial(rows.number_of, owners=owner_in(tenant, "")))

    async def named(self, name: str) -> Mailbox | None:
        """The mailbox of the consumer with this address."""
        mailbox = self._named.get(name)
        if self.shared:
            found = await self._store.submit(partial(rows.find, name=name))
            if found is not None:
                self._know(found)
            elif mailbox is not None:
                self._forget(mailbox.key)
            return found
        return mailbox

    async def learn(self, keys: Collection[str], names: Collection[str]) -> None:
        """Load those mailboxes with these keys and names that other replicas have made.

        Raises:
            StoreUnavailable: The store cannot be read.
        """
        keys = [key for key in keys if key not in self._by_key]
        names = [name for name in names if name not in self._named]
        if (keys or names) and self.shared:
            for mailbox in await self._store.submit(partial(rows.load, keys=keys, names=names)):
                self._know(mailbox)

    def _change(self, key: str, operation: Callable[[Connection], T]) -> "asyncio.Future[T]":
        """Run *operation*, which changes the messages of the mailbox with *key*, on the store."""
        return self._store.submit(operation, locks=(key,))

    def gone(self, key: str) -> None:
        """Note that the mailbox with *key* is not in the store any more."""
        self._forget(key)

    async def size(self, mailbox: Mailbox) -> MailboxSize:
        """The number and octets of the messages in *mailbox*.

        Raises:
            MailboxUnknown: The mailbox is gone.
        """
        found = await self._store.submit(partial(rows.size, key=mailbox.key))
        if found is None:
            self._forget(mailbox.key)
            raise MailboxUnknown
        return found

    async def idle_end(self, mailbox: Mailbox) -> datetime:
        """The time at which *mailbox* is destroyed, should nobody read it any more.

        Raises:
            MailboxUnknown: The mailbox is gone.
        """
        size = await self.size(mailbox)
        return moment_of(size.used + self._quotas.idle)

    async def listed(
        self, after: str, limit: int, tenant: str | None = None
    ) -> list[tuple[Mailbox, MailboxSize]]:
        """The *limit* first mailboxes whose ids are greater than *after*; with *tenant*, which is
        not the default one, of those that are its own.

        Raises:
            StoreUnavailable: The store cannot be read.
        """
        owners = owner_in(tenant, "") if tenant is not None else ""
        return await self._store.submit(
            partial(rows.listed, after=after, limit=limit, owners=owners)
        )

    async def find_by_id(self, id_: str) -> tuple[Mailbox, MailboxSize] | None:
        """The mailbox with this id, which is not its key; None where there is none.

        Raises:
            StoreUnavailable: The store cannot be read.
        """
        if not (id_.isascii() and id_.isprintable()):  # No database need be asked for others.
            return None
        found = await self._store.submit(partial(rows.listed, id_=id_, limit=1))
        return found[0] if found else None

    # Messages in.

    async def put(
        self,
        mailbox: Mailbox,
        envelopes: Sequence[tuple[str | None, bytes]],
        *,
        expires: float | None = None,
        grant: SubscriberGrant | None = None,
    ) -> None:
        """Put *envelopes*, each with its message id, into *mailbox*; on return they are durable. An
        envelope whose id lies there already is kept once. From POSIX time *expires* on nobody gets
        them; nor once the *grant* by which a subscriber gets them is not good any more.

        Raises:
            MailboxUnknown: The mailbox is gone.
            Refused: ``MAILBOX_FULL``. ``MESSAGE_INVALID``: what is handed out has to be signed, and
                one of them cannot be: those behind it would never be had.
            StoreUnavailable: The envelopes may be there, or not.
        """
        if self._signs:
            await _check_signable([envelope for _, envelope in envelopes])
        now, bounds = self._clock(), self._bounds(mailbox)
        octets = sum(len(envelope) for _, envelope in envelopes)
        try:
            self._owner_bytes.take(mailbox.owner, octets)
        except BytesExceeded:
            raise _full("Too much is kept for the owner of the mailbox.") from None
        outcome, dropped = await self._change(
            mailbox.key,
            partial(
                messages.put,
                key=mailbox.key,
                envelopes=envelopes,
                bounds=bounds,
                now=now,
                expires=expires,
                granted=grant.to_text() if grant is not None else None,
            ),
        )
        if outcome is PutResult.UNKNOWN:
            self._forget(mailbox.key)
            raise MailboxUnknown
        if outcome is PutResult.FULL:
            self._owner_bytes.freed(mailbox.owner, octets)
            raise _full("The mailbox is full.")
        if dropped:
            self.dropped += dropped
            _log.warning("mailbox.overflow", mailbox=mailbox.id, dropped=dropped)
        self.waiting.wake(mailbox.key, len(envelopes))

    def _bounds(self, mailbox: Mailbox) -> MailboxBounds:
        bounds = self._quotas.bounds
        if self._quotas.refuse_strangers and not self._trusts(mailbox.owner):
            return replace(bounds, refuse=True)
        return bounds

    async def redrive(self, selection: Selection, *, after: int, upto: int) -> Slice:
        """Put a slice of dead letters back into their mailboxes."""
        redrive = partial(
            messages.redrive, selection=selection, now=self._clock(), after=after, upto=upto
        )
        slice_, again = await self._store.submit(redrive)
        for key in again:
            self.waiting.wake(key)
        return slice_

    # Housekeeping.

    async def forget_destroyed(self) -> None:
        """Forget mailboxes that other replicas have destroyed, and nobody asked for here since."""
        if self.shared:
            known = set(self._by_key)
            there = await self._store.submit(rows.load)
            for key in known - {mailbox.key for mailbox in there}:
                self._forget(key)

    async def clear(self) -> None:
        """Remove messages whose life is over, and bury those that nobody took in time."""
        now = self._clock()
        while expired := await self._store.submit(partial(messages.expire, now=now)):
            self.expired += expired
        while True:
            buried = await self._store.submit(
                partial(messages.sweep, now=now, oldest=now - self._quotas.age, handed=now - REPLAY)
            )
            self.dropped += buried
            if buried < messages.AT_A_TIME:
                break

    async def unused(self) -> Sequence[str]:
        """The keys of mailboxes that nobody has read for too long."""
        idle_since = self._clock() - self._quotas.idle
        return await self._store.submit(partial(rows.unused, before=idle_since))

    async def look_around(self) -> None:
        """Wake readers when another replica has put something into their mailboxes, for ever."""
        while True:
            await asyncio.sleep(LOOK_AROUND)
            if keys := self.waiting.keys:
                with contextlib.suppress(Refused):
                    look = partial(messages.ready, keys=keys, now=self._clock())
                    for key in await self._store.submit(look):
                        self.waiting.wake(key)

    def close(self) -> None:
        """Answer all readers that wait: the gateway stops."""
        self.waiting.send_away()


async def _check_signable(envelopes: Sequence[bytes]) -> None:
    from mediation.ws_security import has_canonical_form, may_lack_canonical_form

    doubtful = [one for one in envelopes if may_lack_canonical_form(one)]
    if doubtful and not await asyncio.to_thread(lambda: all(map(has_canonical_form, doubtful))):
        raise Refused(
            Reason.MESSAGE_INVALID,
            "It cannot be signed, as what is fetched here is: a namespace has a relative name.",
        )


def _full(text: str) -> Refused:
    refused = Refused(Reason.MAILBOX_FULL, text)
    refused.retry_after = FULL_FOR
    return refused
