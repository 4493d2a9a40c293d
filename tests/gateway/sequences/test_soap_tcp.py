"""Sequences (WS-ReliableMessaging) over SOAP.TCP: from publishers, whose events the gateway takes,
and to consumers that listen there."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from mediation.model.messages import EndpointReference
from mediation.model.versions import Soap
from mediation.packaging.dime import DimeMessage, Encoder
from mediation.reliable_messaging import (
    FaultName,
    ReliableMessage,
    Rm,
    RmFault,
    RmSpec,
    TerminateSequenceResponse,
    read_message,
    write_rm_fault,
)
from tests.rigs.consumers import Consumer, consumers
from tests.rigs.envelopes import WSE, Speaker
from tests.rigs.gateways import Running, running
from tests.rigs.reliable_consumers import ReliableConsumer, policy
from tests.rigs.reliable_publishers import ReliablePublisher, fault_of, numbers_in, upto
from tests.rigs.soap_tcp import RawPeer
from tests.rigs.waiting import until

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


# To subscribers.


@dataclass(eq=False)
class TcpConsumer(ReliableConsumer):
    """A consumer of sequences that listens on SOAP.TCP, and says what it has to say on the
    connections that the gateway made."""

    port: int = 0
    calls: int = 0
    """The port of the gateway that it calls instead; 0: it calls nobody."""
    refuses: bool = False
    silent: bool = False

    @property
    def url(self) -> str:
        return f"soap.tcp://127.0.0.1:{self.port}/consumer"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer = RawPeer(reader, writer)
        with contextlib.suppress(EOFError, ConnectionError):
            while True:
                await self._came(peer, await peer.next_message())
        await peer.close()

    async def _came(self, peer: RawPeer, message: DimeMessage) -> None:
        said = read_message(message.envelope)
        self.sent.append(said)
        if said.rm is None or self.loses(said) == "request":
            return
        if said.sequence is not None:
            numbers = self.numbers.setdefault(said.sequence.identifier, [])
            numbers.append(said.sequence.number)
        now = time.time()
        if self.refuses:
            await self._say(peer, message.soap, self._refusal(said))
            return
        reply = self.endpoint.received(message.envelope, now)
        found = [reply.answer, *reply.outgoing, *self.endpoint.due(now + 1.0)]
        if self.silent or self.loses(said) == "answer":
            return
        for each in found:
            if each is not None:
                await self._say(peer, message.soap, each.envelope)

    @staticmethod
    def _refusal(said: ReliableMessage) -> bytes:
        assert said.rm is not None and said.wsa is not None and said.headers.reply_to is not None
        spec = RmSpec(said.rm, said.soap, said.wsa)
        fault = RmFault(FaultName.CREATE_SEQUENCE_REFUSED)
        to, id_ = said.headers.reply_to, said.headers.message_id
        return write_rm_fault(spec, fault, about_header=False, to=to, relates_to=id_)[1]

    async def _say(self, peer: RawPeer, soap: Soap | None, envelope: bytes) -> None:
        octets = Encoder().encode(DimeMessage(soap, envelope))
        if not self.calls:
            await peer.send(octets)
            return
        async with await RawPeer.connect(self.calls) as other:
            await other.send(octets)


@asynccontextmanager
async def consuming(consumer: TcpConsumer) -> AsyncIterator[TcpConsumer]:
    server = await asyncio.start_server(consumer.serve, "127.0.0.1", 0)
    consumer.port = server.sockets[0].getsockname()[1]
    try:
        yield consumer
    finally:
        server.close()


DELIVERING: Any = {
    "adapter": "embedded:",
    "retry_delays": ",".join(["0.05"] * 10),
    "soap_tcp_port": 0,
}


async def subscribe(
    run: Running, consumer: TcpConsumer, rm: Rm = Rm.V1_1, soap: Soap = Soap.V1_2
) -> str:
    speaker = Speaker(soap)
    body = speaker.wse_subscribe(consumer.url)
    body = body.replace("</e:Delivery>", f"{policy(rm)}</e:Delivery>")
    return await run.subscribe(speaker, body)


async def publish(run: Running, *numbers: int) -> None:
    for number in numbers:
        await run.publish(f'<t:event xmlns:t="urn:t"><n>{number}</n></t:event>')


async def got(consumer: TcpConsumer, *numbers: int) -> None:
    await until(lambda: consumer.got == [str(number) for number in numbers])


@pytest.mark.parametrize(("rm", "soap"), VERSIONS)
@pytest.mark.parametrize("calls", [False, True], ids=["on the connection", "on one of its own"])
async def test_to_a_consumer(tmp_path: Path, rm: Rm, soap: Soap, calls: bool) -> None:
    async with consuming(TcpConsumer()) as consumer, running(tmp_path, **DELIVERING) as run:
        consumer.calls = run.soap_tcp_port if calls else 0
        manager = await subscribe(run, consumer, rm, soap)
        await publish(run, 1, 2, 3)
        await got(consumer, 1, 2, 3)
        await run.quiet()
        assert consumer.sequences == [[1, 2, 3]]
        assert {said.soap for said in consumer.sent} == {soap}
        await run.ask(Speaker(soap), f'<e:Unsubscribe xmlns:e="{WSE}"/>', manager)
        ends = ["CloseSequence"] if rm.rules.closes else ["LastMessage"]
        wanted = ["CreateSequence", *ends, "TerminateSequence"]
        await until(lambda: consumer.bodies() == wanted)


async def test_what_is_lost_on_the_way_to_a_consumer_is_sent_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A loaded consumer may be asked for its last word, too: then there is a second sequence."""
    monkeypatch.setattr("gateway.delivery.sequences.protocol.CALLED_BACK", 0.3)
    async with consuming(TcpConsumer()) as consumer, running(tmp_path, **DELIVERING) as run:
        await subscribe(run, consumer)
        lost = iter(["request", "", "answer", ""])
        consumer.loses = lambda said: next(lost, "") if said.sequence is not None else ""
        await publish(run, 1, 2, 3)
        await got(consumer, 1, 2, 3)
        await run.quiet()
        assert (list(lost), consumer.got) == ([], ["1", "2", "3"])


async def test_a_consumer_that_makes_no_sequence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with consuming(TcpConsumer()) as consumer, running(tmp_path, **DELIVERING) as run:
        speaker = Speaker()
        body = speaker.wse_subscribe(consumer.url)
        body = body.replace("</e:Delivery>", f"{policy()}</e:Delivery>")
        for soap in Soap:
            consumer.refuses = True
            answer = await run.ask(replace(speaker, soap=soap), body)
            assert b"DeliveryModeRequestedUnavailable" in answer.body
        consumer.refuses, consumer.silent = False, True
        monkeypatch.setattr("gateway.delivery.sequences.protocol.CALLED_BACK", 0.1)
        answer = await run.ask(speaker, body)
        assert answer.status >= 400
        assert b"could not be asked for a sequence" in answer.body
