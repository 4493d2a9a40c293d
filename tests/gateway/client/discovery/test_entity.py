"""Programs that make topics, find them and use them, at a whole gateway that is a node."""

import re
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
import pytest_asyncio
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from filters import Refused
from gateway.client import Client, Consumer, GatewayError
from gateway.client.discovery import Entity, Found, entity
from mediation.discovery import Credentials, Dialect, Right, topic_of
from mediation.model.versions import Version
from tests.rigs.discovery import DESCRIPTORS, PATH
from tests.rigs.discovery_keys import parties
from tests.rigs.discovery_nodes import node_settings
from tests.rigs.gateways import Running, running
from tests.rigs.waiting import until

WAIT = 0.4
LONG = 30.0
"""Seconds: where nothing is to be found, and where what is found ends the wait."""
DOCUMENT = Path(__file__).parents[4] / "docs" / "discovery-clients.md"


@asynccontextmanager
async def somebody(
    run: Running, credentials: Credentials, version: Version = Version.WSN_1_3, **more: Any
) -> AsyncIterator[Entity]:
    async with (
        Client(run.url, version) as client,
        Consumer() as inbox,
        entity(client, inbox, credentials, parties().trust, **more) as made,
    ):
        yield made


@pytest_asyncio.fixture
async def run(tmp_path: Path) -> AsyncIterator[Running]:
    # Nobody is trusted: who listens to Entity/<id> proves to have the key.
    async with running(tmp_path, trusted=(), **node_settings(tmp_path)) as run:
        yield run


async def all_found(who: Entity, query: str, **more: Any) -> list[Found]:
    more = {"wait": WAIT, "creators": False, **more}
    return [found async for found in who.discover(query, **more)]


async def known(run: Running, count: int) -> None:
    service = run.gateway.discovery
    assert service is not None
    await until(lambda: len(service.node.catalogue) == count <= len(service.protected_topics))


async def test_from_making_a_topic_to_its_withdrawal(run: Running) -> None:
    async with AsyncExitStack() as stack:
        owner = await stack.enter_async_context(
            somebody(run, parties().producer, Version.WSE_2004_08, name="North mole")
        )
        seeker = await stack.enter_async_context(somebody(run, parties().consumer))
        events = await stack.enter_async_context(Consumer())
        offers = await owner.find_nodes(wait=5 * WAIT)
        assert [offer.node for offer in offers] == [parties().node_id]
        created = await owner.create_topic(DESCRIPTORS, PATH, offers=offers)
        assert await all_found(seeker, "mole") == [], "what is not advertised nobody knows"
        await owner.advertise(created)
        await known(run, 1)
        [found] = await all_found(seeker, "mole", most=1, wait=LONG)
        assert found.answered_by == parties().node_id
        assert found.check().advertisement == created.advertisement
        assert found.check().creator.identifier == owner.id

        with pytest.raises(GatewayError, match="no delegation"):
            async with seeker.subscribed(found, events.address):
                pass
        lent = owner.delegate(created.advertisement, seeker.id, Right.SUBSCRIBE)
        async with seeker.subscribed(found, events.address, delegation=lent):
            with pytest.raises(GatewayError, match="another right"):
                await seeker.publish(found, b"<m>2.9</m>", delegation=lent)
            await owner.publish(created.advertisement, b"<m>3.1</m>")
            assert (await events.receive()).notifications[0].payload == b"<m>3.1</m>"

        await owner.withdraw(created.advertisement.topic_id)
        await known(run, 0)
        assert await all_found(seeker, "mole", node=parties().node_id, wait=LONG) == []
        with pytest.raises(GatewayError) as refused:
            await all_found(seeker, "a <", dialect=Dialect.SQL, node=parties().node_id, wait=LONG)
        assert refused.value.code == "invalid-query"


async def test_nobody_else_hears_what_is_answered(run: Running) -> None:
    async with somebody(run, parties().producer) as owner, Client(run.url) as client:
        there = str(topic_of(owner.id))
        with pytest.raises(GatewayError, match="proves no right"):
            await client.subscribe("http://127.0.0.1:9/", topic=there)
        async with somebody(run, parties().consumer) as other:
            with pytest.raises(GatewayError) as refused:
                await client.subscribe(
                    "http://127.0.0.1:9/",
                    topic=there,
                    authorize=other.authorization(UUID(hex=owner.id[2:]), Right.SUBSCRIBE),
                )
        assert refused.value.status == 403


async def test_a_topic_that_was_kept_is_taken_up_by_its_creator_alone(run: Running) -> None:
    async with (
        somebody(run, parties().producer) as owner,
        somebody(run, parties().consumer) as other,
    ):
        offers = await owner.find_nodes(wait=WAIT, enough=1)
        created = await owner.create_topic(DESCRIPTORS, PATH, offers=offers)
        assert owner.take_up(created.signed) == created
        with pytest.raises(Refused, match="is of e-"):
            other.take_up(created.signed)
        with pytest.raises(Refused, match="not what was signed"):
            owner.take_up(created.signed.replace(b"north mole", b"south mole"))
        hidden = await owner.create_topic(DESCRIPTORS, PATH, offers=offers, encrypted=True)
        assert owner.take_up(hidden.signed) == hidden


@pytest.mark.slow
async def test_where_no_node_is_creators_answer(tmp_path: Path) -> None:
    settings: Mapping[str, Any] = node_settings(tmp_path)
    async with running(tmp_path, **settings) as run, somebody(run, parties().producer) as owner:
        created = await owner.create_topic(
            DESCRIPTORS, PATH, offers=await owner.find_nodes(wait=WAIT)
        )
    other = tmp_path / "other"
    other.mkdir()
    async with (
        running(other) as run,
        somebody(run, parties().producer, answers=True) as owner,
        somebody(run, parties().consumer) as seeker,
    ):
        await owner.advertise(created)
        [found] = await all_found(seeker, "mole", most=1, wait=1.0, creators=True)
        assert found.answered_by == owner.id
        assert found.check().advertisement == created.advertisement
        with pytest.raises(GatewayError, match="no topic discovery node answered"):
            await owner.create_topic(DESCRIPTORS, PATH, offers=())


@pytest.mark.slow
async def test_the_lines_of_the_document(
    run: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    producer = parties().producer
    key = producer.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    files = {
        "own.key": key,
        "own.pem": producer.certificate.public_bytes(Encoding.PEM),
        "nodes.pem": parties().node_authority.certificate.public_bytes(Encoding.PEM),
        "entities.pem": parties().entity_authority.certificate.public_bytes(Encoding.PEM),
    }
    for name, octets in files.items():
        (tmp_path / name).write_bytes(octets)
    monkeypatch.chdir(tmp_path)
    [block] = re.findall(r"(?m)(?:^    .*\n|^\n(?=    ))+", DOCUMENT.read_text())
    scope: dict[str, Any] = {}
    exec("\n".join(line[4:] for line in block.splitlines()), scope)  # noqa: S102 - our own page
    await scope["main"](run.url)
    said = capsys.readouterr().out
    assert f"North mole {parties().producer_id} ('Wind at the harbour',)" in said
    assert "b'<knots>12</knots>'" in said
