"""Events as dataclasses: their types, listeners, prepared calls and channels, and a gateway."""

import asyncio
import math
from collections.abc import MutableMapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from filters import Refused
from gateway.client import GatewayError
from gateway.client.grid_events import (
    TYPES,
    Event,
    EventChannel,
    EventListener,
    EventRefused,
    EventTypes,
    LeasingPublisher,
    MachineUtilizationEvent,
    Publisher,
    prepared,
    publish,
    read_event,
    subscribe_lease,
)
from mediation.grid_events import Port, write_handle_event
from tests.rigs.cases import for_each
from tests.rigs.gateways import Running, running
from tests.rigs.grid_events import EVENTS, SPELLINGS, sample
from tests.rigs.waiting import DEADLINE, until

NAMESPACE = "http://example.org/lab"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEvent(Event):
    iterations: int = 0
    residual_norm: float = 0.0
    converged: bool = False
    note: str | None = None


LAB = EventTypes()
LAB.register(NAMESPACE, "RunEvent")(RunEvent)
RUN = RunEvent(
    event_namespace=NAMESPACE, event_type="run.done", source="bench7.example.org", timestamp=17,
    seq_no=3, message="100% <done> & well", iterations=-17, residual_norm=1e-9, converged=True,
    note="it's over",
)  # fmt: skip
LOAD = MachineUtilizationEvent(
    event_type="resdata.machine.utilization", source="a.example.org", message="", handback="",
    event_namespace="urn:x", cpu_utilization=0.88, memory_used=123988,
)  # fmt: skip


class Heard:
    """What a listener was called with."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[Event] = asyncio.Queue()

    def __call__(self, event: Event) -> None:
        self._queue.put_nowait(event)

    async def next(self) -> Event:
        return await asyncio.wait_for(self._queue.get(), DEADLINE)

    def empty(self) -> bool:
        return self._queue.empty()


async def refused(run: Running) -> bool:
    """Whether a dead letter tells the fault."""
    letters = await run.api("GET", "/deadletters")
    return "no mapping for the event type" in str(letters)


# Types.


@for_each("name", EVENTS)
@for_each("spelling", SPELLINGS)
def test_events_are_read_in_every_spelling(name: str, spelling: str) -> None:
    event = read_event(SPELLINGS[spelling](sample(name)))
    assert event == read_event(sample(name))
    assert event.timestamp > 10**12
    assert isinstance(event, MachineUtilizationEvent) is (name in ("derived", "by-reference"))


@pytest.mark.parametrize("event", [RUN, RunEvent(), Event(), LOAD, Event(message="]]> \U0001f30b")])
def test_what_is_written_is_read_again(event: Event) -> None:
    _, octets = write_handle_event(LAB.write(event))
    assert read_event(octets, LAB) == event


def test_a_type_without_a_class_is_refused() -> None:
    _, octets = write_handle_event(LAB.write(RUN))
    with pytest.raises(Refused, match="no mapping for the event type") as caught:
        read_event(octets)
    assert caught.value.names == ("{http://example.org/lab}RunEvent",)


@pytest.mark.parametrize("value", ["1_0", "ten", "9223372036854775808"])
def test_a_field_that_is_no_value_of_its_type(value: str) -> None:
    _, octets = write_handle_event(TYPES.write(LOAD))
    with pytest.raises(Refused, match="memoryUsed"):
        read_event(octets.replace(b"123988", value.encode()))


def test_classes_that_cannot_be_registered() -> None:
    @dataclass(frozen=True, slots=True, kw_only=True)
    class Strange(Event):
        parts: tuple[str, ...] = ()

    with pytest.raises(TypeError, match=r"Strange\.parts"):
        LAB.register(NAMESPACE, "Strange")(Strange)
    with pytest.raises(ValueError, match="RunEvent already"):
        LAB.register(NAMESPACE, "RunEvent")(LOAD.__class__)
    with pytest.raises(TypeError, match="registered as no type"):
        TYPES.write(RUN)


# Prepared calls.


def test_prepared_calls_have_the_same_length() -> None:
    template = prepared(
        MachineUtilizationEvent, event_namespace="urn:50%", event_type="resdata", source="a%sb",
        message="<&>", handback=None,
    )  # fmt: skip
    for timestamp, cpu in ((0, 0.0), (253402300799999, -1.2345678901234567e-308), (17, math.inf)):
        values = {
            "timestamp": timestamp,
            "seqNo": -5,
            "cpuUtilization": cpu,
            "memoryUsed": -(2**63),
        }
        octets = template.fill(values)
        assert len(octets) == template.length
        event = read_event(octets)
        assert isinstance(event, MachineUtilizationEvent)
        assert (event.timestamp, event.seq_no, event.cpu_utilization) == (timestamp, -5, cpu)
        assert (event.event_namespace, event.source, event.message) == ("urn:50%", "a%sb", "<&>")
        assert event.handback is None
    event = read_event(template.fill({**values, "cpuUtilization": math.nan}))
    assert isinstance(event, MachineUtilizationEvent)
    assert math.isnan(event.cpu_utilization)
    with pytest.raises(ValueError, match="not an xsd:long"):
        template.fill({**values, "seqNo": 2**63})
    with pytest.raises(TypeError, match="no field nonsense"):
        prepared(Event, nonsense=1)


def test_a_hole_for_a_text_has_its_length() -> None:
    template = prepared(RunEvent, types=LAB, event_type="run", handback=None)
    assert template.length is None
    values = {element: getattr(RUN, attribute) for attribute, element, _ in LAB.of(RunEvent).fields}
    event = read_event(template.fill({**values, "message": "]]> ä"}), LAB)
    assert isinstance(event, RunEvent)
    assert (event.message, event.iterations, event.converged) == ("]]> ä", -17, True)


# Listeners and channels.


async def test_a_listener_is_called() -> None:
    heard = Heard()
    async with EventListener(heard, types=LAB) as listener, Publisher(listener.port) as publisher:
        await publish(listener.port, RUN, types=LAB)
        assert await heard.next() == RUN
        await publisher.publish(LOAD)
        assert await heard.next() == LOAD


async def test_a_listener_refuses() -> None:
    def handle(event: Event) -> None:
        if event.message == "never":
            raise EventRefused("not this one")
        raise OSError("a secret")

    async with EventListener(handle) as listener:
        with pytest.raises(GatewayError, match="refused: There is no mapping"):
            await publish(listener.port, RUN, types=LAB)
        with pytest.raises(GatewayError, match="refused: not this one"):
            await publish(listener.port, Event(message="never"))
        with pytest.raises(GatewayError, match="refused: The call could not be"):
            await publish(listener.port, Event())
        with pytest.raises(GatewayError, match="has no subscriptions"):
            await subscribe_lease(listener.port, listener.port)
        status, body = await listener.answer(b"<a/>")
        assert status == 500
        assert b"VersionMismatch" in body
        headers = b"<e:Header><x e:mustUnderstand='1'/></e:Header><e:Body><handleEvent/></e:Body>"
        soap = b"http://schemas.xmlsoap.org/soap/envelope/"
        status, body = await listener.answer(
            b"<e:Envelope xmlns:e='%s'>%s</e:Envelope>" % (soap, headers)
        )
        assert b"SOAP-ENV:MustUnderstand" in body


async def test_a_listener_is_an_asgi_application() -> None:
    heard, sent = Heard(), list[MutableMapping[str, Any]]()
    _, octets = write_handle_event(TYPES.write(LOAD))
    parts: list[dict[str, Any]] = [
        {"body": octets[:100], "more_body": True},
        {"body": octets[100:]},
    ]

    async def receive() -> MutableMapping[str, Any]:
        return {"type": "http.request", **parts.pop(0)}

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    await EventListener(heard)({"type": "http", "method": "POST"}, receive, send)
    assert sent[0]["status"] == 200
    assert b"handleEventResponse" in sent[1]["body"]
    assert await heard.next() == LOAD


async def test_a_publisher_has_listeners_as_long_as_their_leases() -> None:
    first, second, lost = Heard(), Heard(), list[Port]()
    async with (
        EventListener(first) as one,
        EventListener(second) as two,
        LeasingPublisher(
            shortest=timedelta(milliseconds=1), failed=lambda port, _: lost.append(port)
        ) as publisher,
    ):
        machines = Event(event_type="resdata.machine", source=".example.org")
        for _ in range(2):
            assert await subscribe_lease(publisher.port, one.port, machines, handback="1")
        granted = await subscribe_lease(publisher.port, two.port, lease=timedelta(days=9))
        assert granted == timedelta(days=1)
        assert len(publisher) == 2
        assert await publisher.publish(LOAD) == 2
        heard = await first.next()
        assert heard.handback == "1"
        assert isinstance(heard, MachineUtilizationEvent)
        await second.next()
        assert await publisher.publish(Event(event_type="resdata.machinery")) == 1
        assert first.empty()
        await subscribe_lease(publisher.port, Port("http://127.0.0.1:9/", "urn:x"))
        assert await publisher.publish(Event()) == 1
        assert [port.location for port in lost] == ["http://127.0.0.1:9/"]
        with pytest.raises(GatewayError, match="no channel"):
            await publish(publisher.port, LOAD)
        with pytest.raises(GatewayError, match="not allowed"):
            await subscribe_lease(publisher.port, Port("file:///etc/passwd"))
        await subscribe_lease(
            publisher.port, one.port, machines, handback="1", lease=timedelta(milliseconds=1)
        )
        await until(lambda: len(publisher) == 2)


async def test_channels_in_a_row_with_a_gateway(tmp_path: Path) -> None:
    """What a program publishes at a gateway comes through a channel behind it, and a fault of
    the listener is a fault there."""
    heard = Heard()
    async with (
        running(tmp_path) as run,
        EventListener(heard, types=LAB) as listener,
        EventChannel() as channel,
        Publisher(run.url, types=LAB) as publisher,
    ):
        await subscribe_lease(channel.port, listener.port, handback="desk-5")
        granted = await subscribe_lease(run.url, channel.port, Event(event_type="run"))
        assert granted == timedelta(minutes=10)
        await publisher.publish(LOAD)
        await publisher.publish(RUN)
        event = await heard.next()
        assert isinstance(event, RunEvent)
        assert (event.iterations, event.converged, event.handback) == (-17, True, "desk-5")
        assert event.residual_norm == 1e-9
        assert heard.empty()


async def test_the_gateway_has_the_fault_of_a_listener_without_the_class(tmp_path: Path) -> None:
    heard = Heard()
    async with (
        running(tmp_path) as run,
        EventListener(heard) as listener,
        Publisher(run.url, types=LAB) as publisher,
    ):
        await subscribe_lease(run.url, listener.port)
        await publisher.publish(RUN)
        await publisher.publish(LOAD)
        assert isinstance(await heard.next(), MachineUtilizationEvent)
        await until(lambda: refused(run))


async def test_who_does_not_answer_is_waited_for_as_long_as_is_said() -> None:
    gone = asyncio.Event()

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()  # Until the peer has gone.
        writer.close()
        gone.set()

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    calls = (
        subscribe_lease(url, Port(f"{url}/me"), timeout=0.05),
        publish(url, RUN, types=LAB, timeout=0.05),
    )
    for call in calls:
        with pytest.raises(GatewayError, match=r"within 0\.05 seconds"):
            await asyncio.wait_for(call, DEADLINE)
        await asyncio.wait_for(gone.wait(), DEADLINE)
        gone.clear()
    server.close()
    await server.wait_closed()
