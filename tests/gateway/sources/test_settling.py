"""What becomes of events that were pulled, when the broker is away and when the gateway stops."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from adapters import AdapterUnavailable
from gateway.delivery.partition_share import everything
from gateway.egress import AddressPolicy
from gateway.model.sources import Source, Standing, State
from gateway.security.identify import OPERATOR
from gateway.security.keys import new_key
from gateway.security.password_cipher import PasswordCipher
from gateway.sources.new_sources import NewSource
from gateway.sources.pulling import Pulling
from gateway.sources.sources import Entry, Sources
from gateway.store import Store
from mediation.eventing.management import Pulled, PulledEvent
from mediation.model.delivery_modes import Mode
from mediation.model.messages import EndpointReference
from mediation.model.versions import Version, Wsa
from tests.rigs.stores import on_each_store
from tests.rigs.waiting import DEADLINE, until

NO_KEY = PasswordCipher(Path("there-is-none"))

BASE = "http://gateway.example.org"
MANAGER = EndpointReference("http://producer.example.org/", Wsa.V2004_08)


class Answering:
    """Exchanges whose Pulls are answered with one event each, as often as they are let."""

    def __init__(self, answers: int) -> None:
        self.contexts: list[bytes] = []
        self._answers = answers

    async def pull(
        self, _source: Source, _manager: EndpointReference | None, context: bytes
    ) -> Pulled:
        self.contexts.append(context)
        if len(self.contexts) > self._answers:
            await asyncio.Event().wait()
        number = len(self.contexts)
        return Pulled(
            (PulledEvent(b"<e/>"),), b"<c>%d</c>" % number, bookmark=b"<b>%d</b>" % number
        )


@pytest.fixture
async def sources(store: Store) -> AsyncIterator[Sources]:
    yield Sources(store, AddressPolicy(), cipher=NO_KEY, shared=False, base=BASE)


async def live(sources: Sources) -> Entry:
    """A source in mode Pull that has a subscription."""
    new = NewSource(
        "http://producer.example.org/", Version.WSE_2004_08, profile="wsman",
        resource="urn:resource", mode=Mode.PULL,
    )  # fmt: skip
    entry = await sources.add(new, OPERATOR)
    entry.share, key = everything(), new_key()
    await sources.keep(entry, Standing(State.LIVE, key=key, manager=MANAGER), entry.share)
    await sources.bookmarks.keep_context(entry.source, entry.share, key, b"<c>0</c>")
    return entry


def begin(pulling: Pulling, entry: Entry) -> None:
    assert entry.share is not None
    pulling.follow(entry, entry.share, lambda *_: pytest.fail("no Pull failed"))


@on_each_store
async def test_events_wait_for_a_broker_that_is_away(sources: Sources) -> None:
    """They are published under the same id each time, and nothing is pulled meanwhile."""
    entry, exchanges = await live(sources), Answering(1)
    tries: list[str | None] = []
    taken = asyncio.Event()

    async def take_in(_: Entry, events: Sequence[PulledEvent]) -> None:
        tries.extend(event.id for event in events)
        if len(tries) < 3:
            assert exchanges.contexts == [b"<c>0</c>"]
            raise AdapterUnavailable("The broker is away.")
        taken.set()

    pulling = Pulling(sources, exchanges, take_in, pause=0.0)  # type: ignore[arg-type]
    begin(pulling, entry)
    await asyncio.wait_for(taken.wait(), DEADLINE)
    await pulling.close()
    assert len(tries) == 3 and len(set(tries)) == 1


@on_each_store
async def test_what_has_come_is_durable_when_the_gateway_stops(sources: Sources) -> None:
    """Its context, too: the next gateway does not pull it again."""
    entry, exchanges = await live(sources), Answering(1)
    came, released = asyncio.Event(), asyncio.Event()

    async def take_in(_: Entry, _events: Sequence[PulledEvent]) -> None:
        came.set()
        await released.wait()

    pulling = Pulling(sources, exchanges, take_in, pause=0.0)  # type: ignore[arg-type]
    begin(pulling, entry)
    await asyncio.wait_for(came.wait(), DEADLINE)
    closing = asyncio.get_running_loop().create_task(pulling.close())
    await asyncio.sleep(0)
    released.set()
    await asyncio.wait_for(closing, DEADLINE)
    key = entry.standing.key or ""
    assert await sources.bookmarks.context(entry.source, key) == b"<c>1</c>"
    assert await sources.bookmarks.last(entry.source) == b"<b>1</b>"
    assert await sources.bookmarks.context(entry.source, "another") is None


@on_each_store
async def test_one_request_waits_at_a_source(sources: Sources) -> None:
    entry, exchanges = await live(sources), Answering(0)

    async def take_in(_: Entry, _events: Sequence[PulledEvent]) -> None:
        pytest.fail("nothing came")

    pulling = Pulling(sources, exchanges, take_in, pause=0.0)  # type: ignore[arg-type]
    for _ in range(3):
        begin(pulling, entry)
    await until(lambda: exchanges.contexts)
    await pulling.close()
    assert exchanges.contexts == [b"<c>0</c>"]
