"""Links between channels: what they bring, what they do not bring twice, how they begin and end."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from gateway.channels.links import Link
from gateway.sources.sources import Entry
from mediation.client import LEASED, SPECS
from mediation.grid_events import channel_reference
from mediation.model.versions import Version
from tests.gateway.channels.test_channels import (
    LAB,
    SPEAKER,
    api,
    event,
    listens,
    publishes,
    types,
)
from tests.rigs.consumers import Consumer, Consumers
from tests.rigs.envelopes import SIMPLE, WSNT
from tests.rigs.gateways import Running, running
from tests.rigs.producers import producers
from tests.rigs.waiting import until

CHANNELS = ({"name": "lab"}, {"name": "other"})
SHORT = {"min_lease": 0.2}
"""Leases that end soon, of the gateway that grants them."""


@pytest.fixture
async def consumers() -> AsyncIterator[Consumers]:
    async with Consumers() as made:
        yield made


async def links(run: Running, url: str, **asked: Any) -> str:
    """Make a link, and wait until the other side knows it; its id."""
    made = await api(run, "POST", "/links", url=url, **asked)
    await stands(run, made["id"])
    return str(made["id"])


async def stands(run: Running, id_: str, state: str = "live") -> Entry:
    found: list[Entry] = []

    def holds() -> bool:
        entry = run.gateway.links.by_id(id_)
        found[:] = [] if entry is None else [entry]
        return entry is not None and entry.state == state

    await until(holds)
    return found[0]


async def quiet(*gateways: Running) -> None:
    for _ in gateways:  # What the last hands to the first is quiet after as many rounds.
        for one in gateways:
            await one.quiet()


async def test_a_chain_of_three(tmp_path: Path, consumers: Consumers) -> None:
    """Sensors, a channel that filters, one for a topic: each takes what passes all before it."""
    filtering = {"name": "lab", "example": {"source": ".example.org"}}
    async with (
        running(tmp_path / "a", channels=({"name": "lab"},)) as first,
        running(tmp_path / "b", channels=(filtering,)) as second,
        running(tmp_path / "c") as third,
    ):
        await links(second, f"{first.url}{LAB}", channel="lab")
        await links(third, f"{second.url}{LAB}", example={"eventType": "resdata"})
        end, aside = consumers.at("/end"), consumers.at("/aside")
        await listens(third, end, "/soap")
        await listens(second, aside, "/soap")
        for type_, source in (
            ("resdata.load", "a.example.org"),
            ("resdata.load", "a.example.com"),
            ("notebook", "a.example.org"),
            ("resdata.memory", "a.example.org"),
        ):
            await publishes(first, event(type_, source=source), LAB)
        await publishes(first, event("resdata.main"), "/soap")
        await end.have(2)
        await quiet(first, second, third)
        assert types(end) == ["resdata.load", "resdata.memory"]
        assert not aside.received
        passed = f"{first.url}{LAB} {second.url}{LAB} {third.url}/soap<"
        assert all(passed.encode() in one.body for one in end.received)


async def test_a_loop_of_two(tmp_path: Path, consumers: Consumers) -> None:
    async with (
        running(tmp_path / "a", channels=CHANNELS) as one,
        running(tmp_path / "b", channels=CHANNELS) as other,
    ):
        await links(one, f"{other.url}{LAB}", channel="lab")
        await links(other, f"{one.url}{LAB}", channel="lab")
        heard = [consumers.at("/one"), consumers.at("/other")]
        for run, consumer in zip((one, other), heard, strict=True):
            await listens(run, consumer, LAB)
        # Numbered, and not: what repeats is known by its fields, by its origin, by where it was.
        await publishes(one, event("a", 1), LAB)
        await publishes(one, event("b"), LAB)
        await publishes(other, event("c"), LAB)
        for consumer in heard:
            await consumer.have(3)
        await quiet(one, other)
        assert [types(consumer) for consumer in heard] == [["a", "b", "c"]] * 2


async def test_a_loop_of_two_without_the_header_of_gateways(
    tmp_path: Path, consumers: Consumers
) -> None:
    """What has passed a channel does not go back to it, whoever says so."""
    async with running(tmp_path, channels=CHANNELS) as run:
        listener, other = consumers.at("/listener"), consumers.at("/other")
        await listens(run, listener, LAB)
        await listens(run, other, LAB)
        via = (
            f"<d:via xmlns:d='urn:dragoman:grid-events:1'>http://x.example/ {listener.url}</d:via>"
        )
        octets = event("a").replace(b"<s:Body>", f"<s:Header>{via}</s:Header><s:Body>".encode())
        await publishes(run, octets, LAB)
        await other.have(1)
        await run.quiet()
        assert not listener.received


async def test_two_ways_to_one_channel_bring_an_event_by_each_gateway_once(
    tmp_path: Path, consumers: Consumers
) -> None:
    """Two channels of one gateway, each linked to the same one: each gets the event."""
    async with (
        running(tmp_path / "a", channels=CHANNELS) as above,
        running(tmp_path / "b", channels=CHANNELS) as below,
    ):
        for name in ("lab", "other"):
            await links(below, f"{above.url}{LAB}", channel=name)
        heard = {name: consumers.at(f"/{name}") for name in ("lab", "other")}
        for name, consumer in heard.items():
            await listens(below, consumer, f"/soap/channel/{name}")
        await publishes(above, event("a", 5), LAB)
        for consumer in heard.values():
            await consumer.have(1)
        await quiet(above, below)
        assert [consumer.count for consumer in heard.values()] == [1, 1]


async def test_channels_of_one_gateway_chain(tmp_path: Path, consumers: Consumers) -> None:
    rows = ({"name": "lab"}, {"name": "other", "example": {"eventType": "b"}})
    async with running(tmp_path, channels=rows, deliver_to_self=True) as run:
        await links(run, f"{run.url}{LAB}", channel="other")
        await links(run, f"{run.url}/soap/channel/other", channel="lab")
        listener, first = consumers.at("/"), consumers.at("/first")
        await listens(run, listener, "/soap/channel/other")
        await listens(run, first, LAB)
        for type_ in ("a", "b.c", "d"):
            await publishes(run, event(type_), LAB)
        await listener.have(1)
        await first.have(3)
        await run.quiet()
        assert types(listener) == ["b.c"]
        assert types(first) == ["a", "b.c", "d"]


async def test_a_link_that_is_cut_brings_nothing_more(tmp_path: Path, consumers: Consumers) -> None:
    async with (
        running(tmp_path / "a", grid_events=SHORT) as above,
        running(tmp_path / "b") as below,
    ):
        id_ = await links(below, f"{above.url}/soap")
        assert len(above.gateway.subscriptions) == 1
        await api(below, "DELETE", f"/links/{id_}")
        # There is no word for it: it is the shortest lease that ends it.
        await until(lambda: not len(above.gateway.subscriptions))
        await until(lambda: below.gateway.links.by_id(id_) is None)
        listener = consumers.at("/")
        await listens(below, listener, "/soap")
        await publishes(above, event("a"), "/soap")
        await publishes(below, event("b"), "/soap")
        await listener.have(1)
        await quiet(above, below)
        assert types(listener) == ["b"]


async def test_links_go_with_their_channel(tmp_path: Path) -> None:
    async with (
        running(tmp_path / "a", grid_events=SHORT) as above,
        running(tmp_path / "b") as below,
    ):
        await api(below, "POST", "/channels", name="lab")
        await links(below, f"{above.url}/soap", channel="lab")
        stays = await links(below, f"{above.url}/soap")
        await api(below, "DELETE", "/channels/lab")
        await until(lambda: [one.id for one in below.gateway.links.links] == [stays])
        await until(lambda: len(above.gateway.subscriptions) == 1)


async def test_a_lease_is_renewed_without_a_double(tmp_path: Path) -> None:
    async with running(tmp_path / "a") as above, running(tmp_path / "b") as below:
        # What is granted is believed to be 3 seconds at least, of which 2 are two thirds.
        id_ = await links(below, f"{above.url}/soap", lease=1)
        (entry,) = above.gateway.subscriptions.entries
        before = entry.subscription.lease.expires
        standing = (await stands(below, id_)).standing
        assert standing.renew is not None and standing.asked is not None
        assert 1.5 < standing.renew - standing.since < 2.5
        await until(lambda: entry.subscription.lease.expires != before)
        assert len(above.gateway.subscriptions) == 1


async def test_a_link_outlives_a_channel_that_forgets_it(
    tmp_path: Path, consumers: Consumers
) -> None:
    """Its renewal is its subscription."""
    async with running(tmp_path / "a") as above, running(tmp_path / "b") as below:
        await links(below, f"{above.url}/soap", lease=1)
        (entry,) = above.gateway.subscriptions.entries
        await above.gateway.lifecycle.end(entry)
        await until(lambda: len(above.gateway.subscriptions) == 1)


async def test_links_of_the_settings_come_and_go_with_them(tmp_path: Path) -> None:
    async with running(tmp_path / "a", grid_events=SHORT) as above:
        row = {"url": f"{above.url}/soap", "channel": "lab", "example": {"eventType": "a"}}
        same: dict[str, Any] = {"channels": CHANNELS, "public_url": "http://127.0.0.1:4561"}
        async with running(tmp_path / "b", **same, links=(row,)) as below:
            await until(lambda: len(above.gateway.subscriptions) == 1)
            (shown,) = (await api(below, "GET", "/links"))["links"]
            assert shown["made_by"] == "settings" and shown["example"] == {"eventType": "a"}
            answer = await below.api("DELETE", f"/links/{shown['id']}")
            assert answer.status == 403, answer.body
        async with running(tmp_path / "b", **same, links=(row,)) as below:
            (again,) = (await api(below, "GET", "/links"))["links"]
            assert again["id"] == shown["id"]
        async with running(tmp_path / "b", **same) as below:
            await until(lambda: not below.gateway.links.links)
            await until(lambda: not len(above.gateway.subscriptions))


async def test_a_link_in_another_specification(tmp_path: Path, consumers: Consumers) -> None:
    rows = ({"name": "lab", "xpath": "/a"},)
    async with producers() as some, running(tmp_path, channels=rows) as run:
        producer = some.add()
        await links(run, producer.url, channel="lab", spec="wsn-1.3", topic="storms")
        listener: Consumer = consumers.at("/")
        await run.subscribe(SPEAKER, SPEAKER.wsn_subscribe(listener.url), path=LAB)
        for payload in ("<b/>", "<a/>"):
            await producer.send(payload, topic="storms")
        await listener.have(1)
        await run.quiet()
        assert listener.count == 1 and b"<a" in listener.received[0].body


REFUSED: tuple[tuple[dict[str, Any], int, bytes], ...] = (
    ({"channel": "nowhere"}, 404, b"nowhere"),
    ({"topic": "a"}, 400, b"example"),
    ({"xpath": "/a"}, 400, b"example"),
    ({"example": {"seqNo": "1"}}, 400, b"seqNo"),
    ({"spec": "wsn-1.3", "example": {"eventType": "a"}}, 400, b"example"),
    ({"spec": "smoke-signals"}, 422, b"smoke-signals"),
    ({"url": "ftp://other.example/"}, 400, b"ftp"),
)


SPOKEN = [version.value for version in (*LEASED, *SPECS)]
"""The dialects of links."""
CIRCLES = [(there, back) for there in SPOKEN for back in SPOKEN]


async def test_circles_in_all_dialects_bring_an_event_once(
    tmp_path: Path, consumers: Consumers
) -> None:
    """On its topic, and with its payload, to those who subscribe at either gateway. Each circle is
    of two channels of its own."""
    names = [f"{there}-{back}".replace(".", "-") for there, back in CIRCLES]
    places = [f"/soap/channel/{name}" for name in names]
    rows = [{"name": name} for name in names]
    async with (
        running(tmp_path / "a", channels=rows) as one,
        running(tmp_path / "b", channels=rows) as other,
    ):
        for (there, back), name, place in zip(CIRCLES, names, places, strict=True):
            await links(one, f"{other.url}{place}", channel=name, spec=there)
            await links(other, f"{one.url}{place}", channel=name, spec=back)
        heard = [
            await _listens_for_topics(run, consumers.at(f"/{number}{place}"), place)
            for number, run in enumerate((one, other), 1)
            for place in places
        ]
        for number, run in enumerate((one, other), 1):
            for place in places:
                await run.publish(f"<e{number}/>", path=place, headers=TOPIC)
        for consumer in heard:
            await consumer.have(2)
        await quiet(one, other)
        for consumer in heard:
            assert consumer.count == 2, consumer.url
            for payload in (b"<e1/>", b"<e2/>"):
                assert any(payload in message.body for message in consumer.received)
            assert all(b">storms<" in message.body for message in consumer.received)


TOPIC = f"<n:Topic xmlns:n='{WSNT}' Dialect='{SIMPLE}'>storms</n:Topic>"


async def _listens_for_topics(run: Running, consumer: Consumer, place: str) -> Consumer:
    await run.subscribe(SPEAKER, SPEAKER.wsn_subscribe(consumer.url), path=place)
    return consumer


async def test_what_is_refused(tmp_path: Path) -> None:
    async with running(tmp_path / "a") as above, running(tmp_path / "b") as run:
        for asked, status, said in REFUSED:
            wanted = {"url": f"{above.url}/soap", **asked}
            answer = await run.api("POST", "/links", json.dumps(wanted).encode())
            assert answer.status == status, (asked, answer.body)
            assert said in answer.body, (asked, answer.body)
        own = json.dumps({"url": f"{run.url}/soap"}).encode()
        assert b"deliver_to_self" in (await run.api("POST", "/links", own)).body
        await links(run, f"{above.url}/soap")
        twice = await run.api("POST", "/links", json.dumps({"url": f"{above.url}/soap"}).encode())
        assert twice.status == 403, twice.body
        assert (await run.api("DELETE", "/links/nobody")).status == 404


async def test_the_parent_is_followed(tmp_path: Path) -> None:
    """Where the directory has it: at another place later, or nowhere."""
    async with (
        running(tmp_path / "a", grid_events=SHORT) as first,
        running(tmp_path / "b", grid_events=SHORT) as second,
        running(tmp_path / "c") as below,
    ):
        found = below.gateway.links
        found.follow([channel_reference(f"{first.url}/soap")])
        await until(lambda: len(first.gateway.subscriptions) == 1)
        found.follow([channel_reference(f"{second.url}/soap")])
        await until(lambda: len(second.gateway.subscriptions) == 1)
        await until(lambda: not len(first.gateway.subscriptions))
        found.follow([])
        await until(lambda: not len(second.gateway.subscriptions))
        await until(lambda: not found.links)


def test_a_link_is_what_its_source_says() -> None:
    """Else one of the settings would be removed and made again in each round."""
    url = "http://producer.example.org/"
    assert Link(url, version=Version.WSN_1_3, binding="x") == Link(url, version=Version.WSN_1_3)
    assert Link(url, binding=" a ") == Link(url, binding="a")
    assert Link(url, binding=" ") == Link(url, binding=None)
