"""A gateway with a protected topic, whose owner and whom it lets publish and subscribe."""

import asyncio
import base64
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote
from uuid import UUID, uuid4

import pytest

from filters import Topic
from mediation.discovery import (
    TOPICS,
    Authorization,
    Created,
    Delegation,
    EventSigners,
    Possession,
    Right,
    Synopsis,
    SynopsisType,
    TopicAdvertisement,
    encrypt_advertisement,
    place_uuid,
    selection_of,
    write,
)
from mediation.discovery.signing import sign
from mediation.model.messages import Notification
from tests.rigs.brokers import Wire
from tests.rigs.consumers import Consumer, Consumers
from tests.rigs.discovery import DESCRIPTORS
from tests.rigs.discovery_entities import Speaker
from tests.rigs.discovery_keys import parties
from tests.rigs.discovery_nodes import node_settings
from tests.rigs.envelopes import Answer, fresh_id, topic_expression
from tests.rigs.envelopes import Speaker as Peer
from tests.rigs.gateways import Running, running
from tests.rigs.waiting import until

OWNER = Speaker(parties().producer)
OTHER = Speaker(parties().consumer)
SECONDS = 50.0
NAMESPACE = "http://harbour.example.net/tide"
PLACEHOLDER = Synopsis(SynopsisType.PATH, "Tide", NAMESPACE)


def now() -> datetime:
    return datetime.now(UTC)


@dataclass
class Rig:
    """A gateway that knows an advertised topic."""

    run: Running
    consumers: Consumers
    topic: Topic
    advertisement: TopicAdvertisement

    @property
    def topic_id(self) -> UUID:
        return self.advertisement.topic_id

    def possession(
        self, speaker: Speaker, right: Right, request: str, audience: str, **more: object
    ) -> bytes:
        topic_id = more.get("topic_id", self.topic_id)
        issued = now()
        claim = Possession(
            f"pos-{uuid4()}", topic_id, right, request, audience, issued,  # type: ignore[arg-type]
            issued + timedelta(seconds=30), more.get("digest"),  # type: ignore[arg-type]
        )  # fmt: skip
        assert speaker.credentials is not None
        return sign(claim, speaker.credentials)

    def delegation(
        self, right: Right, *, days: float = 1, grantee: Speaker = OTHER, by: Speaker = OWNER
    ) -> bytes:
        begins = now() - timedelta(days=2)
        given = Delegation(
            f"dlg-{uuid4()}", self.topic_id, grantee.id, frozenset({right}), begins,
            now() + timedelta(days=days),
        )  # fmt: skip
        assert by.credentials is not None
        return sign(given, by.credentials)

    def header(
        self,
        speaker: Speaker,
        right: Right,
        request: str,
        path: str = "/soap",
        delegation: bytes | None = None,
        **more: object,
    ) -> str:
        possession = self.possession(speaker, right, request, self.run.url + path, **more)
        return write(Authorization(possession, delegation)).decode()

    async def subscribe(
        self, consumer: Consumer, request: str, headers: str = "", *,
        topic: Topic | None = None, dialect: str | None = None, source: str = "127.0.0.1",
        expires: str | None = None,
    ) -> Answer:  # fmt: skip
        first, *others = (topic or self.topic).steps
        text = "/".join([f"t:{first.name}", *(step.name for step in others)])
        scope = f'xmlns:t="{first.namespace}"'
        where = topic_expression(text, scope=scope)
        if dialect is not None:
            where = topic_expression("t:Tide//.", dialect, scope)
        peer = Peer()
        return await self.run.ask(
            peer, peer.wsn_subscribe(consumer.url, filter=where, expires=expires),
            message_id=request, headers=headers, source=source,
        )  # fmt: skip

    async def publish(
        self, number: int, speaker: Speaker | None, *, source: str = "127.0.0.1", **more: object
    ) -> Answer:
        path = f"/soap/topic/{quote(str(self.topic), safe='')}"
        request = fresh_id()
        headers = ""
        if speaker is not None:
            raw = f"/soap/topic/{self.topic}"
            headers = self.header(speaker, Right.PUBLISH, request, raw, **more)  # type: ignore[arg-type]
        return await self.run.ask(
            Peer(), f"<e><n>{number}</n></e>", path, message_id=request, headers=headers,
            source=source,
        )  # fmt: skip

    async def native(self, number: int, properties: dict[str, str], id: str = "") -> None:
        """Publish past the gateway, as a broker's own clients do."""
        payload = f"<e><n>{number}</n></e>".encode()
        message = Notification(
            id or fresh_id(), "urn:native", payload, now(), self.topic, properties=properties
        )
        await self.run.gateway.adapter.publish([message])

    def proof(self, request: str, digest: str | None = None) -> str:
        """The property of a native message by the owner."""
        to = self.run.url + "/soap"
        possession = self.possession(OWNER, Right.PUBLISH, request, to, digest=digest)
        return base64.b64encode(write(Authorization(possession))).decode()

    async def owner_subscribes(self) -> Consumer:
        """A consumer of the owner."""
        sink, request = self.consumers.add(), fresh_id()
        header = self.header(OWNER, Right.SUBSCRIBE, request)
        answer = await self.subscribe(sink, request, header)
        assert answer.status == 200, answer.body
        return sink


@asynccontextmanager
async def protected_topic(
    folder: Path, made: Created | None = None, /, **settings: Any
) -> AsyncIterator[Rig]:
    """A gateway that knows one, *made* or another, with its data in *folder*."""
    chosen = {**node_settings(folder), "trusted": ("127.0.0.1",), "wsrm": "offered", **settings}
    async with Consumers() as consumers, running(folder, **chosen) as run:
        made = made or made_topic()
        advertised = OWNER.advertisement(made, now())
        message = Notification(fresh_id(), "urn:owner", advertised, now(), TOPICS)
        await run.gateway.adapter.publish([message])
        assert run.gateway.discovery is not None
        known = run.gateway.discovery.protected_topics
        await run.until(lambda: len(known) == 1)
        place = selection_of(made.advertisement.synopsis, made.advertisement.topic_id).topic
        assert place is not None
        yield Rig(run, consumers, place, made.advertisement)


def made_topic(
    synopsis: Synopsis = PLACEHOLDER,
    *,
    encrypted: bool = False,
    signers: EventSigners | None = None,
) -> Created:
    """A topic that the node made."""
    created, id_, node = now(), uuid4(), parties().node
    topic = TopicAdvertisement(
        id_, parties().node_id, OWNER.creation(created).creator, created,
        created + timedelta(days=30), replace(DESCRIPTORS, signers=signers),
        place_uuid(synopsis, id_),
    )  # fmt: skip
    signed = sign(topic, node)
    if encrypted:
        assert OWNER.credentials is not None
        hidden = encrypt_advertisement(topic, signed, OWNER.credentials.certificate)
        signed = sign(hidden, node)
    return Created(signed, topic)


def numbers(consumer: Consumer) -> list[str]:
    return [
        receipt.body.split(b"<n>")[1].split(b"</n>")[0].decode() for receipt in consumer.received
    ]


Send = Callable[[str, bytes, dict[str, str]], None]
"""Publishes a body at a destination of the broker, with headers."""


async def native_messages_need_the_right(rig: Rig, destination: str, send: Send) -> None:
    """What a program sends to the broker itself reaches the owner where it brings the right to."""
    sink, request = await rig.owner_subscribes(), fresh_id()
    proved = {"tdn_authorization": rig.proof(request), "tdn_request": request}
    sent: list[dict[str, str]] = [
        {}, {"tdn_authorization": "no base64"}, {"tdn_seal": "0" * 76},
        proved, proved,  # The second says something else with the same proof.
    ]  # fmt: skip
    for number, headers in enumerate(sent, start=1):
        await asyncio.to_thread(send, destination, f"<e><n>{number}</n></e>".encode(), headers)
    assert (await rig.publish(6, OWNER)).status == 202
    await until(lambda: "6" in numbers(sink), SECONDS)
    assert numbers(sink) == ["4", "6"]
    metrics = (await rig.run.admin("GET", "/metrics")).body.decode()
    assert "dragoman_withheld_total 4.0" in metrics
    for reason in ("missing", "malformed", "forged", "replayed"):
        assert f'denials_total{{reason="publish-{reason}"}} 1.0' in metrics, metrics


async def what_the_broker_was_away_for_arrives(
    rig: Rig, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was accepted while there was no broker is delivered when its proof has long expired."""
    sink = await rig.owner_subscribes()
    await wire.cut()
    assert (await rig.publish(1, OWNER)).status == 202
    assert rig.run.gateway.rights is not None
    monkeypatch.setattr(rig.run.gateway.rights, "now", lambda: now() + timedelta(hours=1))
    await wire.join()
    await until(lambda: numbers(sink) == ["1"], SECONDS)
