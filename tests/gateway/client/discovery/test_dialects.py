"""Entities in every dialect that the client library speaks, at one node; nobody is trusted."""

from pathlib import Path
from typing import Any

import pytest

from gateway.client import Consumer, GatewayError, speaking
from gateway.client.discovery import entity
from gateway.client.soap_tcp import SoapTcpConsumer
from mediation.discovery import Right
from mediation.model.versions import Version
from tests.rigs.discovery import DESCRIPTORS, PATH
from tests.rigs.discovery_keys import parties
from tests.rigs.discovery_nodes import node_settings
from tests.rigs.gateways import running

WAIT = 20.0
"""Seconds for what surely comes."""
DIALECTS = (
    Version.WSE_2004_08,
    Version.WSE_2011_03,
    Version.WSN_1_3,
    Version.WSN_1_2,
    Version.WSN_1_0,
    Version.CLOUDEVENTS,
)


@pytest.mark.parametrize("version", DIALECTS, ids=lambda version: version.value)
async def test_the_exchange(tmp_path: Path, version: Version) -> None:
    await exchange(tmp_path, version, Consumer)


async def test_over_soap_tcp(tmp_path: Path) -> None:
    await exchange(tmp_path, Version.WSN_1_3, SoapTcpConsumer, soap_tcp_port=0)


async def exchange(
    folder: Path,
    version: Version,
    make: type[Consumer | SoapTcpConsumer],
    **settings: Any,
) -> None:
    trust = parties().trust
    async with (
        running(folder, trusted=(), **node_settings(folder), **settings) as run,
        speaking(run.soap_tcp if settings else run.url, version) as client,
        speaking(run.url, Version.WSN_1_3) as other,
        make() as inbox,
        Consumer() as own,
        make() as events,
        entity(other, own, parties().producer, trust) as owner,
        entity(client, inbox, parties().consumer, trust) as us,
    ):
        # It makes a topic of its own, and finds that of another.
        for who in (owner, us):
            offers = await who.find_nodes(enough=1, wait=WAIT)
            made = await who.create_topic(DESCRIPTORS, PATH, offers=offers, wait=WAIT)
            await who.advertise(made)
        asked = us.discover("mole", node=parties().node_id, creator=owner.id, wait=WAIT)
        [found] = [one async for one in asked]
        topic = found.check().advertisement
        with pytest.raises(GatewayError, match="no delegation"):
            async with us.subscribed(found, events.address):
                pass
        lent = owner.delegate(topic, us.id, Right.SUBSCRIBE)  # type: ignore[arg-type]
        async with us.subscribed(found, events.address, delegation=lent):
            await owner.publish(topic, b"<m>3.1</m>")  # type: ignore[arg-type]
            assert (await events.receive()).notifications[0].payload == b"<m>3.1</m>"


async def test_grid_events_carry_no_documents() -> None:
    async with (
        speaking("http://127.0.0.1:1", Version.GRID_EVENTS) as client,
        Consumer() as inbox,
    ):
        with pytest.raises(GatewayError, match="Grid SOAP Events cannot carry topic discovery"):
            async with entity(client, inbox, parties().consumer, parties().trust):
                pass
