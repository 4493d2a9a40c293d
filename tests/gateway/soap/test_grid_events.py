"""Grid SOAP Events over sockets: publishers from templates, listeners with leases."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest
from lxml import etree

from gateway.store import subscriptions as rows
from tests.rigs.consumers import Consumers, Receipt, status
from tests.rigs.envelopes import S11, WSE, Speaker
from tests.rigs.gateways import Running, running
from tests.rigs.grid_events import PORT, SPELLINGS, event_in, handle, lease, sample

pytestmark = pytest.mark.asyncio(loop_scope="module")

GATEWAY = {"adapter": "embedded:"}
"""Settings of the module's gateway."""
MESSENGER = Speaker(S11)


def port_at(url: str) -> str:
    """A port at *url*."""
    return PORT.replace("http://desk.example.org:4561/listener", url)


async def subscribe(
    run: Running, url: str, *, handback: str = "h", pattern: str = "", milliseconds: str = "60000"
) -> int:
    """Call subscribeLease; the lease that is granted."""
    octets = lease(port=port_at(url), pattern=pattern, handback=handback, milliseconds=milliseconds)
    answer = await run.post(octets)
    assert answer.status == 200, answer.body
    [response] = etree.fromstring(answer.body)[-1]
    assert response.tag == "{urn:m}subscribeLeaseResponse"
    return int(response.findtext("return/leaseDuration") or "")


async def publish(run: Running, octets: bytes) -> None:
    answer = await run.post(octets, soapaction='"urn:example:listener#handleEvent"')
    assert answer.status == 200, answer.body
    [response] = etree.fromstring(answer.body)[-1]
    assert etree.QName(response).localname == "handleEventResponse"


def storm(number: int = 0, message: str = "wind") -> bytes:
    octets = sample("event").replace(b">41<", f">{number}<".encode())
    return octets.replace(b"waves of &lt;9&gt; metres", message.encode())


async def test_from_a_publisher_to_a_listener(gateway: Running, consumer: Consumers) -> None:
    url = consumer.fresh()
    assert await subscribe(gateway, url, handback="desk-5") == 60000
    await publish(gateway, storm(message="one"))
    received: Receipt = await consumer.next(url)
    assert received.headers["soapaction"] == '"urn:desk#handleEvent"'
    assert received.headers["content-type"] == "text/xml; charset=utf-8"
    assert int(received.headers["content-length"]) == len(received.body)
    assert "transfer-encoding" not in received.headers
    event = event_in(received.body)
    assert (event.message, event.handback) == ("one", "desk-5")
    method = etree.fromstring(received.body)[-1][0]
    assert method.tag == "{urn:desk}handleEvent"


async def test_across_specifications(gateway: Running, consumer: Consumers) -> None:
    """To a subscriber of WS-Eventing, and from a publisher of it to a listener."""
    eventing, listener = consumer.fresh(), consumer.fresh()
    delivery = f"<e:Delivery><e:NotifyTo>{MESSENGER.epr(eventing)}</e:NotifyTo></e:Delivery>"
    await gateway.subscribe(MESSENGER, f'<e:Subscribe xmlns:e="{WSE}">{delivery}</e:Subscribe>')
    await subscribe(gateway, listener, pattern="<eventType>Flood</eventType>")
    await publish(gateway, storm())
    payload = (await consumer.next(eventing)).payload
    assert payload.tag == "{http://www.extreme.indiana.edu/soap/events}Event"
    assert payload.findtext("eventType") == "storm.coast.Warning"
    for number in (1, 2):
        await gateway.publish("<Flood xmlns='urn:f'/>", path="/soap/topic/Flood")
        event = event_in((await consumer.next(listener)).body)
        assert (event.type, event.namespace, event.number) == ("Flood", "", number)
        assert event.message == '<Flood xmlns="urn:f"/>'
    assert consumer.waiting(listener) == 0


async def test_who_subscribes_again_renews(gateway: Running, consumer: Consumers) -> None:
    """However often, at the same time, from anywhere; another handback or filter is another."""
    url = consumer.fresh()
    before = len(gateway.gateway.subscriptions)
    await asyncio.gather(*(subscribe(gateway, url) for _ in range(8)))
    assert len(gateway.gateway.subscriptions) == before + 1
    stranger = await gateway.request(
        "POST", "/soap", lease(port=port_at(url)), source="127.0.0.9", content_type="text/xml"
    )
    assert stranger.status == 200
    assert len(gateway.gateway.subscriptions) == before + 1
    await publish(gateway, storm(message="once"))
    assert event_in((await consumer.next(url)).body).message == "once"
    await gateway.quiet()
    assert consumer.waiting(url) == 0
    await subscribe(gateway, url, handback="other")
    await subscribe(gateway, url, pattern="<eventType>storm</eventType>")
    assert len(gateway.gateway.subscriptions) == before + 3


async def test_a_renewal_moves_the_lease(gateway: Running, consumer: Consumers) -> None:
    url = consumer.fresh()
    for asked, granted in ((60_000, 60_000), (20_000, 20_000), (1, 10_000), (10**12, 86_400_000)):
        assert await subscribe(gateway, url, milliseconds=str(asked)) == granted
    [one] = [
        entry.subscription
        for entry in gateway.gateway.subscriptions.entries
        if entry.subscription.consumer.address == url
    ]
    assert one.lease.expires is not None
    left = one.lease.expires - datetime.now(UTC)
    assert timedelta(hours=23) < left <= timedelta(hours=24)


async def test_others_make_a_lease_longer_and_change_nothing_else(
    tmp_path: Path, consumer: Consumers
) -> None:
    """Its owner decides how the listener is called, and may shorten it."""
    url = consumer.fresh()
    owner, other = "127.0.0.8", "127.0.0.9"
    async with running(tmp_path, adapter="embedded:", trusted=("127.0.0.1",)) as run:

        async def ask(source: str, milliseconds: int, year: str) -> int:
            octets = SPELLINGS[year](lease(port=port_at(url), milliseconds=str(milliseconds)))
            answer = await run.request(
                "POST", "/soap", octets, source=source, content_type="text/xml"
            )
            assert answer.status == 200, answer.body
            return int(etree.fromstring(answer.body)[-1][0].findtext("return/leaseDuration") or "")

        async def year() -> str:
            await publish(run, storm())
            body = (await consumer.next(url)).body
            return "1999" if b"/1999/XMLSchema" in body else "2001"

        assert await ask(owner, 3_600_000, "1999") == 3_600_000
        assert await ask(other, 10_000, "as it is") > 3_500_000
        assert await year() == "1999", "another's renewal does not say how it is called"
        assert await ask(other, 7_200_000, "as it is") == 7_200_000
        assert await ask(owner, 20_000, "as it is") == 20_000
        assert await year() == "2001"


async def test_repetitions_are_one_event(gateway: Running, consumer: Consumers) -> None:
    url = consumer.fresh()
    await subscribe(gateway, url)
    for number in (7, 7, 0, 0, 8):
        await publish(gateway, storm(number))
    await gateway.quiet()
    numbers = [event_in(one.body).number for one in consumer.at(url).received]
    assert numbers == [7, 0, 0, 8]


@pytest.mark.parametrize("status_", [200, 500])
async def test_a_fault_is_a_failed_delivery(
    tmp_path: Path, consumer: Consumers, status_: int
) -> None:
    """Whatever the status; a fault of the listener's own is tried again."""
    fault = (
        "<e:Envelope xmlns:e='http://schemas.xmlsoap.org/soap/envelope/'><e:Body><e:Fault>"
        "<faultcode>e:{}</faultcode><faultstring>java.lang.Error: no</faultstring><detail>"
        "<stackTrace>at a.b</stackTrace></detail></e:Fault></e:Body></e:Envelope>"
    )
    listener = consumer.add(status(status_, fault.format("Client").encode()))
    async with running(tmp_path, deliver_to_self=True) as run:
        await subscribe(run, listener.url)
        await publish(run, storm(message="refused"))
        await listener.have(1)
        await run.quiet()
        letters = await run.api("GET", "/deadletters")
        assert b"rejected" in letters.body
        listener.behaviour = status(status_, fault.format("Server").encode())
        await publish(run, storm(message="failed"))
        await listener.have(2)
        listener.behaviour = status(200)
        await subscribe(run, listener.url)
        await listener.have(3)
        assert event_in(listener.received[-1].body).message == "failed"


@pytest.mark.parametrize("code", [200, 202, 204])
async def test_an_empty_answer_is_enough(gateway: Running, consumer: Consumers, code: int) -> None:
    listener = consumer.add(status(code))
    await subscribe(gateway, listener.url)
    await publish(gateway, storm())
    await listener.have(1)
    await gateway.quiet()
    assert listener.count == 1


async def test_a_renewal_makes_the_next_attempt_immediate(
    tmp_path: Path, consumer: Consumers
) -> None:
    """The next one by the schedule would be in an hour, and breakers are open."""
    away = Consumers()
    await away.listen()
    url = away.fresh()
    await away.leave()
    async with running(tmp_path, retry_delays=(3600.0,) * 9) as run:
        await subscribe(run, url)
        await publish(run, storm(message="late"))
        [entry] = run.gateway.subscriptions.entries
        await run.until(
            lambda: entry.state.trouble is not None and entry.state.trouble.failures > 0
        )
        await away.listen()
        await subscribe(run, url)
        assert event_in((await away.next(url)).body).message == "late"
    await away.leave()


async def test_leases_survive_a_restart(tmp_path: Path, consumer: Consumers) -> None:
    url = consumer.fresh()
    settings = {"adapter": "embedded:"}
    async with running(tmp_path, **settings) as run:
        await subscribe(run, url, handback="kept", milliseconds="3600000")
        [entry] = run.gateway.subscriptions.entries
        former = entry.subscription
    async with running(tmp_path, **settings) as run:
        [entry] = run.gateway.subscriptions.entries
        assert entry.subscription == former
        assert await subscribe(run, url, handback="kept") == 60_000
        assert len(run.gateway.subscriptions) == 1, "a listener that comes again renews"
        await publish(run, storm())
        assert event_in((await consumer.next(url)).body).handback == "kept"


async def test_after_its_end_nothing_is_sent(tmp_path: Path, consumer: Consumers) -> None:
    """Not even that it ended."""
    url = consumer.fresh()
    short = {"min_lease": 0.2, "default_lease": 0.2}
    async with running(tmp_path, adapter="embedded:", grid_events=short) as run:
        assert await subscribe(run, url, milliseconds="0") == 200
        await run.until(lambda: not run.gateway.subscriptions.entries)
        await publish(run, storm())
        await run.quiet()
        assert consumer.waiting(url) == 0
        assert await subscribe(run, url, milliseconds="1") == 200


# ---- what publishers from templates do ----------------------------------------------------------

TEMPLATE = (
    "POST /any/path/soap HTTP/1.0\r\n"
    "Content-Type: text/xml; charset=utf-8\r\n"
    "Content-Length: {length}\r\n"
    "\r\n"
)


def raw(
    body: bytes, *, path: str = "/soap", line: str = "\r\n", length: int | None = None
) -> bytes:
    """A request without Host and SOAPAction."""
    head = TEMPLATE.replace("/any/path/soap", path).replace("\r\n", line)
    return head.format(length=len(body) if length is None else length).encode() + body


@pytest.mark.parametrize("line", ["\r\n", "\n"])
async def test_a_template_on_a_socket(gateway: Running, line: str) -> None:
    before = gateway.gateway.publishing.accepted
    answer = await gateway.raw(raw(sample("untyped"), line=line))
    assert answer.status == 200
    assert b"handleEventResponse" in answer.body
    assert int(answer.headers["content-length"]) == len(answer.body)
    assert answer.headers["content-type"] == "text/xml; charset=utf-8"
    assert gateway.gateway.publishing.accepted == before + 1


async def test_a_publisher_that_does_not_wait(gateway: Running, consumer: Consumers) -> None:
    url = consumer.fresh()
    await subscribe(gateway, url)
    reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
    writer.write(raw(storm(message="closed")))
    await writer.drain()
    writer.close()
    assert event_in((await consumer.next(url)).body).message == "closed"
    assert reader is not None


async def test_a_length_in_characters_is_refused(gateway: Running) -> None:
    body = storm(message="Ünwetter").decode()
    answer = await gateway.raw(raw(body.encode(), length=len(body)))
    assert answer.status == 500
    assert b"Client" in answer.body


@pytest.mark.parametrize("fault_status", [500, 200])
async def test_faults(tmp_path: Path, fault_status: int) -> None:
    settings = {"unknown_type": "fault", "fault_status": fault_status}
    async with running(tmp_path, grid_events=settings) as run:
        octets = sample("event").replace(b"soaprmi.events.Event", b"x.Volcano")
        answer = await run.post(octets)
        assert answer.status == fault_status
        root = etree.fromstring(answer.body)
        assert (root.findtext(".//faultcode") or "").endswith(":Client")
        named = root.find(".//detail/{urn:dragoman:grid-events:1}UnknownEventType")
        assert named is not None
        assert named.text == "{urn:soaprmi-v11:temp-java-xml-type}x.Volcano"
        bare = await run.post(b"<s:Envelope xmlns:s='http://schemas.xmlsoap.org/soap/envelope/'/>")
        assert bare.status == 500, "nothing was called"


@pytest.mark.parametrize(
    "address",
    [
        "ftp://consumer.example.org/",
        "http://192.168.1.7/listener",
        "http://169.254.169.254/latest/meta-data",
        "http://[::1]:22/",
        "http://{own}/soap",
        "not a URL",
    ],
)
async def test_listeners_where_nothing_is_sent(tmp_path: Path, address: str) -> None:
    """Inside, at the gateway itself, or nowhere: for a stranger, that is not even tried."""
    async with running(tmp_path, trusted=()) as run:
        location = address.format(own=f"127.0.0.1:{run.port}")
        answer = await run.post(lease(port=port_at(location)))
        assert answer.status == 500
        assert (etree.fromstring(answer.body).findtext(".//faultcode") or "").endswith(":Client")
        assert len(run.gateway.subscriptions) == 0


async def test_a_flood_of_leases(tmp_path: Path) -> None:
    async with running(tmp_path, max_subscriptions=2) as run:
        for number in range(2):
            await subscribe(run, f"http://127.0.0.1:8999/{number}")
        answer = await run.post(lease(port=port_at("http://127.0.0.1:8999/2")))
        assert answer.status == 503
        assert (etree.fromstring(answer.body).findtext(".//faultcode") or "").endswith(":Server")
        await subscribe(run, "http://127.0.0.1:8999/1")  # Who is there still renews.


# ---- channels of channels -----------------------------------------------------------------------


async def test_nothing_goes_back_to_where_it_came_from(
    gateway: Running, consumer: Consumers
) -> None:
    back, onwards = consumer.fresh(), consumer.fresh()
    await subscribe(gateway, back)
    await subscribe(gateway, onwards)
    via = f"<d:via xmlns:d='urn:dragoman:grid-events:1'>http://a.example.org/ {back}</d:via>"
    await publish(gateway, handle("<eventType>a</eventType>", header=via))
    octets = (await consumer.next(onwards)).body
    [passed] = etree.fromstring(octets).iter("{urn:dragoman:grid-events:1}via")
    assert (passed.text or "").split() == ["http://a.example.org/", back, f"{gateway.url}/soap"]
    await gateway.quiet()
    assert consumer.waiting(back) == 0


async def test_a_chain_of_three_and_a_loop_of_two(tmp_path: Path, consumer: Consumers) -> None:
    url = consumer.fresh()
    async with (
        running(tmp_path / "a", adapter="embedded:") as a,
        running(tmp_path / "b", adapter="embedded:") as b,
        running(tmp_path / "c", adapter="embedded:") as c,
    ):
        await subscribe(c, url, handback="end")
        await subscribe(b, f"{c.url}/soap")
        await subscribe(a, f"{b.url}/soap")
        await subscribe(b, f"{a.url}/soap")
        await publish(a, storm(message="through"))
        received = await consumer.next(url)
        event = event_in(received.body)
        assert (event.message, event.handback) == ("through", "end")
        for run in (a, b, c):
            await run.quiet()
        assert consumer.waiting(url) == 0
        assert [run.gateway.publishing.accepted for run in (a, b, c)] == [1, 1, 1]


async def test_the_description(gateway: Running) -> None:
    for query in ("wsdl=grid-events", "WSDL=GRID-EVENTS"):
        answer = await gateway.request("GET", f"/soap?{query}")
        assert answer.status == 200
        addresses = [
            one.get("location") for one in etree.fromstring(answer.body).iter("{*}address")
        ]
        assert addresses == [f"{gateway.url}/soap"]
    assert b"grid-events" in (await gateway.request("GET", "/soap?wsdl=nothing")).body
    assert (await gateway.request("GET", "/soap")).status == 405


@pytest.mark.parametrize("over", [False, True])
async def test_a_row_that_nobody_serves_is_replaced(
    gateway: Running, consumer: Consumers, over: bool
) -> None:
    """The store has it, but its consumer could not be sent to when the gateway started."""
    url, run = consumer.fresh(), gateway.gateway
    await subscribe(gateway, url)
    [entry] = [one for one in run.subscriptions.entries if one.target.url == url]
    await run.lifecycle.has_ended(entry)
    former = entry.subscription
    if over:
        lease = replace(former.lease, expires=datetime.now(UTC) - timedelta(hours=1))
        ended = partial(rows.update, subscription=replace(former, lease=lease), former=former)
        assert await run.store.submit(ended)
    assert await subscribe(gateway, url) == 60000
    assert await subscribe(gateway, url) == 60000, "which is one, and renewed"
    await publish(gateway, storm(message="one"))
    assert event_in((await consumer.next(url)).body).message == "one"
    kept = [one.id for one in await run.store.submit(rows.load) if one.consumer.address == url]
    assert len(kept) == 1 and kept != [former.id]
