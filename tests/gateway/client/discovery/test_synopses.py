"""From a found topic to its events, whatever these are told by."""

from pathlib import Path

import pytest

from gateway.client import Client, Consumer, EventClient, GatewayError
from gateway.client.discovery import entity
from mediation.discovery import (
    Descriptors,
    Property,
    PropertyType,
    Synopsis,
    SynopsisType,
    TopicAdvertisement,
)
from mediation.model.versions import Version
from tests.rigs.discovery import TIDE
from tests.rigs.discovery_keys import parties
from tests.rigs.discovery_nodes import node_settings
from tests.rigs.gateways import running

WAIT = 20.0
"""Seconds for what surely comes."""
KINDS = {
    SynopsisType.PATH: Synopsis(SynopsisType.PATH, "Tide"),
    SynopsisType.INTEGER: Synopsis(SynopsisType.INTEGER),
    SynopsisType.TAGS: Synopsis(SynopsisType.TAGS, "kind=tide,place=mole"),
    SynopsisType.PROPERTIES: Synopsis(
        SynopsisType.PROPERTIES, properties=(Property("gauge", "12", PropertyType.LONG),)
    ),
    SynopsisType.XML: Synopsis(SynopsisType.XML, document=TIDE),
}


def of_topic(topic: TopicAdvertisement) -> bytes:
    """An event, which holds the id of the topic in any case."""
    id_ = f'<t:TopicId xmlns:t="urn:dragoman:tdn:1">urn:uuid:{topic.topic_id}</t:TopicId>'
    return f"<tide>{id_}<m>3.1</m></tide>".encode()


@pytest.mark.parametrize("type_", SynopsisType, ids=lambda type_: type_.value)
async def test_events_of_a_found_topic_come(tmp_path: Path, type_: SynopsisType) -> None:
    marked = type_ in (SynopsisType.TAGS, SynopsisType.PROPERTIES)
    us, trust = parties().producer, parties().trust
    async with (
        running(tmp_path, trusted=(), **node_settings(tmp_path)) as run,
        Client(run.url, Version.WSN_1_3) as soap,
        EventClient(run.url) as events,
        Consumer() as inbox,
        Consumer() as sink,
        entity(events if marked else soap, inbox, us, trust) as owner,
    ):
        made = []
        for _ in range(2):  # Of two like it, one is listened to.
            offers = await owner.find_nodes(enough=1, wait=WAIT)
            described = Descriptors(texts=("tide",))
            created = await owner.create_topic(described, KINDS[type_], offers=offers, wait=WAIT)
            await owner.advertise(created)
            made.append(created.advertisement)
        asked = owner.discover("tide", node=parties().node_id, wait=WAIT)
        found = {one.topic_id: one async for one in asked}
        async with owner.subscribed(found[made[0].topic_id], sink.address):
            await owner.publish(made[1], of_topic(made[1]))
            await owner.publish(made[0], of_topic(made[0]))
            assert (await sink.receive()).notifications[0].payload == of_topic(made[0])


async def test_what_an_event_is_not_marked_with_is_said(tmp_path: Path) -> None:
    us, trust = parties().producer, parties().trust
    async with (
        running(tmp_path, **node_settings(tmp_path)) as run,
        Client(run.url) as client,
        Consumer() as inbox,
        entity(client, inbox, us, trust) as owner,
    ):
        offers = await owner.find_nodes(enough=1, wait=WAIT)
        made = {
            type_: (
                await owner.create_topic(
                    Descriptors(texts=("tide",)), KINDS[type_], offers=offers, wait=WAIT
                )
            ).advertisement
            for type_ in (SynopsisType.TAGS, SynopsisType.XML)
        }
        with pytest.raises(GatewayError, match="add an element TopicId"):
            await owner.publish(made[SynopsisType.XML], b"<tide/>")
        with pytest.raises(GatewayError, match=r"only CloudEvents have attributes.*--spec"):
            await owner.publish(made[SynopsisType.TAGS], b"<tide/>")
        with pytest.raises(GatewayError, match=r"by their attributes in CloudEvents alone.*--spec"):
            async with owner.subscribed(made[SynopsisType.TAGS], inbox.address):
                pass
