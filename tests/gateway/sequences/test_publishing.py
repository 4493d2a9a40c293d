"""Publishers that send in sequences: each event once, in order, and acknowledged once it is
durable."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from sqlalchemy import select

from gateway.reliability.stores.tables import outgoing
from mediation.model.versions import Soap, Wsa
from mediation.names import WSA_NONE, WSMAN
from mediation.reliable_messaging import (
    NO_NUMBERS,
    AckRequested,
    AckRequestedAlone,
    CloseSequenceResponse,
    CreateSequence,
    CreateSequenceResponse,
    FaultName,
    Offer,
    Ranges,
    Rm,
    SequenceHeader,
    TerminateSequence,
    TerminateSequenceResponse,
    ack_requested_block,
    write_message,
)
from tests.rigs.consumers import Consumer, consumers
from tests.rigs.envelopes import Answer, Speaker, fresh_id
from tests.rigs.gateways import Running, running
from tests.rigs.reliable_publishers import ReliablePublisher, fault_of, numbers_in, upto

SPEAKER = Speaker()
EMBEDDED = {"adapter": "embedded:"}
VERSIONS = [
    pytest.param(rm, soap, wsa, id=f"{rm.number}-{soap.name}-{wsa.name}")
    for rm in Rm
    for soap in Soap
    for wsa in rm.rules.wsa
]


@asynccontextmanager
async def a_gateway(data: Path, **settings: object) -> AsyncIterator[tuple[Running, Consumer]]:
    """A gateway that offers sequences, and a consumer of everything."""
    chosen = {"wsrm": "offered", **EMBEDDED, **settings}
    async with consumers() as some, running(data, **chosen) as run:
        consumer = some.add()
        await run.subscribe(SPEAKER, SPEAKER.wsn_subscribe(consumer.url))
        yield run, consumer


async def arrived(run: Running, consumer: Consumer, *numbers: int) -> None:
    """Wait for events, and see that they came each once, in this order."""
    await run.until(lambda: len(seen(consumer)) >= len(numbers))
    await run.quiet()
    assert seen(consumer) == list(numbers)


def seen(consumer: Consumer) -> list[int]:
    return numbers_in(receipt.body for receipt in consumer.received)


@pytest.mark.parametrize(("rm", "soap", "wsa"), VERSIONS)
async def test_a_sequence(tmp_path: Path, rm: Rm, soap: Soap, wsa: Wsa) -> None:
    async with a_gateway(tmp_path) as (run, consumer):
        publisher = ReliablePublisher(run, rm, soap, wsa)
        await publisher.create()
        for number in (1, 2, 3):
            await publisher.send(number, last=number == 3 and rm is Rm.V1_0)
            assert publisher.acknowledged == upto(number)
        if rm is Rm.V1_1:
            said = await publisher.close(3)
            assert said is not None
            assert isinstance(said.body, CloseSequenceResponse)
            assert said.acknowledgements[0].final
            said = await publisher.terminate(3)
            assert said is not None
            assert isinstance(said.body, TerminateSequenceResponse)
        else:
            assert await publisher.terminate() is None
        await arrived(run, consumer, 1, 2, 3)


async def test_what_comes_again_is_acknowledged_and_not_published(tmp_path: Path) -> None:
    async with a_gateway(tmp_path) as (run, consumer):
        publisher = ReliablePublisher(run)
        await publisher.create()
        for number in (1, 1, 2, 1, 2):
            await publisher.send(number)
        assert publisher.acknowledged == upto(2)
        await arrived(run, consumer, 1, 2)


async def test_what_came_too_early_waits_and_is_not_acknowledged(tmp_path: Path) -> None:
    async with a_gateway(tmp_path) as (run, consumer):
        publisher = ReliablePublisher(run)
        await publisher.create()
        for number in (3, 2, 5):
            await publisher.send(number)
            assert publisher.acknowledged == NO_NUMBERS
        await publisher.send(1)
        assert publisher.acknowledged == upto(3)
        await publisher.send(4)
        assert publisher.acknowledged == upto(5)
        await arrived(run, consumer, 1, 2, 3, 4, 5)


async def test_many_at_once_in_any_order_and_some_of_them_twice(tmp_path: Path) -> None:
    async with a_gateway(tmp_path) as (run, consumer):
        publisher = ReliablePublisher(run)
        await publisher.create()
        numbers = [*range(1, 101), *range(20, 60)]
        random.Random(7).shuffle(numbers)
        waiting = asyncio.Semaphore(16)

        async def send(number: int) -> None:
            body = f'<e:event xmlns:e="urn:example">{number}</e:event>'
            async with waiting:
                await publisher.post(publisher.message(number, body))

        await asyncio.gather(*map(send, numbers))
        await publisher.ask()
        assert publisher.acknowledged == upto(100)
        await arrived(run, consumer, *range(1, 101))


async def test_the_gateway_is_stopped_while_messages_wait(tmp_path: Path) -> None:
    async with a_gateway(tmp_path) as (run, consumer):
        publisher = ReliablePublisher(run)
        await publisher.create()
        await publisher.send(1)
        await publisher.send(3)
        assert publisher.acknowledged == upto(1)
        await arrived(run, consumer, 1)
    async with a_gateway(tmp_path) as (run, consumer):
        publisher.run = run
        await publisher.send(2)
        assert publisher.acknowledged == upto(3)
        await run.until(lambda: len(seen(consumer)) >= 2)
        assert seen(consumer) == [2, 3]


async def test_an_event_that_is_refused_holds_nobody_up(tmp_path: Path) -> None:
    async with a_gateway(tmp_path) as (run, consumer):
        publisher = ReliablePublisher(run)
        await publisher.create()
        await publisher.send(2)
        said = await publisher.send(1, SPEAKER.wsn_subscribe("http://a.example.com/"))
        assert said is not None
        assert said.fault is not None, "a request is no event"
        assert publisher.acknowledged == upto(2)
        await arrived(run, consumer, 2)


async def test_a_message_that_cannot_be_read_has_had_its_turn(tmp_path: Path) -> None:
    async with a_gateway(tmp_path) as (run, consumer):
        publisher = ReliablePublisher(run)
        await publisher.create()
        said = await publisher.send(1, '<n:Notify xmlns:n="http://docs.oasis-open.org/wsn/b-2"/>')
        assert said is not None
        assert said.fault is not None
        await publisher.send(2)
        assert publisher.acknowledged == upto(2)
        await arrived(run, consumer, 2)


async def test_a_gap_that_is_never_filled(tmp_path: Path) -> None:
    """What was not acknowledged is not published, when the sequence ends."""
    async with a_gateway(tmp_path) as (run, consumer):
        publisher = ReliablePublisher(run)
        await publisher.create()
        for number in (1, 3):
            await publisher.send(number)
        said = await publisher.close(3)
        assert said is not None
        assert [(each.ranges, each.final) for each in said.acknowledgements] == [(upto(1), True)]
        assert fault_of(await publisher.send(2)).name is FaultName.SEQUENCE_CLOSED
        await publisher.terminate(3)
        await arrived(run, consumer, 1)


async def test_a_gap_that_is_never_filled_in_1_0(tmp_path: Path) -> None:
    async with a_gateway(tmp_path) as (run, consumer):
        publisher = ReliablePublisher(run, Rm.V1_0)
        await publisher.create()
        for number in (1, 3):
            await publisher.send(number)
        await publisher.terminate()
        other = ReliablePublisher(run, Rm.V1_0)
        await other.create()
        await other.send(1, '<e:event xmlns:e="urn:example">3</e:event>')
        await arrived(run, consumer, 1, 3)


async def test_an_empty_last_message_of_1_0(tmp_path: Path) -> None:
    async with a_gateway(tmp_path) as (run, consumer):
        publisher = ReliablePublisher(run, Rm.V1_0)
        await publisher.create()
        await publisher.send(1)
        octets = publisher.message(2, "", last=True)
        action = f"{Rm.V1_0.namespace}/LastMessage"
        await publisher.exchange(octets.replace(b"urn:example:Event", action.encode()))
        assert publisher.acknowledged == upto(2)
        assert fault_of(await publisher.send(3)).name is FaultName.LAST_MESSAGE_NUMBER_EXCEEDED
        await arrived(run, consumer, 1)


async def test_create_sequence_comes_twice(tmp_path: Path) -> None:
    async with a_gateway(tmp_path) as (run, _):
        publisher = ReliablePublisher(run)
        octets = publisher.create_message(message_id=fresh_id())
        one, other = await publisher.exchange(octets), await publisher.exchange(octets)
        assert one is not None
        assert other is not None
        assert one.body == other.body


@pytest.mark.parametrize("rm", Rm)
async def test_an_offer(tmp_path: Path, rm: Rm) -> None:
    async with a_gateway(tmp_path) as (run, _):
        publisher = ReliablePublisher(run, rm)
        endpoint = publisher.here if rm is Rm.V1_1 else None
        asked = CreateSequence(publisher.here, offer=Offer(fresh_id(), endpoint))
        said = await publisher.ask_to_create(asked=asked)
        assert said is not None
        accepted = getattr(said.body, "accept_acks_to", "")
        assert (accepted is not None) == (rm is Rm.V1_0)


async def test_an_offer_of_1_0_stays_empty(tmp_path: Path) -> None:
    """It is accepted, the publisher's own sequence works, and both end together; no sequence is
    kept for it."""
    async with a_gateway(tmp_path) as (run, consumer):
        publisher = ReliablePublisher(run, Rm.V1_0)
        offered = fresh_id()
        asked = CreateSequence(publisher.here, offer=Offer(offered))
        said = await publisher.ask_to_create(asked=asked)
        assert said is not None and isinstance(said.body, CreateSequenceResponse)
        publisher.identifier = said.body.identifier
        for number in (1, 2):
            await publisher.send(number, last=number == 2)
        await arrived(run, consumer, 1, 2)
        kept = await run.gateway.store.submit(
            lambda connection: connection.execute(select(outgoing.c.key)).all()
        )
        assert not kept
        said = await publisher.terminate()
        assert said is not None and said.body == TerminateSequence(offered)


async def test_what_is_acknowledged_is_asked_for(tmp_path: Path) -> None:
    async with a_gateway(tmp_path) as (run, _):
        publisher = ReliablePublisher(run)
        await publisher.create()
        said = await publisher.ask()
        assert said is not None
        assert said.acknowledgements[0].ranges == NO_NUMBERS
        await publisher.send(1, asks=True)
        await publisher.ask()
        assert publisher.acknowledged == upto(1)


async def test_acknowledgements_go_elsewhere(tmp_path: Path) -> None:
    async with consumers() as some, a_gateway(tmp_path) as (run, consumer):
        mine = some.add()
        publisher = ReliablePublisher(run, acks_to=mine.url)
        await publisher.create()
        for number in (1, 2):
            assert await publisher.send(number) is None
        await run.until(lambda: any(b'Upper="2"' in each.body for each in mine.received))
        await arrived(run, consumer, 1, 2)


async def test_a_fault_about_a_sequence_goes_where_its_acknowledgements_go(
    tmp_path: Path,
) -> None:
    async with consumers() as some, a_gateway(tmp_path) as (run, consumer):
        mine = some.add()
        publisher = ReliablePublisher(run, acks_to=mine.url)
        await publisher.create()
        await publisher.send(1)
        await publisher.close(1)
        answer = await publisher.post(publisher.message(2, event(2)))
        assert (answer.status, answer.body) == (202, b"")
        await run.until(lambda: any(b"SequenceClosed" in each.body for each in mine.received))
        [told] = [each for each in mine.received if b"SequenceClosed" in each.body]
        assert b"Final" in told.body
        assert f'action="{Rm.V1_1.namespace}/fault"' in told.headers["content-type"]
        await arrived(run, consumer, 1)


@pytest.mark.parametrize("soap", list(Soap))
@pytest.mark.parametrize("name", ["FaultTo", "ReplyTo"])
async def test_an_unknown_sequence_is_told_where_the_message_says(
    tmp_path: Path, name: str, soap: Soap
) -> None:
    async with consumers() as some, a_gateway(tmp_path) as (run, _):
        mine = some.add()
        publisher = ReliablePublisher(run, soap=soap)
        wsa = publisher.spec.wsa.value
        block = f'<w:{name} xmlns:w="{wsa}"><w:Address>{mine.url}</w:Address></w:{name}>'
        message = publisher.message(1, event(1), identifier="urn:nobody")
        message = message.replace(b"</s:Header>", block.encode() + b"</s:Header>", 1)
        answer = await publisher.post(message)
        assert (answer.status, answer.body) == (202, b"")
        await run.until(lambda: bool(mine.received))
        [told] = mine.received
        assert b"UnknownSequence" in told.body
        action = f'"{Rm.V1_1.namespace}/fault"'
        if soap is Soap.V1_1:
            assert told.headers["soapaction"] == action
        else:
            assert f"action={action}" in told.headers["content-type"]


@pytest.mark.parametrize("rm", list(Rm))
async def test_several_sequences_are_asked_about_at_once(tmp_path: Path, rm: Rm) -> None:
    async with a_gateway(tmp_path) as (run, _):
        made = []
        for count in (1, 2, 3):
            publisher = ReliablePublisher(run, rm)
            made.append(await publisher.create())
            for number in range(1, count + 1):
                await publisher.send(number)
        blocks = [ack_requested_block(rm, AckRequested(each)) for each in made]
        to = publisher.to
        _, octets = write_message(publisher.spec, AckRequestedAlone(), to=to, blocks=blocks)
        said = publisher.read((await publisher.post(octets)).body)
        assert said is not None
        told = {each.identifier: each.ranges for each in said.acknowledgements}
        assert told == {each: upto(count) for each, count in zip(made, (1, 2, 3), strict=True)}


async def test_acknowledgements_go_somewhere(tmp_path: Path) -> None:
    async with a_gateway(tmp_path) as (run, _):
        publisher = ReliablePublisher(run, acks_to=WSA_NONE)
        assert fault_of(await publisher.ask_to_create()).name is FaultName.CREATE_SEQUENCE_REFUSED


async def test_a_sequence_has_one_version_of_ws_addressing(tmp_path: Path) -> None:
    async with a_gateway(tmp_path) as (run, consumer):
        publisher = ReliablePublisher(run, Rm.V1_0, wsa=Wsa.V2004_08)
        await publisher.create()
        publisher.wsa = Wsa.V2005_08
        assert fault_of(await publisher.send(1)).name is FaultName.UNKNOWN_SEQUENCE
        publisher.wsa = Wsa.V2004_08
        await publisher.send(1)
        await arrived(run, consumer, 1)


async def test_an_event_without_a_sequence_where_one_is_required(tmp_path: Path) -> None:
    rows = {"wsrm_at": {"/soap/topic/orders": "required"}, "wsrm": "off"}
    async with a_gateway(tmp_path, **rows) as (run, consumer):
        answer = await run.ask(SPEAKER, "<a/>", "/soap/topic/orders")
        assert b"WSRMRequired" in answer.body
        await run.publish('<e:event xmlns:e="urn:example">7</e:event>')
        publisher = ReliablePublisher(run, path="/soap/topic/orders")
        await publisher.create()
        await publisher.send(1)
        await arrived(run, consumer, 7, 1)
        publisher.path = "/soap"
        said = await publisher.send(2)
        assert said is not None
        assert said.fault is not None, "there the Sequence header is not understood"


async def test_where_sequences_are_off(tmp_path: Path) -> None:
    async with a_gateway(tmp_path, wsrm="off") as (run, _):
        publisher = ReliablePublisher(run)
        answer = await publisher.post(publisher.create_message())
        assert b"WS-ReliableMessaging 1.1 is not offered" in answer.body
        answer = await publisher.post(publisher.message(1, "<a/>", identifier="urn:x"))
        assert b"MustUnderstand" in answer.body
        assert run.gateway.sequences is None


async def test_the_answer_that_a_publisher_waits_for_comes_again(tmp_path: Path) -> None:
    """WS-Messenger's clients wait for an envelope in answer to every event."""
    async with a_gateway(tmp_path) as (run, consumer):
        path = "/axis2/services/EventingService"
        publisher = ReliablePublisher(run, soap=Soap.V1_1, path=path)
        await publisher.create()
        message = publisher.message(1, '<e:event xmlns:e="urn:example">1</e:event>')
        one, other = await publisher.post(message), await publisher.post(message)
        assert one.status == other.status == 200
        assert b"SequenceAcknowledgement" in one.body
        track = [each.message.body[0].get("trackId") for each in (one, other)]
        assert track[0] is not None
        assert track[0] == track[1]
        await arrived(run, consumer, 1)


@pytest.mark.parametrize("sender", ["WS-Management", "WS-Messenger"])
async def test_an_event_that_is_not_stored_is_not_said_to_be_taken(
    tmp_path: Path, sender: str
) -> None:
    async with a_gateway(tmp_path) as (run, consumer):
        if sender == "WS-Messenger":
            path, asks = "/axis2/services/EventingService", b""
            publisher = ReliablePublisher(run, soap=Soap.V1_1, path=path)
        else:
            asks = b'<w:AckRequested xmlns:w="%b"/>' % WSMAN.encode()
            publisher = ReliablePublisher(run, wsa=Wsa.V2004_08, rm=Rm.V1_0)
        await publisher.create()

        async def post(number: int) -> Answer:
            octets = publisher.message(number, f'<e:event xmlns:e="urn:example">{number}</e:event>')
            return await publisher.post(octets.replace(b"</s:Header>", asks + b"</s:Header>", 1))

        for _ in range(2):
            assert (await post(20_000)).status == 503, "it is too far above those before"
        assert (await post(1)).status == 200
        await publisher.ask()
        assert publisher.acknowledged == upto(1)
        await arrived(run, consumer, 1)


def test_ranges_up_to_a_number() -> None:
    ranges = Ranges.of([(1, 3), (5, 9)])
    assert [str(ranges.upto(number)) for number in (0, 2, 4, 5, 20)] == [
        "", "1-2", "1-3", "1-3,5", "1-3,5-9",
    ]  # fmt: skip
    assert SequenceHeader("urn:x", 1).number in ranges.upto(1)


@pytest.mark.parametrize("rm", list(Rm))
async def test_what_is_missing_is_asked_for(tmp_path: Path, rm: Rm) -> None:
    async with consumers() as some, a_gateway(tmp_path, wsrm_nacks=True) as (run, consumer):
        publisher = ReliablePublisher(run, rm)
        await publisher.create()
        await publisher.send(1)
        said = await publisher.exchange(publisher.message(3, event(3)))
        assert said is not None
        [asked] = said.acknowledgements
        assert (asked.nacks, asked.ranges) == ((2,), NO_NUMBERS)
        await publisher.send(2)
        assert publisher.acknowledged == upto(3)
        mine = some.add()
        elsewhere = ReliablePublisher(run, rm, acks_to=mine.url)
        await elsewhere.create()
        assert await elsewhere.exchange(elsewhere.message(2, event(2))) is None
        await mine.until(lambda: any(b"Nack>1<" in each.body for each in mine.received))
        await arrived(run, consumer, 1, 2, 3)


def event(number: int) -> str:
    return f'<e:event xmlns:e="urn:example">{number}</e:event>'
