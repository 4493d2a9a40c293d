"""What is refused leaves nothing behind that only Python's collector would find: it looks rarely."""

import asyncio
import gc
import itertools
from collections import Counter
from collections.abc import Awaitable, Callable
from types import FrameType, TracebackType

import pytest

from gateway.exchange import Inbound
from gateway.security.quotas import PrincipalRate
from mediation.model.versions import Soap
from mediation.packaging.dime import DimeMessage, Encoder
from tests.rigs.cloudevents import STRUCTURED, post
from tests.rigs.consumers import Consumers, reset, status
from tests.rigs.envelopes import Speaker, notification_message, notify
from tests.rigs.gateways import Running, read_http
from tests.rigs.ports import free_ports
from tests.rigs.soap_tcp import RawPeer
from tests.rigs.waiting import DEADLINE, until

pytestmark = pytest.mark.asyncio(loop_scope="module")

GATEWAY = {"soap_tcp_port": 0, "trusted": ()}
KEPT = (BaseException, FrameType, TracebackType, Inbound)
REFUSED = 5
hosts = itertools.count(1)
SPEAKER = Speaker()
EVENT = "<storm>" + "<wind/>" * 300 + "</storm>"

Door = Callable[[Running], Awaitable[object]]


async def of_too_many_events(run: Running) -> int:
    messages = [notification_message("<e/>", topic="storms")] * 250
    code = 202
    while code == 202:
        code = (await run.ask(SPEAKER, notify(*messages))).status
    assert code == 429
    return code


async def that_is_not_well_formed(run: Running) -> int:
    return (await run.post(SPEAKER.envelope(EVENT) + b"<")).status


async def that_breaks_a_limit(run: Running) -> int:
    return (await run.post(SPEAKER.envelope("<e " + "a='1' " * 2 + "/>"))).status


async def of_a_topic_that_is_none(run: Running) -> int:
    return (await run.post(SPEAKER.envelope(EVENT), "/soap/topic/a%20b%2F%2F")).status


async def of_another_media_type(run: Running) -> int:
    return (await run.post(SPEAKER.envelope(EVENT), type="text/plain")).status


async def without_a_consumer(run: Running) -> int:
    return (await run.ask(SPEAKER, SPEAKER.wse_subscribe(""))).status


async def of_what_is_no_event(run: Running) -> int:
    return (await post(run, b'{"specversion": "1.0"}' + b" " * 5000, STRUCTURED)).status


async def of_broken_json(run: Running) -> int:
    return (await post(run, b"{" * 5000, STRUCTURED)).status


async def to_an_api(run: Running) -> int:
    return (await run.api("POST", "/mailboxes", b'{"none": 1}')).status


DOORS: list[Door] = [
    of_too_many_events,
    that_is_not_well_formed,
    that_breaks_a_limit,
    of_a_topic_that_is_none,
    of_another_media_type,
    without_a_consumer,
    of_what_is_no_event,
    of_broken_json,
    to_an_api,
]


@pytest.mark.parametrize("refused", DOORS, ids=lambda door: door.__name__)
async def test_a_refused_request_leaves_nothing(gateway: Running, refused: Door) -> None:
    async def once() -> None:
        code = await refused(gateway)
        assert isinstance(code, int)
        assert code >= 400

    assert await left_by(once) == {}


async def test_a_refused_message_over_soap_tcp_leaves_nothing(gateway: Running) -> None:
    envelope = SPEAKER.envelope(SPEAKER.wse_subscribe(""), message_id="urn:x:1")
    octets = Encoder().encode(DimeMessage(Soap.V1_2, envelope))

    async def once() -> None:
        peer = await RawPeer.connect(gateway.soap_tcp_port)
        await peer.send(octets)
        assert b"Fault" in (await peer.receive()).envelope
        await peer.close()

    assert await left_by(once) == {}


async def test_a_broken_stream_of_soap_tcp_leaves_nothing(gateway: Running) -> None:
    octets = Encoder().encode(DimeMessage(Soap.V1_2, SPEAKER.envelope(EVENT)))

    async def once() -> None:
        peer = await RawPeer.connect(gateway.soap_tcp_port)
        await peer.send(octets[:2] + b"\xff\xff" + octets[4:])
        assert await peer.ended() == b""
        await peer.close()

    assert await left_by(once) == {}


@pytest.mark.parametrize("why", ["refused", "reset", "no connection"])
async def test_a_delivery_that_fails_leaves_nothing(
    gateway: Running, consumer: Consumers, why: str
) -> None:
    async def once() -> None:
        sink = consumer.add(status(503) if why == "refused" else reset)
        url = sink.url if why != "no connection" else f"http://127.0.0.1:{free_ports(1)[0]}/"
        # Each from an address of its own: one stranger may not subscribe so often.
        await gateway.subscribe(
            SPEAKER, SPEAKER.wse_subscribe(url), source=f"127.0.1.{next(hosts)}"
        )
        before = tried(gateway)
        await gateway.publish(EVENT)
        await until(lambda: tried(gateway) > before)

    assert await left_by(once) == {}


def tried(run: Running) -> int:
    """Attempts that are over."""
    return sum(sum(each.counts) for each in run.gateway.dispatchers.scheduler.seconds.values())


async def left_by(once: Callable[[], Awaitable[None]]) -> dict[str, int]:
    """What is more with every call of *once*, while the collector is off: in two rounds, because
    something else may have failed meanwhile."""
    await once()  # What is made once.
    gc.collect()
    gc.disable()
    try:
        rounds = [await _more_after(once) for _ in range(2)]
    finally:
        gc.enable()
    return dict(rounds[0] & rounds[1])


async def _more_after(once: Callable[[], Awaitable[None]]) -> Counter[str]:
    before = kept()
    for _ in range(REFUSED):
        await once()
    more = kept() - before
    return Counter({name: number for name, number in more.items() if number >= REFUSED})


def kept() -> Counter[str]:
    return Counter(type(one).__name__ for one in gc.get_objects() if isinstance(one, KEPT))


@pytest.fixture
def used_up(gateway: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """All strangers have used up their bytes."""
    monkeypatch.setattr(gateway.gateway.intake, "bytes", PrincipalRate(1.0, 1.0, "Too many bytes."))


@pytest.mark.usefixtures("used_up")
async def test_the_body_of_who_has_used_up_his_bytes_is_not_read(gateway: Running) -> None:
    """The answer comes when its head alone has."""
    length = 15 * 2**17
    for path, type_ in (("/soap", "application/soap+xml"), ("/events", "application/xml")):
        head = (
            f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{gateway.port}\r\nContent-Type: {type_}\r\n"
            f"Content-Length: {length}\r\n\r\n"
        )
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", gateway.port, local_addr=("127.0.0.9", 0)
        )
        writer.write(head.encode())
        async with asyncio.timeout(DEADLINE):
            first, headers, body = await read_http(reader)
            assert await reader.read() == b"", "the connection ends"
        writer.close()
        assert first.split(" ")[1] == "429", body
        assert int(headers["retry-after"]) >= 1
    short = await gateway.ask(SPEAKER, SPEAKER.wse_subscribe(""), source="127.0.0.9")
    assert short.status == 400, "a short one is read: it may be a request"


@pytest.mark.usefixtures("used_up")
@pytest.mark.parametrize("sent", [200, None], ids=["a head", "all of it"])
async def test_nor_is_it_over_soap_tcp(gateway: Running, sent: int | None) -> None:
    event = f"<e>{'x' * 15 * 2**17}</e>"
    octets = Encoder().encode(DimeMessage(Soap.V1_2, SPEAKER.envelope(event)))
    peer = await RawPeer.connect(gateway.soap_tcp_port)
    await peer.send(octets[:sent])
    fault = await peer.receive()
    assert fault.soap is Soap.V1_2
    assert b"Too many bytes" in fault.envelope
    assert await peer.ended() == b"", "the connection ends"
    await peer.close()


@pytest.mark.usefixtures("used_up")
async def test_what_came_before_it_over_soap_tcp_is_answered(gateway: Running) -> None:
    """Also a short one, which is read whatever its sender sent before."""
    short = SPEAKER.envelope(SPEAKER.wse_subscribe(""), message_id="urn:x:short")
    long = SPEAKER.envelope(f"<e>{'x' * 2**15}</e>", message_id="urn:x:long")
    encoder = Encoder()
    octets = b"".join(encoder.encode(DimeMessage(Soap.V1_2, each)) for each in (short, long, short))
    peer = await RawPeer.connect(gateway.soap_tcp_port)
    await peer.send(octets)
    first, second = await peer.receive(), await peer.receive()
    assert b"urn:x:short" in first.envelope
    assert b"Too many bytes" in second.envelope
    assert await peer.ended() == b"", "the third is not read"
    await peer.close()


@pytest.mark.usefixtures("used_up")
async def test_a_body_refused_over_soap_tcp_leaves_nothing(gateway: Running) -> None:
    octets = Encoder().encode(DimeMessage(Soap.V1_2, SPEAKER.envelope(f"<e>{'x' * 2**15}</e>")))

    async def once() -> None:
        peer = await RawPeer.connect(gateway.soap_tcp_port)
        await peer.send(octets)
        assert b"Fault" in (await peer.receive()).envelope
        await peer.close()

    assert await left_by(once) == {}
