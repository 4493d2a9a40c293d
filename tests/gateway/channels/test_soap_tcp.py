"""Channels with names over SOAP.TCP, where an envelope alone says which one it is for."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from gateway.client.soap_tcp import SoapTcpCaller, SoapTcpConsumer
from mediation.model.versions import Soap, Version
from mediation.packaging.dime import DimeMessage, Encoder
from tests.rigs.consumers import Consumers
from tests.rigs.envelopes import Speaker, fresh_id
from tests.rigs.gateways import Running, running
from tests.rigs.grid_events import handle, lease
from tests.rigs.soap_tcp import RawPeer, consuming
from tests.rigs.waiting import until

WSA = "http://www.w3.org/2005/08/addressing"
EVENT = "<eventNamespace>urn:lab</eventNamespace><eventType>{}</eventType><seqNo>{}</seqNo>"
ROWS = ({"name": "lab", "example": {"eventType": "a"}}, {"name": "far"})


@dataclass
class Channels:
    """A gateway with two channels, and a peer on SOAP.TCP."""

    run: Running
    peer: RawPeer

    def at(self, name: str) -> str:
        return f"{self.run.soap_tcp}/soap/channel/{name}"

    async def call(self, octets: bytes) -> bytes:
        """The answer to a call."""
        await self.peer.send(Encoder().encode(DimeMessage(Soap.V1_1, octets)))
        return (await self.peer.receive()).envelope

    async def listens(self, location: str, name: str) -> bytes:
        port = f"<endpoint><location>{location}</location></endpoint>"
        head = f"<s:Header>{to(self.at(name))}</s:Header><s:Body>".encode()
        return await self.call(lease(port=port).replace(b"<s:Body>", head))


def to(address: str, id_: str = "") -> str:
    """What says whom an envelope is for."""
    block = f"<w:To xmlns:w='{WSA}'>{address}</w:To>"
    return block + (f"<w:MessageID xmlns:w='{WSA}'>{id_}</w:MessageID>" if id_ else "")


@pytest.fixture
async def channels(tmp_path: Path) -> AsyncIterator[Channels]:
    more = {"soap_tcp_port": 0, "channels": ROWS, "deliver_to_self": True}
    async with running(tmp_path, **more) as run, await RawPeer.connect(run.soap_tcp_port) as peer:
        yield Channels(run, peer)


async def test_calls_are_made_there(channels: Channels) -> None:
    async with Consumers() as consumers:
        lab, main = consumers.at("/lab"), consumers.at("/main")
        assert b"subscribeLeaseResponse" in await channels.listens(lab.url, "lab")
        port = f"<endpoint><location>{main.url}</location></endpoint>"
        assert b"subscribeLeaseResponse" in await channels.call(lease(port=port))
        for type_, address in (("b", "lab"), ("a.c", "lab"), ("a.d", "far")):
            octets = handle(EVENT.format(type_, 1), header=to(channels.at(address)))
            assert b"handleEventResponse" in await channels.call(octets)
        assert b"handleEventResponse" in await channels.call(handle(EVENT.format("a.e", 1)))
        await lab.have(1)
        await main.have(1)
        await channels.run.quiet()
        assert [b"a.c" in one.body for one in lab.received] == [True]
        assert [b"a.e" in one.body for one in main.received] == [True]


async def test_answers_relate_to_their_calls(channels: Channels) -> None:
    """Several may be under way on one connection."""
    caller = SoapTcpCaller()
    for name, status in (("lab", 200), ("none", 500)):
        octets = handle(EVENT.format("a", 1), header=to(channels.at(name), fresh_id()))
        answer = await caller.call(channels.run.soap_tcp, Soap.V1_1, octets)
        assert answer.status == status, answer.body
    caller.close()


async def test_who_calls_without_an_id_is_told_what_is_wrong(channels: Channels) -> None:
    answer = await channels.call(handle(EVENT.format("a", 1), header=to(channels.at("none"))))
    assert b"There is no channel" in answer
    assert b"lacks its parameter" in await channels.call(handle("").replace(b"<p1></p1>", b""))


async def test_listeners_are_told_which_of_them_is_called(channels: Channels) -> None:
    async with consuming() as consumer:
        locations = [f"soap.tcp://127.0.0.1:{consumer.port}/{name}?a&amp;b" for name in "xy"]
        for location in locations:
            await channels.listens(location, "lab")
        octets = handle(EVENT.format("a", 1), header=to(channels.at("lab")))
        await channels.call(octets)
        await until(lambda: len(consumer.messages) == 2)
        came = [message.envelope for message in consumer.messages]
    said = [f"<a:To xmlns:a='{WSA}'>{location}</a:To>".encode() for location in locations]
    assert [sum(block in envelope for envelope in came) for block in said] == [1, 1]
    assert all(b":grid-events:1'>" in envelope for envelope in came), "and what it has passed"


async def test_a_channel_listens_to_another_one(channels: Channels) -> None:
    async with Consumers() as consumers:
        far = consumers.at("/far")
        await channels.listens(far.url, "far")
        await channels.listens(channels.at("far"), "lab")
        await channels.call(handle(EVENT.format("a", 1), header=to(channels.at("lab"))))
        await far.have(1)
        await channels.run.quiet()
        assert far.count == 1


@pytest.mark.parametrize("version", [Version.WSE_2004_08, Version.WSN_1_3])
async def test_other_specifications_are_spoken_there(channels: Channels, version: Version) -> None:
    speaker = Speaker()
    subscribe = speaker.wsn_subscribe if version is Version.WSN_1_3 else speaker.wse_subscribe
    async with SoapTcpConsumer() as consumer:
        octets = speaker.envelope(
            subscribe(consumer.address), message_id=fresh_id(), to=channels.at("far")
        )
        await channels.peer.send(Encoder().encode(DimeMessage(speaker.soap, octets)))
        assert b"SubscribeResponse" in (await channels.peer.receive()).envelope
        for name, payload in (("lab", "<a/>"), ("far", "<b/>")):
            octets = speaker.envelope(payload, message_id=fresh_id(), to=channels.at(name))
            await channels.peer.send(Encoder().encode(DimeMessage(speaker.soap, octets)))
        arrived = await consumer.receive()
        assert [one.payload for one in arrived.notifications] == [b"<b/>"]


async def test_a_link_needs_answers(channels: Channels) -> None:
    answer = await channels.run.api(
        "POST", "/links", f'{{"url": "{channels.at("far")}", "channel": "lab"}}'.encode()
    )
    assert answer.status == 400, answer.body
