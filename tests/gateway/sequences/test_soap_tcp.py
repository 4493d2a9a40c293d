"""Sequences (WS-ReliableMessaging) over SOAP.TCP: from publishers, whose events the gateway takes."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from mediation import EndpointReference, Soap
from mediation.packaging.dime import DimeMessage, Encoder
from mediation.reliable_messaging import (
    FaultName,
    ReliableMessage,
    Rm,
    TerminateSequenceResponse,
    read_message,
)
from tests.rigs.consumers import Consumer, consumers
from tests.rigs.envelopes import Speaker
from tests.rigs.gateways import Running, running
from tests.rigs.reliable_publishers import ReliablePublisher, fault_of, numbers_in, upto
from tests.rigs.soap_tcp import RawPeer

VERSIONS = [(rm, soap) for rm in Rm for soap in Soap]
ORDERS = "soap.tcp://gateway.example.com/soap/topic/orders"


@dataclass
class TcpPublisher(ReliablePublisher):
    """A publisher on one connection of SOAP.TCP."""

    peer: RawPeer | None = None
    named: str = ""
    answers: list[ReliableMessage] = field(default_factory=list)

    @property
    def to(self) -> EndpointReference:
        named = self.named or f"{self.run.soap_tcp}/soap"
        return EndpointReference(named, self.spec.wsa)

    async def say(self, octets: bytes) -> None:
        """Send what is not answered."""
        assert self.peer is not None
        await self.peer.send(Encoder().encode(DimeMessage(self.soap, octets)))

    async def exchange(self, octets: bytes, path: str = "") -> ReliableMessage | None:
        assert self.peer is not None
        await self.say(octets)
        said = read_message((await self.peer.receive()).envelope)
        self.answers.append(said)
        for each in said.acknowledgements:
            self.acknowledged = each.ranges
        return said


@asynccontextmanager
async def publishing(
    data: Path, rm: Rm = Rm.V1_1, soap: Soap = Soap.V1_2, **settings: object
) -> AsyncIterator[tuple[TcpPublisher, Consumer]]:
    chosen = {"adapter": "embedded:", "wsrm": "offered", "soap_tcp_port": 0, **settings}
    speaker = Speaker()
    async with consumers() as some, running(data, **chosen) as run:
        consumer = some.add()
        await run.subscribe(speaker, speaker.wsn_subscribe(consumer.url))
        async with await RawPeer.connect(run.soap_tcp_port) as peer:
            yield TcpPublisher(run, rm, soap, peer=peer), consumer


async def arrived(run: Running, consumer: Consumer, *numbers: int) -> None:
    await consumer.until(lambda: seen(consumer) == list(numbers))
    await run.quiet()
    assert seen(consumer) == list(numbers)


def seen(consumer: Consumer) -> list[int]:
    return numbers_in(receipt.body for receipt in consumer.received)


@pytest.mark.parametrize(("rm", "soap"), VERSIONS)
async def test_each_event_once_in_order(tmp_path: Path, rm: Rm, soap: Soap) -> None:
    async with publishing(tmp_path, rm, soap) as (publisher, consumer):
        await publisher.create()
        await publisher.send(1)
        assert publisher.acknowledged == upto(1)
        await publisher.send(3)
        await publisher.send(1)
        await publisher.send(2)
        assert publisher.acknowledged == upto(3)
        await arrived(publisher.run, consumer, 1, 2, 3)
        assert all(said.rm is rm and said.soap is soap for said in publisher.answers)
        if rm is Rm.V1_1:
            said = await publisher.terminate(3)
            assert said is not None and isinstance(said.body, TerminateSequenceResponse)


async def test_another_connection_of_the_same_publisher(tmp_path: Path) -> None:
    async with publishing(tmp_path) as (publisher, consumer):
        await publisher.create()
        await publisher.send(1)
        async with await RawPeer.connect(publisher.run.soap_tcp_port) as again:
            publisher.peer = again
            await publisher.send(1)
            await publisher.send(2)
        assert publisher.acknowledged == upto(2)
        await arrived(publisher.run, consumer, 1, 2)


async def test_acknowledgements_go_to_an_address(tmp_path: Path) -> None:
    async with consumers() as some, publishing(tmp_path) as (publisher, consumer):
        mine = some.add()
        publisher.acks_to = mine.url
        await publisher.create()
        await publisher.say(publisher.message(1, '<e:event xmlns:e="urn:example">1</e:event>'))
        await mine.until(lambda: any(b'Upper="1"' in each.body for each in mine.received))
        await arrived(publisher.run, consumer, 1)


@pytest.mark.parametrize("named", ["", "soap://logical.example.com/whatever"])
async def test_where_one_is_required(tmp_path: Path, named: str) -> None:
    async with publishing(tmp_path, wsrm="required") as (publisher, consumer):
        publisher.named = named
        plain = Speaker().envelope("<a/>", to=publisher.to.address, message_id="urn:example:1")
        said = await publisher.exchange(plain)
        assert fault_of(said).name is FaultName.WSRM_REQUIRED
        await publisher.create()
        await publisher.send(1)
        await arrived(publisher.run, consumer, 1)


async def test_the_endpoint_is_that_which_the_message_names(tmp_path: Path) -> None:
    rows: Any = {"wsrm": "off", "wsrm_at": {"/soap/topic/orders": "required"}}
    async with publishing(tmp_path, **rows) as (publisher, consumer):
        said = await publisher.ask_to_create()
        assert said is not None
        assert said.fault is not None and "not offered here" in said.fault.reason
        publisher.named = ORDERS
        plain = Speaker().envelope("<a/>", to=ORDERS, message_id="urn:example:1")
        assert fault_of(await publisher.exchange(plain)).name is FaultName.WSRM_REQUIRED
        await publisher.create()
        await publisher.send(1)
        assert publisher.acknowledged == upto(1)
        await arrived(publisher.run, consumer, 1)
        publisher.named = ""
        said = await publisher.send(2)
        assert said is not None
        assert said.fault is not None and "not offered here" in said.fault.reason


async def test_where_sequences_are_off(tmp_path: Path) -> None:
    async with publishing(tmp_path, wsrm="off") as (publisher, _):
        said = await publisher.ask_to_create()
        assert said is not None
        assert said.fault is not None and "not offered here" in said.fault.reason
