"""Events that are signed through one client and checked by another, with a gateway between."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from dragoman import sync
from dragoman.client import (
    Client,
    CloudEventsClient,
    Consumer,
    Event,
    GridEventsClient,
    OnvifClient,
    UnsupportedOperation,
    WseClient,
    WsManagementClient,
    WsMessengerClient,
    WsnClient,
)
from dragoman.signing import SignatureInvalid, Signer, TrustedSigners
from mediation.grid_events import Event as GridEvent
from mediation.grid_events import write_payload
from tests.rigs.event_signatures import credentials, key_pem, now, pem
from tests.rigs.gateways import Running, running
from tests.rigs.waiting import DEADLINE

PUBLISHERS = [WseClient, WsnClient, WsMessengerClient, CloudEventsClient, GridEventsClient]
CONSUMERS: dict[str, Callable[..., Client]] = {
    "WS-Eventing": WseClient,
    "WS-Notification": WsnClient,
    "WS-Notification 1.0": lambda url, **how: WsnClient(url, version="1.0", **how),
    "WS-Management": WsManagementClient,
    "WS-Messenger": WsMessengerClient,
    "CloudEvents": CloudEventsClient,
    "Grid SOAP Events": GridEventsClient,
}
GALE = '<w:gale xmlns:w="urn:w" kind="w:storm">8</w:gale>'


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[Running]:
    async with running(tmp_path) as run:
        yield run


@pytest.fixture(scope="module")
def mole(tmp_path_factory: pytest.TempPathFactory) -> Signer:
    folder = tmp_path_factory.mktemp("keys")
    (folder / "mole.key").write_bytes(key_pem(credentials()))
    (folder / "mole.pem").write_bytes(pem(credentials()))
    return Signer.from_files(folder / "mole.key", folder / "mole.pem")


@pytest.fixture
def trusted(tmp_path: Path) -> TrustedSigners:
    (tmp_path / "harbour.pem").write_bytes(pem())
    return TrustedSigners.from_file(tmp_path / "harbour.pem")


async def soon(awaitable: Any) -> Any:
    return await asyncio.wait_for(awaitable, DEADLINE)


async def test_who_signed_is_told_whatever_was_spoken(
    gateway: Running, mole: Signer, trusted: TrustedSigners
) -> None:
    async with AsyncExitStack() as stack:
        consumers = {
            name: await stack.enter_async_context(make(gateway.url, signers=trusted))
            for name, make in CONSUMERS.items()
        }
        listening = {
            name: await stack.enter_async_context(client.listen(topic="storms"))
            for name, client in consumers.items()
        }
        for publisher in PUBLISHERS:
            client = await stack.enter_async_context(publisher(gateway.url))
            id = await client.publish(GALE, topic="storms", sign=mole)
            for name, events in listening.items():
                event: Event = await soon(anext(events))
                told = (event.signed_by, event.signature_error)
                assert told == ("North mole", None), (publisher, name)
                found = trusted.verify(event)
                assert found is not None
                assert (found.topic, found.id) == ("storms", id)
        await client.publish(GALE, topic="storms")
        for events in listening.values():
            event = await soon(anext(events))
            assert (event.signature, event.signed_by, event.signature_error) == (None, None, None)
            assert trusted.verify(event) is None


async def test_what_is_fetched_is_signed(
    gateway: Running, mole: Signer, trusted: TrustedSigners
) -> None:
    async with WsnClient(gateway.url) as publisher:
        makers = (WsnClient, WseClient, OnvifClient, WsManagementClient, WsMessengerClient)
        for make in makers:
            async with make(gateway.url, signers=trusted) as client:
                subscription = await client.subscribe(topic="fetched")
                await publisher.publish(GALE, topic="fetched", sign=mole)
                await publisher.publish(GALE, topic="fetched")
                events: list[Event] = []
                while len(events) < 2:
                    events += await soon(client.pull(subscription))
                assert [event.signed_by for event in events] == ["North mole", None], make
                await client.unsubscribe(subscription)


async def test_a_consumer_of_its_own_tells_who_signed(
    gateway: Running, mole: Signer, trusted: TrustedSigners
) -> None:
    async with WsnClient(gateway.url) as client, Consumer(signers=trusted) as consumer:
        await client.publish(GALE, topic="storms", to=consumer.address, sign=mole)
        assert (await soon(consumer.receive())).signed_by == "North mole"
        signature = mole.sign("<gale>9</gale>", topic="storms", id="urn:uuid:1")
        properties = {"eventsignature": signature}
        await client.publish(GALE, topic="storms", to=consumer.address, properties=properties)
        event: Event = await soon(consumer.receive())
        assert (event.signed_by, event.signature_error) == (
            None,
            "the event is not what was signed",
        )
        await client.publish(
            "<gale>9</gale>", topic="calms", to=consumer.address, properties=properties
        )
        event = await soon(consumer.receive())
        assert event.signature_error == "it was signed for storms, not for this"
        with pytest.raises(SignatureInvalid):
            trusted.verify(event)


def test_clients_without_asyncio_sign(mole: Signer, trusted: TrustedSigners) -> None:
    with (
        sync.Consumer(signers=trusted) as consumer,
        sync.WsnClient("http://127.0.0.1:59999") as client,
    ):
        client.publish(GALE, topic="storms", to=consumer.address, sign=mole)
        assert consumer.receive().signed_by == "North mole"


def test_data_that_is_no_xml_is_signed_as_it_is(mole: Signer, trusted: TrustedSigners) -> None:
    signature = mole.sign(b'{"n": 1}', topic=None, id="1", media_type="application/json")
    event = Event(b'{"n": 1}', properties={"eventsignature": signature})
    found = trusted.verify(event, now=now())
    assert found is not None and found.topic is None
    with pytest.raises(SignatureInvalid):
        trusted.verify(Event(b'{"n":1}', properties=event.properties))


async def test_an_event_of_grid_events_is_not_signed(mole: Signer) -> None:
    event = write_payload(GridEvent("urn:w", "gale"))
    async with GridEventsClient("http://127.0.0.1:59999") as client:
        with pytest.raises(UnsupportedOperation, match="not signed"):
            await client.publish(event, topic="storms", sign=mole)
