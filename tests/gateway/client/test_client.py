"""The client library against a gateway in this process."""

import asyncio
import re
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from filters import Refused
from gateway.client import (
    Administration,
    Client,
    Consumer,
    Exchange,
    GatewayError,
    ReceivedMessage,
    base_url,
    subscribed,
)
from mediation.client import SPECS
from mediation.model.versions import Soap, Version
from tests.rigs.certificates import server_context
from tests.rigs.gateways import Running, http_request, running
from tests.rigs.gateways import exchange as http_exchange
from tests.rigs.waiting import DEADLINE

PAYLOAD = b"<speed>120</speed>"
NOWHERE = "http://127.0.0.1:59999/"
"""The consumer of subscriptions that nothing is published to."""
VERSIONS = pytest.mark.parametrize("version", list(SPECS), ids=lambda version: version.value)


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[Running]:
    async with running(tmp_path) as run:
        yield run


async def received(consumer: Consumer) -> ReceivedMessage:
    return await asyncio.wait_for(consumer.receive(), DEADLINE)


# Subscribing and publishing.


@VERSIONS
async def test_what_is_published_arrives(gateway: Running, version: Version) -> None:
    async with Client(gateway.url, version) as client, Consumer() as consumer:
        async with subscribed(client, consumer.address, topic="storms//.") as held:
            assert held.subscription.expires is not None
            await client.publish(PAYLOAD, topic="storms/coast")
            arrived = await received(consumer)
            [notification] = arrived.notifications
            assert str(notification.topic) == "storms/coast"
            assert notification.payload.endswith(b">120</speed>")
            assert arrived.ended is None
            assert notification.payload in arrived.octets or b"<speed" in arrived.octets
            assert any(name.lower() == "content-type" for name, _ in arrived.headers)
        assert held.is_over
    assert len(gateway.gateway.subscriptions) == 0


@VERSIONS
async def test_a_renewal_moves_the_end(gateway: Running, version: Version) -> None:
    async with Client(gateway.url, version) as client:
        short = await client.subscribe(NOWHERE, lease=timedelta(minutes=1))
        longer = await client.renew(short, timedelta(minutes=5))
        assert short.expires is not None and longer.expires is not None
        assert longer.expires - short.expires > timedelta(minutes=3)
        await client.unsubscribe(longer)
        with pytest.raises(GatewayError) as refused:
            await client.unsubscribe(longer)
    assert refused.value.is_final
    assert refused.value.code is not None


@VERSIONS
async def test_it_is_renewed_by_itself(gateway: Running, version: Version) -> None:
    async with (
        Client(gateway.url, version) as client,
        subscribed(client, NOWHERE, lease=timedelta(minutes=1), every=0.05) as held,
    ):
        before = held.subscription.expires
        [entry] = gateway.gateway.subscriptions.entries
        first = entry.subscription.lease.expires
        await gateway.until(lambda: entry.subscription.lease.expires != first)
        await gateway.until(lambda: held.subscription.expires != before)


@VERSIONS
async def test_one_that_somebody_ended_is_lost(gateway: Running, version: Version) -> None:
    async with (
        Client(gateway.url, version) as client,
        Administration(gateway.url) as administration,
    ):
        with pytest.raises(GatewayError, match="the subscription is lost: ") as lost:
            async with subscribed(client, NOWHERE, every=0.05):
                [record] = [one async for one in administration.subscriptions()]
                await administration.delete_subscription(record["id"])
                await asyncio.wait_for(asyncio.Event().wait(), DEADLINE)
    assert isinstance(lost.value.__cause__, GatewayError)


async def test_a_gateway_that_is_away_is_waited_for_until_the_lease_is_over(
    tmp_path: Path,
) -> None:
    troubles: list[GatewayError] = []
    with pytest.raises(GatewayError, match="the subscription is lost: cannot reach"):
        async with running(tmp_path) as gateway, Client(gateway.url) as client:
            lease = timedelta(seconds=2)
            async with subscribed(
                client, NOWHERE, lease=lease, every=0.1, troubled=troubles.append
            ):
                gateway.stop.set()
                await asyncio.wait_for(asyncio.Event().wait(), DEADLINE)
    assert len(troubles) == 1  # However often it was tried.


async def test_what_the_body_raises_comes_out_as_it_is(gateway: Running) -> None:
    async with Client(gateway.url) as client:
        with pytest.raises(KeyError, match="ours"):
            async with subscribed(client, NOWHERE):
                raise KeyError("ours")
    assert len(gateway.gateway.subscriptions) == 0


async def test_ws_eventing_says_when_a_subscription_has_ended(gateway: Running) -> None:
    async with (
        Client(gateway.url, Version.WSE_2004_08) as client,
        Consumer() as consumer,
        Administration(gateway.url) as administration,
    ):
        await client.subscribe(consumer.address)
        [record] = [one async for one in administration.subscriptions()]
        await administration.delete_subscription(record["id"])
        arrived = await received(consumer)
    assert arrived.ended is not None
    assert (arrived.ended.status, arrived.notifications) == ("SourceCancelling", ())


@VERSIONS
async def test_a_fault_is_one_clear_error(gateway: Running, version: Version) -> None:
    seen: list[Exchange] = []
    async with Client(gateway.url, version, watch=seen.append) as client:
        # In one level WS-Messenger's topics may have any name.
        with pytest.raises(GatewayError, match='refused: "a b" is not a topic name') as refused:
            await client.subscribe(NOWHERE, topic="a b/c")
    status = 500 if SPECS[version].soap is Soap.V1_1 else 400
    assert "\n" not in str(refused.value)
    assert (refused.value.status, refused.value.is_final) == (status, True)
    [exchange] = seen
    assert (exchange.operation, exchange.answer.status) == ("Subscribe", status)
    assert b"a b" in exchange.body


async def test_only_xml_is_published(gateway: Running) -> None:
    async with Client(gateway.url) as client:
        with pytest.raises(Refused):
            await client.publish(b"speed: 120")


async def test_nobody_is_there() -> None:
    async with Client("http://127.0.0.1:1") as client:
        with pytest.raises(GatewayError, match="connection refused") as gone:
            await client.publish(PAYLOAD)
    assert (gone.value.status, gone.value.is_final) == (None, False)


async def test_no_answer_in_time() -> None:
    closed = asyncio.Event()

    async def wait(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()
        await writer.wait_closed()
        closed.set()

    async with await asyncio.start_server(wait, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        async with Client(f"http://127.0.0.1:{port}", timeout=0.2) as client:
            with pytest.raises(GatewayError, match=r"no answer from .* within 0\.2 seconds"):
                await client.publish(PAYLOAD)
        await asyncio.wait_for(closed.wait(), DEADLINE)


async def test_a_certificate_that_nobody_vouches_for(tmp_path: Path) -> None:
    async def never(_reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        raise AssertionError("the handshake cannot succeed")

    context, _ = server_context(tmp_path, "localhost")
    async with await asyncio.start_server(never, "127.0.0.1", 0, ssl=context) as server:
        port = server.sockets[0].getsockname()[1]
        async with Client(f"https://127.0.0.1:{port}") as client:
            with pytest.raises(GatewayError, match="its certificate is not trusted"):
                await client.publish(PAYLOAD)


async def test_the_example_of_the_page(gateway: Running) -> None:
    text = (Path(__file__).parents[3] / "docs" / "python.md").read_text()
    found = re.search(r"# From Python.*?```python\n(.*?)```", text, re.DOTALL)
    assert found is not None
    program = found[1].replace("http://127.0.0.1:8080", gateway.url)
    running_it = await asyncio.create_subprocess_exec(
        sys.executable, "-W", "error", "-c", program, stdout=PIPE, stderr=PIPE
    )
    out, err = await asyncio.wait_for(running_it.communicate(), 3 * DEADLINE)
    assert (running_it.returncode, err) == (0, b"")
    assert out.startswith(b"<speed") and out.endswith(b">120</speed>\n")


# Addresses of gateways.


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("http://127.0.0.1:8080", "http://127.0.0.1:8080"),
        ("http://127.0.0.1:8080/", "http://127.0.0.1:8080"),
        ("http://127.0.0.1:8080/soap", "http://127.0.0.1:8080"),
        ("localhost:8080", "http://localhost:8080"),
        ("[::1]:8080", "http://[::1]:8080"),
        ("https://example.org/events", "https://example.org/events"),
    ],
)
def test_urls_as_people_write_them(text: str, url: str) -> None:
    assert base_url(text) == url


@pytest.mark.parametrize(
    "text",
    [
        "",
        "http://",
        "ftp://example.org",
        "http://[::1",
        "http://a:99999",
        "http://a b",
        "http://a?b",
    ],
)
def test_what_is_no_url(text: str) -> None:
    with pytest.raises(GatewayError, match="is not the URL of a gateway"):
        base_url(text)


# The consumer.


async def send(consumer: Consumer, body: bytes, *, method: str = "POST", path: str = "") -> int:
    """Send one request to *consumer*; the status of its answer."""
    host = consumer.address.removeprefix("http://")
    address, _, own = host.partition("/")
    port = int(address.rpartition(":")[2])
    headers = {"Content-Type": "application/soap+xml"}
    octets = http_request(port, method, path or f"/{own}", body, headers)
    return (await http_exchange(port, octets)).status


def envelope(payload: str) -> bytes:
    return (
        '<s:Envelope xmlns:s="http://www.w3.org/2003/05/soap-envelope">'
        f"<s:Body>{payload}</s:Body></s:Envelope>"
    ).encode()


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        pytest.param({"body": envelope("<a/>")}, 202, id="an event"),
        pytest.param({"body": b"speed: 120"}, 400, id="no XML"),
        pytest.param({"body": b"<speed>120</speed>"}, 400, id="no envelope"),
        pytest.param({"body": b"", "method": "GET"}, 405, id="no POST"),
        pytest.param({"body": envelope("<a/>"), "path": "/guessed"}, 404, id="a guess"),
        pytest.param({"body": envelope(f"<a>{'x' * 2000}</a>")}, 413, id="too long"),
    ],
)
async def test_what_a_consumer_answers(request_: dict[str, bytes], status: int) -> None:
    async with Consumer(max_octets=1000) as consumer:
        assert await send(consumer, **request_) == status  # type: ignore[arg-type]


async def test_a_consumer_with_enough_to_do_says_so() -> None:
    async with Consumer(waiting=2) as consumer:
        statuses = [await send(consumer, envelope(f"<a{n}/>")) for n in range(3)]
        assert statuses == [202, 202, 503]
        assert b"a0" in (await received(consumer)).notifications[0].payload
        assert await send(consumer, envelope("<a3/>")) == 202
        payloads = [(await received(consumer)).notifications[0].payload for _ in range(2)]
        assert [payload[:3] for payload in payloads] == [b"<a1", b"<a3"]


async def test_a_notify_may_hold_several() -> None:
    messages = "".join(
        f"<n:NotificationMessage><n:Message><a>{number}</a></n:Message></n:NotificationMessage>"
        for number in range(3)
    )
    notify = f'<n:Notify xmlns:n="http://docs.oasis-open.org/wsn/b-2">{messages}</n:Notify>'
    async with Consumer() as consumer:
        assert await send(consumer, envelope(notify)) == 202
        assert len((await received(consumer)).notifications) == 3


async def test_a_port_that_is_taken() -> None:
    async with Consumer() as first:
        port = int(first.address.rpartition(":")[2].partition("/")[0])
        with pytest.raises(GatewayError, match=f"cannot listen on 127.0.0.1:{port}: "):
            async with Consumer(port=port):
                pass


# Administration.


async def test_pages_are_followed(gateway: Running) -> None:
    async with (
        Client(gateway.url) as client,
        Administration(gateway.url, page=2) as administration,
    ):
        for _ in range(5):
            await client.subscribe(NOWHERE)
        ids = [record["id"] async for record in administration.subscriptions()]
        assert len(ids) == len(set(ids)) == 5
        assert ids == sorted(ids)
        assert (await administration.subscription(ids[0]))["counts"]["matched"] == 0
        with pytest.raises(GatewayError, match="nosuch: There is no such subscription") as unknown:
            await administration.subscription("nosuch")
        assert unknown.value.status == 404


async def test_explain_judges_the_message_that_would_be_taken(gateway: Running) -> None:
    """In any encoding that is published, and as long as a gateway takes one."""
    long = f"<speed><!-- {'ä' * 900_000} -->120</speed>"
    async with (
        Client(gateway.url) as client,
        Administration(gateway.url) as administration,
        subscribed(client, NOWHERE, topic="explained", xpath="/speed > 100"),
    ):
        [id_] = [
            record["id"]
            async for record in administration.subscriptions()
            if record["topics"] == ["explained"]
        ]
        for payload in (long.encode(), "<speed>120</speed>".encode("utf-16")):
            steps = await administration.explain(id_, payload, topic="explained")
            [step] = [step for step in steps if step["name"] == "filter"]
            assert step["holds"]
        with pytest.raises(Refused):
            await administration.explain(id_, b"<speed>\xff</speed>", topic="explained")


@pytest.mark.parametrize(
    ("status", "code", "final"),
    [
        (None, None, False),
        (400, "Sender", True),
        (404, None, True),
        (408, None, False),
        (429, "Sender", False),
        (500, None, False),
        (500, "UnknownSubscription", True),
        (500, "Client", True),
        (500, "Server", False),
        (500, "UnableToRenew", False),
        (503, "EndpointUnavailable", False),
    ],
)
def test_what_is_final(status: int | None, code: str | None, final: bool) -> None:
    """Faults of SOAP 1.1 have the status 500, whoever is to blame."""
    assert GatewayError("no", status=status, code=code).is_final is final
