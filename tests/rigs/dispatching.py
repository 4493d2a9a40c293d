"""The delivery engine alone, over a real store and real sockets."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from gateway.delivery import (
    AUTHORS,
    Attempts,
    Conservation,
    Dispatcher,
    Entry,
    Schedule,
    SendScheduler,
    author,
    everything,
    next_position,
)
from gateway.delivery.conservation import add_up
from gateway.egress import AddressPolicy, Dialer, HttpTransport, TransportByScheme, parse_target
from gateway.model.dead_letter_reasons import DeadLetter
from gateway.security.keys import new_key, public_id
from gateway.store import Store, dead_letters, totals, waiting_deliveries
from gateway.store import subscriptions as rows
from gateway.store.replicas import HOUSE
from mediation.model.messages import EndpointReference, Lease, Notification, Policy, Subscription
from mediation.model.versions import Soap, Spec, Version, Wsa
from mediation.rendering import prepare
from tests.rigs.stores import check_store, sqlite_url
from tests.rigs.waiting import DEADLINE, until

QUICK = Schedule(delays=(0.05,) * 10, probe=0.05)
"""Eleven attempts in about half a second."""
SOURCE = "urn:test:publisher"


@dataclass
class FakeDelivery:
    """A delivery of a messaging system that keeps the message until it is settled."""

    notification: Notification
    settled: bool = False
    partition: int = 0
    redelivered: bool = False

    def settle(self) -> None:
        self.settled = True


def notification(number: str, filling: int = 0) -> Notification:
    payload = f'<t:event xmlns:t="urn:test"><n>{number}</n><f>{"x" * filling}</f></t:event>'
    return Notification(f"urn:test:{number}", SOURCE, payload.encode(), datetime.now(UTC))


@dataclass
class Engine:
    """A dispatcher with its store, and all that was given to it."""

    store: Store
    dispatcher: Dispatcher
    entries: list[Entry] = field(default_factory=list)
    deliveries: list[FakeDelivery] = field(default_factory=list)
    given_up: list[tuple[Entry, str]] = field(default_factory=list)

    async def subscribe(
        self, url: str, *, owner: str = "anonymous:127.0.0.1", **policy: Any
    ) -> Entry:
        key = new_key()
        subscription = Subscription(
            key,
            public_id(key),
            owner,
            Spec(Version.WSE_2004_08, Soap.V1_2, Wsa.V2004_08),
            EndpointReference(url, Wsa.V2004_08),
            Lease(datetime.now(UTC), None),
            policy=Policy(**policy),
        )
        await self.store.submit(lambda connection: rows.insert(connection, subscription))
        entry = Entry(subscription, prepare(subscription), parse_target(url))
        self.entries.append(entry)
        return entry

    def publish(
        self,
        *numbers: str | int,
        to: list[Entry] | None = None,
        filling: int = 0,
        life: float | None = None,
    ) -> None:
        """Publish events, whose *life* is so many seconds; None: without end."""
        for number in numbers:
            event = notification(str(number), filling)
            if life is not None:
                event = replace(event, expires=event.time + timedelta(seconds=life))
            delivery = FakeDelivery(event)
            self.deliveries.append(delivery)
            self.dispatcher.accept(delivery, self.entries if to is None else to)

    def pause(self, entry: Entry, paused: bool, *, hold: bool = False) -> None:
        policy = replace(entry.subscription.policy, paused=paused, hold_while_paused=hold)
        entry.subscription = replace(entry.subscription, policy=policy)
        (self.dispatcher.quiet if paused else self.dispatcher.resume)(entry)

    async def end(self, entry: Entry, *, expired: bool = False) -> None:
        subscription = entry.subscription
        await self.store.submit(lambda c: rows.delete(c, subscription, expired=expired))
        entry.ended = True
        self.dispatcher.end(entry, expired=expired)

    async def dead(self) -> list[DeadLetter]:
        return await self.store.submit(dead_letters.listed)

    async def redrive(self) -> None:
        by_id = {entry.id: entry for entry in self.entries}
        position = next_position(0, time.time_ns(), author(0, HOUSE))
        redriven = await self.store.submit(
            lambda c: dead_letters.redrive(
                c, dead_letters.ALL, alive=by_id.keys(), position=position, upto=2**62, step=AUTHORS
            )
        )
        for subscription, (count, octets) in redriven.again.items():
            self.dispatcher.add_rows(by_id[subscription], count, octets)

    async def conservation(self) -> Conservation:
        """The law, now."""
        return await conservation_of(self.store, self.dispatcher)

    async def conservation_when(self, **expected: int) -> Conservation:
        """The law, once the fields of it or of its totals are as *expected*."""
        law = await self.conservation()

        async def as_expected() -> bool:
            nonlocal law
            law = await self.conservation()
            return expected == {
                name: getattr(law if hasattr(law, name) else law.totals, name) for name in expected
            }

        await until(as_expected)
        return law

    async def settled(self) -> None:
        """Wait until the messaging system needs to keep nothing."""
        await until(lambda: all(delivery.settled for delivery in self.deliveries), DEADLINE)

    async def at_rest(self, **expected: int) -> Conservation:
        """The same, with all settled, nothing under way, and the law kept."""
        law = await self.conservation_when(in_flight=0, waiting=0, **expected)
        await self.dispatcher.settlement.drained()
        law = await self.conservation()
        assert law.error == 0, law
        assert law.totals.matched == law.totals.settled()
        assert all(delivery.settled for delivery in self.deliveries)
        assert self.dispatcher.settlement.live == self.dispatcher.settlement.messages == 0
        return law


async def conservation_of(store: Store, dispatcher: Dispatcher) -> Conservation:
    """The conservation law over *store* and one dispatcher."""
    durable, held, letters = await store.submit(totals.overall)
    return add_up([dispatcher.settlement], durable, held, letters, dispatcher.scheduler.in_flight)


@asynccontextmanager
async def engine(
    where: Path | str, schedule: Schedule = QUICK, **options: Any
) -> AsyncIterator[Engine]:
    """One that starts with what the database has, which is in a folder or at a URL; on the way out
    it keeps all that it was given."""
    url = sqlite_url(where) if isinstance(where, Path) else where
    store = Store(url, probe=0.1)
    await store.start()
    dialer = Dialer(AddressPolicy(loopback=True))
    limits = options.pop("limits", None)
    transport = TransportByScheme({"http": HttpTransport(dialer, limits=limits)}, dialer)
    given_up: list[tuple[Entry, str]] = []
    attempts = Attempts(transport, producer="http://127.0.0.1/soap")
    dispatcher = Dispatcher(
        store,
        SendScheduler(attempts, probe=schedule.probe),
        share=everything(),
        prefetch=options.pop("prefetch", 64),
        give_up=lambda entry, reason: given_up.append((entry, reason)),
        schedule=schedule,
        retry=0.1,
        **options,
    )
    one = Engine(store, dispatcher, given_up=given_up)
    for subscription in await store.submit(rows.load):
        target = parse_target(subscription.consumer.address)
        one.entries.append(Entry(subscription, prepare(subscription), target))
    while not await store.submit(waiting_deliveries.drop_without_subscription):
        pass
    await dispatcher.start(one.entries)
    try:
        yield one
        async with asyncio.timeout(DEADLINE):
            await dispatcher.stop(5.0)
        # The store is closed next: what is counted in memory alone then is lost.
        assert dispatcher.settlement.uncommitted == totals.Totals()
        assert all(delivery.settled for delivery in one.deliveries)
        law = await conservation_of(store, dispatcher)
        assert law.error == 0, law
        assert (law.in_flight, dispatcher.settlement.live) == (0, 0)
    finally:
        await transport.close()
        await store.close()
    check_store(url)
