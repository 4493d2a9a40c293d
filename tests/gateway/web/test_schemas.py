"""The types of Grid SOAP Events as the gateway serves them."""

import asyncio
import os
import re
from dataclasses import dataclass
from pathlib import Path

import pytest
from lxml import etree

from dragoman.client import Consumer, WsnClient
from filters import Refused
from gateway.checks.topics import check_event_types
from gateway.client.errors import GatewayError
from gateway.client.grid_events import Event as GridEvent
from gateway.client.grid_events import (
    EventListener,
    EventTypes,
    Publisher,
    schema_of,
    subscribe_lease,
)
from gateway.publishing.event_type_files import read_event_types
from gateway.settings.settings import Settings
from mediation.grid_events import Event, TypeName, read_payload, write_payload
from tests.rigs.gateways import Running, running
from tests.rigs.grid_events import event_in, sample
from tests.rigs.waiting import DEADLINE

pytestmark = pytest.mark.asyncio(loop_scope="module")
TYPES = EventTypes()
RDDL = "{http://www.rddl.org/}resource"


async def test_payloads_are_valid(gateway: Running, tmp_path: Path) -> None:
    for name in ("event.xsd", "resdat.xsd"):
        answer = await gateway.request("GET", f"/schemas/{name}")
        (tmp_path / name).write_bytes(answer.body)
    schema = etree.XMLSchema(etree.parse(tmp_path / "resdat.xsd"))  # It imports the other.
    for name in ("event", "derived"):
        payload = write_payload(event_in(sample(name)))
        assert read_payload(payload) is not None
        schema.assertValid(etree.fromstring(payload))
    wrong = Event("urn:x", "a", "b", type_name=TypeName("urn:x", "Unknown"))
    assert not schema.validate(etree.fromstring(write_payload(wrong)))


@pytest.mark.parametrize("name", ["event", "resdat"])
async def test_a_namespace_is_described(gateway: Running, name: str) -> None:
    answer = await gateway.request("GET", f"/schemas/{name}")
    assert answer.status == 200
    [resource] = etree.fromstring(answer.body).iter(RDDL)
    assert resource.get("{http://www.w3.org/1999/xlink}href") == f"{name}.xsd"
    assert re.search(rb"<code>http://www\.extreme\.indiana\.edu/soap/events", answer.body)
    assert (await gateway.request("POST", f"/schemas/{name}")).status == 405
    assert (await gateway.request("GET", "/schemas/nothing")).status == 404


@TYPES.register("http://example.org/lab", "RunEvent")
@dataclass(frozen=True, slots=True, kw_only=True)
class RunEvent(GridEvent):
    iterations: int = 0
    why: str | None = None


async def test_own_types_are_served_and_known(tmp_path: Path) -> None:
    folder = tmp_path / "types"
    folder.mkdir()
    (folder / "lab.xsd").write_bytes(schema_of("http://example.org/lab", TYPES))
    settings = {"grid_events": {"schemas": folder, "unknown_type": "fault"}}
    heard: asyncio.Queue[GridEvent] = asyncio.Queue()
    async with (
        running(tmp_path, **settings) as run,
        Consumer() as consumer,
        WsnClient(run.url) as subscriber,
        EventListener(heard.put, types=TYPES) as listener,
        Publisher(run.url, types=TYPES) as publisher,
    ):
        for name in ("event.xsd", "lab.xsd"):
            (tmp_path / name).write_bytes((await run.request("GET", f"/schemas/{name}")).body)
        page = await run.request("GET", "/schemas/lab")
        assert page.status == 200 and b"<code>RunEvent</code>" in page.body
        described = await run.request("GET", "/soap?wsdl=grid-events")
        assert b'targetNamespace="http://example.org/lab"' in described.body
        await subscriber.subscribe(consumer.address)
        await subscribe_lease(run.url, listener.port, GridEvent(event_type="run"))
        event = RunEvent(event_type="run.done", source="bench7", iterations=17)
        await publisher.publish(event)
        got = await asyncio.wait_for(heard.get(), DEADLINE)
        assert (type(got), got.event_type) == (RunEvent, "run.done")
        payload = (await asyncio.wait_for(consumer.receive(), DEADLINE)).payload
        etree.XMLSchema(etree.parse(tmp_path / "lab.xsd")).assertValid(etree.fromstring(payload))
        with pytest.raises(GatewayError, match="no mapping for the event type"):
            await publisher.publish(StrangerEvent(event_type="run.done"))


@TYPES.register("http://example.org/elsewhere", "StrangerEvent")
@dataclass(frozen=True, slots=True, kw_only=True)
class StrangerEvent(GridEvent):
    """Of a type that the gateway has no schema of."""


async def test_what_is_no_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.xsd")
    with pytest.raises(Refused, match=r"pipe\.xsd: this is no file"):
        read_event_types(tmp_path)


async def test_a_bad_schema_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "odd.xsd").write_text("<a/>")
    with pytest.raises(
        Refused, match=r"grid_events\.schemas: .*/odd\.xsd: line 1: the root element"
    ):
        async with running(tmp_path, grid_events={"schemas": tmp_path}):
            pass
    with pytest.raises(Refused, match=r"grid_events\.schemas: .*none cannot be read"):
        read_event_types(tmp_path / "none")
    for settings, said in (
        (Settings(grid_events={"schemas": tmp_path}), "odd.xsd"),
        (Settings(), ""),
    ):
        assert [said in finding.text for finding in check_event_types(settings)] == [True] * bool(
            said
        )
