"""gSOAP in C++, RPC/encoded, is a publisher, a listener and a channel of Grid SOAP Events. It is made of
the gateway's own description, and strict about the namespace of a method and the names of its
parameters."""

import json
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest
import pytest_asyncio
from lxml import etree

from gateway.client.grid_events import (
    Event,
    EventListener,
    MachineUtilizationEvent,
    Publisher,
    subscribe_lease,
)
from mediation.grid_events import CHANNEL, Port
from tests.rigs.consumers import Consumers, Receipt
from tests.rigs.envelopes import S11, Speaker
from tests.rigs.gateways import Running
from tests.rigs.grid_events import handle
from tests.rigs.gsoap_grid import (
    grid_channel,
    grid_listener,
    grid_publish,
    gsoap_grid,
    needs_gsoap_grid,
)

needs_gsoap_grid()

pytestmark = pytest.mark.asyncio(loop_scope="module")

GATEWAY = {"adapter": "embedded:"}
"""Settings of the module's gateway."""
SPEAKER = Speaker(S11)
LAB, EVENTS = "http://example.org/lab", "http://www.extreme.indiana.edu/soap/events"
UTILIZATION = f"{EVENTS}/resdat"
TYPE = "{http://www.w3.org/2001/XMLSchema-instance}type"
TOLD = {
    "source": "bench7.example.org",
    "timestamp": "982862312897",
    "message": "waves of <9> metres & more",
}
"""What all events have that gSOAP publishes."""


@pytest.fixture(scope="module", autouse=True)
def compiled() -> None:
    """No test of the module waits for the compiler."""
    gsoap_grid()


@pytest_asyncio.fixture(autouse=True, loop_scope="module")
async def nobody_left(gateway: Running) -> AsyncIterator[None]:
    """A test leaves no subscription behind, for another listener may get its port."""
    yield
    for one in json.loads((await gateway.api("GET", "/subscriptions")).body)["subscriptions"]:
        assert (await gateway.api("DELETE", f"/subscriptions/{one['id']}")).status == 204


def topic(receipt: Receipt) -> tuple[str, str]:
    """The namespace and the path of the topic that a message tells."""
    element = receipt.topic
    assert element is not None
    prefix, _, path = (element.text or "").partition(":")
    return element.nsmap[prefix], path


def fields(payload: etree._Element) -> dict[str, str]:
    return {str(child.tag): child.text or "" for child in payload}


async def test_its_events_reach_other_specifications(gateway: Running, consumer: Consumers) -> None:
    """The base type, a derived one, and one that the gateway does not know: topic and payload."""
    notification, eventing = consumer.fresh(), consumer.fresh()
    await gateway.subscribe(SPEAKER, SPEAKER.wsn_subscribe(notification))
    await gateway.subscribe(SPEAKER, SPEAKER.wse_subscribe(eventing))
    assert await grid_publish(f"{gateway.url}/soap", 17) == ["handleEvent 200"] * 3
    for url in (notification, eventing):
        storm, machine, run = [await consumer.next(url) for _ in range(3)]
        topics = [topic(one) for one in (storm, machine, run)]
        assert topics == [
            (LAB, "storm/coast"),
            (UTILIZATION, "resdata/machine/utilization"),
            (LAB, "run/done"),
        ]
        assert storm.payload.tag == f"{{{EVENTS}}}Event"
        assert fields(storm.payload) == {
            "eventNamespace": LAB, "eventType": "storm.coast", "seqNo": "17", **TOLD,
        }  # fmt: skip
        assert machine.payload.tag == f"{{{UTILIZATION}/}}MachineUtilizationEvent"
        assert fields(machine.payload) == {
            "eventNamespace": f"{UTILIZATION}#MachineUtilizationEvent",
            "eventType": "resdata.machine.utilization",
            **TOLD,
            "cpuUtilization": "0.88",
            "memoryUsed": "123988",
        }
        assert run.payload.tag == f"{{{EVENTS}}}Event"
        assert fields(run.payload) == {
            "eventNamespace": LAB,
            "eventType": "run.done",
            **TOLD,
            "iterations": "1234567890123",
            "solver": "LinearSolver",
        }
        prefix, _, local = (run.payload.get(TYPE) or "").partition(":")
        assert (run.payload.nsmap[prefix], local) == (LAB, "RunEvent")


WAYS = [
    ("--1999",),
    ("--shared",),
    ("--shared", "--embedded"),
    ("--shared", "--1999"),
    ("--shared", "--embedded", "--1999"),
]


class Recorder(EventListener):
    """A listener of ours, which keeps what comes."""

    def __init__(self) -> None:
        super().__init__(lambda event: self.events.append(event))
        self.octets: list[bytes] = []
        self.events: list[Event] = []

    async def answer(self, octets: bytes) -> tuple[int, bytes]:
        self.octets.append(octets)
        return await super().answer(octets)


@pytest.mark.parametrize("options", WAYS, ids=lambda options: "".join(options))
async def test_its_references_and_the_schema_of_1999(
    gateway: Running, consumer: Consumers, options: tuple[str, ...]
) -> None:
    """Values that are said once, and an event that is no part of its call, arrive as others do."""
    url, shared, number = consumer.fresh(), "--shared" in options, 40 + WAYS.index(options)
    await gateway.subscribe(SPEAKER, SPEAKER.wsn_subscribe(url))
    assert await grid_publish(f"{gateway.url}/soap", number, *options) == ["handleEvent 200"] * 3
    told, numbered = TOLD, {"seqNo": str(number)}
    if shared:
        moment = str(int(TOLD["timestamp"]) + number)
        numbered = {"seqNo": moment}
        told = {"source": TOLD["source"], "message": TOLD["source"], "timestamp": moment} | numbered
    storm, machine, run = [(await consumer.next(url)).payload for _ in range(3)]
    assert fields(storm) == {
        **told, **numbered, "eventNamespace": LAB, "eventType": "storm.coast",
    }  # fmt: skip
    assert machine.tag == f"{{{UTILIZATION}/}}MachineUtilizationEvent"
    assert fields(machine) == {
        **told,
        "eventNamespace": f"{UTILIZATION}#MachineUtilizationEvent",
        "eventType": "resdata.machine.utilization",
        "cpuUtilization": "0.88",
        "memoryUsed": "123988",
    }
    # Of a type that the gateway does not know, too, nothing refers to what is elsewhere.
    assert fields(run) == {
        **told,
        "eventNamespace": LAB,
        "eventType": "run.done",
        "iterations": "1234567890123",
        "solver": told["source"] if shared else "LinearSolver",
    }
    assert not run.xpath("//@href | //@id")


@pytest.mark.parametrize("options", WAYS, ids=lambda options: "".join(options))
async def test_what_its_references_look_like(options: tuple[str, ...]) -> None:
    """As gSOAP writes them, and as a listener of ours reads them."""
    async with Recorder() as listener:
        location = listener.port.location
        with pytest.raises(AssertionError, match="RunEvent"):  # The listener has no class for it.
            await grid_publish(location, 0, *options)
    storm, machine, _ = listener.octets
    assert (b"/1999/XMLSchema-instance" in storm) == ("--1999" in options)
    assert (b"/2001/XMLSchema-instance" in storm) != ("--1999" in options)
    shared, embedded = "--shared" in options, "--embedded" in options
    assert (b"<message href=" in machine) == shared
    assert (b"<p1 href=" in storm) == (shared and not embedded)
    assert (b"</ns1:handleEvent><id " in machine) == (shared and not embedded)
    first, second = listener.events
    assert isinstance(second, MachineUtilizationEvent) and second.cpu_utilization == 0.88
    assert (first.message == first.source) == shared
    assert first.source == second.source == "bench7.example.org"
    assert first.timestamp == second.timestamp == 982862312897


async def test_it_listens_in_the_schema_of_1999(gateway: Running) -> None:
    """Nothing in an event is null in the words of that year."""
    async with grid_listener(f"{gateway.url}/soap", "--1999") as listener:
        assert listener.lease == 60_000
        async with Publisher(gateway.url) as publisher:
            await publisher.publish(MachineUtilizationEvent(timestamp=17, memory_used=3))
        assert await listener.called() == (
            "MachineUtilizationEvent",
            {
                "eventNamespace": "null", "eventType": "null", "source": "null",
                "timestamp": "17", "seqNo": "0", "message": "null", "handback": "h",
                "cpuUtilization": "0.00", "memoryUsed": "3",
            },
        )  # fmt: skip
        await gateway.quiet()
        await listener.ended()


async def test_it_listens(gateway: Running) -> None:
    """Subscribed by its own call; events of its classes, with nothing in them, and of another
    specification."""
    async with grid_listener(f"{gateway.url}/soap", handback="desk <5>") as listener:
        assert listener.lease == 60_000
        async with Publisher(gateway.url) as publisher:
            await publisher.publish(
                Event(event_namespace=LAB, event_type="storm", source="b", seq_no=41, message="<&>")
            )
            assert await listener.called() == (
                "Event",
                {
                    "eventNamespace": LAB, "eventType": "storm", "source": "b", "timestamp": "0",
                    "seqNo": "41", "message": "<&>", "handback": "desk <5>",
                },
            )  # fmt: skip
            await publisher.publish(
                MachineUtilizationEvent(timestamp=17, cpu_utilization=0.88, memory_used=2**40)
            )
            assert await listener.called() == (
                "MachineUtilizationEvent",
                {
                    "eventNamespace": "null", "eventType": "null", "source": "null",
                    "timestamp": "17", "seqNo": "0", "message": "null", "handback": "desk <5>",
                    "cpuUtilization": "0.88", "memoryUsed": str(2**40),
                },
            )  # fmt: skip
        assert await grid_publish(f"{gateway.url}/soap") == ["handleEvent 200"] * 3
        kinds = [(await listener.called())[0] for _ in range(3)]
        assert kinds == ["Event", "MachineUtilizationEvent", "RunEvent"]
        await gateway.publish("<Flood xmlns='urn:f'>high</Flood>", path="/soap/topic/Flood")
        kind, told = await listener.called()
        assert (kind, told["eventNamespace"], told["eventType"]) == ("Event", "", "Flood")
        assert told["message"] == '<Flood xmlns="urn:f">high</Flood>'
        await gateway.quiet()
        await listener.ended()


async def test_its_filter_is_an_example(gateway: Running) -> None:
    channel = f"{gateway.url}/soap"
    async with grid_listener(channel, event_type="resdata.machine") as listener:
        await grid_publish(channel)
        kind, told = await listener.called()
        assert (kind, told["eventType"]) == (
            "MachineUtilizationEvent",
            "resdata.machine.utilization",
        )
        await gateway.quiet()
        await listener.ended()


async def test_its_faults_are_failed_deliveries(gateway: Running) -> None:
    """For a type that it has no class for, and for a method in a namespace that is not its own."""
    async with grid_listener(f"{gateway.url}/soap", event_type="volcano") as listener:
        etna = handle("<eventType>volcano.etna</eventType><ash>3</ash>", "v:Volcano")
        etna = etna.replace(b"<p1 ", b"<p1 xmlns:v='urn:v' ")
        assert (await gateway.post(etna)).status == 200
        assert "in element 'ash'" in (await listener.line())
        elsewhere = Port(listener.reference.location, "urn:other", "urn:other")
        await subscribe_lease(gateway.url, elsewhere, Event(event_type="flood"))
        assert (await gateway.post(handle("<eventType>flood</eventType>"))).status == 200
        assert "method name or namespace not recognized" in (await listener.line())
        await gateway.quiet()
        letters = json.loads((await gateway.api("GET", "/deadletters")).body)["dead_letters"]
        told = [(one["topic"], one["reason"], one["status"], one["attempts"]) for one in letters]
        assert told == [
            (f"{{{EVENTS}}}volcano/etna", "rejected", 500, 1),
            (f"{{{EVENTS}}}flood", "rejected", 500, 1),
        ]
        assert "<faultcode>SOAP-ENV:Client</faultcode>" in letters[0]["answer"]
        hekla = handle("<eventType>volcano.hekla</eventType>")
        assert (await gateway.post(hekla)).status == 200
        assert (await listener.called())[1]["eventType"] == "volcano.hekla"
        await gateway.quiet()
        await listener.ended()


async def test_it_is_a_channel(gateway: Running, consumer: Consumers) -> None:
    """The gateway is subscribed at it, and gets what it is called with."""
    url = consumer.fresh()
    await gateway.subscribe(SPEAKER, SPEAKER.wsn_subscribe(url))
    async with grid_channel() as channel:
        here = Port(f"{gateway.url}/soap", CHANNEL, CHANNEL)
        granted = await subscribe_lease(
            channel.reference,
            here,
            Event(event_type="storm"),
            lease=timedelta(seconds=60),
            handback="link",
        )
        assert granted == timedelta(seconds=30)
        assert await channel.called() == (
            "subscribeLease",
            {
                "location": here.location, "binding": CHANNEL, "eventType": "storm",
                "leaseDuration": "60000", "handback": "link",
            },
        )  # fmt: skip
        async with Publisher(channel.reference) as publisher:
            await publisher.publish(
                MachineUtilizationEvent(
                    event_namespace=LAB, event_type="storm.coast", cpu_utilization=0.5
                )
            )
        assert (await channel.called())[0] == "MachineUtilizationEvent"
        payload = (await consumer.next(url)).payload
        assert payload.tag == f"{{{UTILIZATION}/}}MachineUtilizationEvent"
        assert fields(payload)["cpuUtilization"] == "0.5"
        await channel.ended()
