"""Gateways that subscribe to each other: one event stays one event."""

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from adapters import AdapterUnavailable
from filters import Topic, parse_clark
from gateway.egress.hops import (
    ORIGIN_PROPERTY,
    hops_header,
    hops_id,
    hops_of_id,
    read_origin,
    with_hops,
)
from gateway.egress.returning_events import Origins
from mediation import names
from mediation.client import write_subscribe
from mediation.model.messages import EndpointReference, Notification
from mediation.model.versions import Soap, Spec, Version, Wsa
from tests.rigs.consumers import Consumers
from tests.rigs.dispatching import notification
from tests.rigs.envelopes import Speaker, fresh_id
from tests.rigs.gateways import Running, running

SPEAKER = Speaker()
EVENT = "<t:event xmlns:t='urn:test'/>"


def came(topic: str | None = None) -> list[Notification]:
    one = notification("1")
    if topic is None:
        return [one]
    parsed: Topic = parse_clark(topic)
    return [Notification(one.id, one.source, one.payload, one.time, topic=parsed)]


class Taker:
    """Takes what comes, when it is let, and as often as it is asked."""

    def __init__(self) -> None:
        self.taken = 0
        self.go = asyncio.Event()
        self.fails = 0

    async def __call__(self, _: Sequence[Notification]) -> None:
        await self.go.wait()
        if self.fails:
            self.fails -= 1
            raise AdapterUnavailable("It is away.")
        self.taken += 1


async def test_an_event_is_taken_once_of_a_peer_and_topic() -> None:
    ours, theirs, take = Origins(), Origins(), Taker()
    take.go.set()
    origin = theirs.of(notification("1"))
    assert origin == theirs.of(notification("1")) != theirs.of(notification("2"))
    assert read_origin(origin) == origin
    assert await ours.accept_once({origin: came()}, "a", take)
    assert not await ours.accept_once({origin: came()}, "a", take)
    assert await ours.accept_once({origin: came()}, "b", take), (
        "nobody can use up what another sends"
    )
    assert await ours.accept_once({origin: came("x")}, "a", take)
    assert not await ours.accept_once({origin: came("x")}, "a", take)
    assert not await theirs.accept_once({origin: came("y")}, "a", take), "it was there"
    assert take.taken == 3


async def test_what_fails_is_not_taken() -> None:
    """Others of the same origin wait for it, and one of them is taken instead."""
    ours, take = Origins(), Taker()
    origin = Origins().of(notification("1"))
    take.fails = 1
    coming = [asyncio.create_task(ours.accept_once({origin: came()}, "a", take)) for _ in range(5)]
    await asyncio.sleep(0)
    take.go.set()
    found = await asyncio.gather(*coming, return_exceptions=True)
    assert sum(isinstance(one, AdapterUnavailable) for one in found) == 1
    assert found.count(1) == take.taken == 1
    assert found.count(0) == 3


async def test_no_more_than_so_many_are_remembered() -> None:
    ours, theirs, take = Origins(most=3), Origins(), Taker()
    take.go.set()
    origins = [theirs.of(notification(str(number))) for number in range(5)]
    for origin in origins:
        assert await ours.accept_once({origin: came()}, "a", take)
    assert [await ours.accept_once({origin: came()}, "a", take) for origin in reversed(origins)] == [
        0, 0, 0, 1, 1,
    ]  # fmt: skip
    quick = Origins(seconds=0.0)
    for number in range(2):
        await asyncio.sleep(0.002)  # The clock goes on; no time at all is remembered.
        await quick.accept_once({theirs.of(notification(str(number))): came()}, "a", take)
    assert len(quick._taken) == 1


def test_the_first_origin_stays() -> None:
    one = notification("1")
    handed_on = Notification(
        one.id, one.source, one.payload, one.time, properties={ORIGIN_PROPERTY: "ab.cd"}
    )
    assert Origins().of(handed_on) == "ab.cd"


@pytest.mark.parametrize("origin", ["", "1a.2b", "x" * 64])
def test_the_id_of_a_record(origin: str) -> None:
    headers = (("Content-Type", "text/xml"), hops_header(2))
    assert hops_of_id(hops_id(headers, origin)) == ("3", origin or None, None)
    via = "http://a.example:8080/soap http://b.example/%C3%A9?x=y:z"
    passed = with_hops(headers[:1], 2, via)
    assert hops_of_id(hops_id(passed, origin)) == ("3", origin or None, via)


@pytest.mark.parametrize("value", [None, "", "a b", "x" * 65, "a\r\nb", "é"])
def test_what_is_no_origin(value: str | None) -> None:
    assert read_origin(value) == ""


async def subscribe_to_each_other(first: Running, second: Running, times: int, how: str) -> None:
    for one, other in ((first, second), (second, first)):
        address = f"{other.soap_tcp if how == 'soap.tcp' else other.url}/soap"
        for _ in range(times):
            if how != "batches":
                await one.subscribe(SPEAKER, SPEAKER.wse_subscribe(address))
                continue
            action, octets = write_subscribe(
                Spec(Version.WSE_2004_08, Soap.V1_2, Wsa.V2004_08),
                to=f"{one.url}/soap",
                consumer=EndpointReference(address, Wsa.V2004_08),
                message_id=fresh_id(),
                mode=names.WSMAN_EVENTS,
            )
            assert (await one.post(octets, soapaction=action)).status == 200


@pytest.mark.parametrize("how", ["http", "soap.tcp", "batches"])
@pytest.mark.parametrize("times", [1, 2, 10])
async def test_two_gateways_that_subscribe_to_each_other(
    tmp_path: Path, times: int, how: str
) -> None:
    """It was 8 events for one subscription each, 255 for two, 11 million for ten."""
    async with AsyncExitStack() as stack:
        first, second = [
            await stack.enter_async_context(
                running(tmp_path / name, soap_tcp_port=0 if how == "soap.tcp" else None)
            )
            for name in ("first", "second")
        ]
        consumer = await stack.enter_async_context(Consumers())
        there = consumer.fresh()
        await second.subscribe(SPEAKER, SPEAKER.wse_subscribe(there))
        await subscribe_to_each_other(first, second, times, how)
        await first.publish(EVENT)
        await second.publish(EVENT)
        operations = [one.gateway.publishing for one in (first, second)]
        # Each copy of both events comes, and is not taken again. None comes back over HTTP, whose
        # address it says that it has passed.
        copies = 2 * times - 1 if how == "soap.tcp" else times - 1
        await first.until(lambda: [one.repeated for one in operations] == [copies] * 2)
        for one in (first, second):
            await one.quiet()
        assert [one.accepted for one in operations] == [2, 2]
        for _ in range(2):
            await consumer.next(there)
        assert consumer.waiting(there) == 0


async def test_a_stranger_cannot_suppress_an_event(tmp_path: Path) -> None:
    """Who has seen the origin of an event, and is quicker, takes nothing from anybody."""
    async with Consumers() as consumer, running(tmp_path) as run:
        there = consumer.fresh()
        await run.subscribe(SPEAKER, SPEAKER.wse_subscribe(there))
        headers = {"dragoman_hops": "1", "dragoman_origin": "abc.def"}
        for source in ("127.0.0.9", "127.0.0.9", "127.0.0.1"):
            octets = SPEAKER.envelope(EVENT, message_id=fresh_id())
            answer = await run.request(
                "POST", "/soap", octets, source=source, content_type=SPEAKER.type, **headers
            )
            assert answer.status == 202
        assert run.gateway.publishing.accepted == 2
        for _ in range(2):
            received = await consumer.next(there)
            assert received.headers["dragoman-origin"] == "abc.def"
            assert received.headers["dragoman-hops"] == "2"
