"""A topic that was withdrawn, or has expired, stays closed, and its subscribers hear of it."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import pytest

from filters import Topic, parse_clark
from gateway.client.errors import GatewayError
from gateway.client.messaging import Client
from gateway.discovery import service
from mediation.discovery import TOPICS, Created, Right, level_of
from mediation.discovery.signing import sign
from mediation.model.messages import Notification
from mediation.model.versions import Version
from tests.rigs.consumers import Consumer, Consumers
from tests.rigs.discovery_keys import parties
from tests.rigs.discovery_nodes import node_settings
from tests.rigs.discovery_rights import OTHER, OWNER, Rig, made_topic, now, numbers, protected_topic
from tests.rigs.envelopes import FULL, RL, fresh_id, topic_expression
from tests.rigs.envelopes import Speaker as Peer
from tests.rigs.gateways import running
from tests.rigs.waiting import until

STRANGER = "127.0.0.2"


async def publish_native(rig: Rig, octets: bytes) -> None:
    message = Notification(fresh_id(), "urn:owner", octets, now(), TOPICS)
    await rig.run.gateway.adapter.publish([message])


async def withdraw(rig: Rig) -> None:
    await publish_native(rig, OWNER.withdrawal(rig.topic_id, now()))
    assert rig.run.gateway.discovery is not None
    protected = rig.run.gateway.discovery.protected_topics
    await until(lambda: protected.why_closed(rig.topic) is not None)


async def subscribe_by_right(rig: Rig, version: Version) -> Consumer:
    sink = rig.consumers.add()

    def authorize(request: str, address: str, digest: str) -> str:
        return rig.header(OWNER, Right.SUBSCRIBE, request, digest=digest)

    async with Client(rig.run.url, version) as client:
        await client.subscribe(sink.url, topic=str(rig.topic), authorize=authorize)
    return sink


def subscriptions(rig: Rig) -> int:
    """How many there are by right."""
    entries = rig.run.gateway.subscriptions.entries
    return sum(entry.subscription.policy.rights is not None for entry in entries)


async def nobody_uses(rig: Rig, why: bytes) -> None:
    """Not the creator, nor a stranger, by whatever way."""
    heard, request = rig.consumers.add(), fresh_id()
    for speaker in (OWNER, OTHER, None):
        answer = await rig.publish(1, speaker)
        assert (answer.status, why in answer.body) == (403, True), answer.body
    for headers in ("", rig.header(OWNER, Right.SUBSCRIBE, request)):
        answer = await rig.subscribe(heard, request, headers)
        assert (answer.status, why in answer.body) == (403, True), answer.body
    everything, peer = rig.consumers.add(), Peer()
    await rig.run.subscribe(peer, peer.wsn_subscribe(everything.url))
    proof = rig.proof(request := fresh_id())
    await rig.native(2, {})
    await rig.native(3, {"tdn_authorization": proof, "tdn_request": request})
    await rig.run.publish("<e><n>4</n></e>", path="/soap/topic/open")
    await everything.until(lambda: bool(everything.received))
    assert numbers(everything) == ["4"]


async def test_a_termination_notification_says_that_the_topic_was_withdrawn(
    tmp_path: Path,
) -> None:
    """To who has subscribed for the end of the subscription, as WS-Notification has it."""
    async with protected_topic(tmp_path) as rig:
        sink, request, peer = rig.consumers.add(), fresh_id(), Peer()
        scope = f'xmlns:rl="{RL}" xmlns:o="{rig.topic.steps[0].namespace}"'
        where = topic_expression(
            f"o:{'/'.join(step.name for step in rig.topic.steps)} | rl:ResourceTermination",
            FULL,
            scope,
        )
        answer = await rig.run.ask(
            peer,
            peer.wsn_subscribe(sink.url, filter=where),
            message_id=request,
            headers=rig.header(OWNER, Right.SUBSCRIBE, request),
        )
        assert answer.status == 200, answer.body
        await withdraw(rig)
        await sink.until(lambda: bool(sink.received))
        last = sink.received[-1].body
        assert b"TerminationNotification" in last and b"withdrawn by its creator" in last


@pytest.mark.parametrize(
    ("version", "said"),
    [
        (Version.WSE_2004_08, b"SubscriptionEnd"),
        (Version.WSE_2011_03, b"SubscriptionEnd"),
    ],
)
async def test_a_withdrawn_topic_is_closed_and_its_subscriptions_end(
    version: Version, said: bytes, tmp_path: Path
) -> None:
    async with protected_topic(tmp_path) as rig:
        sink = await subscribe_by_right(rig, version)
        assert (await rig.publish(7, OWNER)).status == 202
        await sink.until(lambda: len(sink.received) == 1)
        await withdraw(rig)
        await sink.until(lambda: len(sink.received) == 2)
        last = sink.received[-1].body
        assert said in last
        assert b"withdrawn by its creator" in last
        await until(lambda: not subscriptions(rig))
        await nobody_uses(rig, b"withdrawn by its creator")
        assert len(sink.received) == 2


async def test_it_is_closed_after_a_restart_and_what_a_crash_left_ends(tmp_path: Path) -> None:
    made = made_topic()
    async with protected_topic(tmp_path, made) as rig:
        await subscribe_by_right(rig, Version.WSN_1_3)
        # Killed between the withdrawal and the end of the subscription.
        assert rig.run.gateway.discovery is not None
        rig.run.gateway.discovery._subscribers = service._NoSubscribers()
        await withdraw(rig)
        assert subscriptions(rig) == 1
    settings = {**node_settings(tmp_path), "trusted": ("127.0.0.1",), "wsrm": "offered"}
    async with Consumers() as consumers, running(tmp_path, **settings) as again:
        second = replace(rig, run=again, consumers=consumers)
        await until(lambda: not subscriptions(second))
        await nobody_uses(second, b"withdrawn by its creator")


@asynccontextmanager
async def short_lived(
    folder: Path, seconds: float, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Rig]:
    monkeypatch.setattr(service, "PURGE", 0.1)
    long = made_topic()
    topic = replace(long.advertisement, expires=now() + timedelta(seconds=seconds))
    made = Created(sign(topic, parties().node), topic)
    async with protected_topic(folder, made) as rig:
        yield rig


async def test_an_expired_topic_is_closed_until_nobody_listens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with short_lived(tmp_path, 8.0, monkeypatch) as rig:
        sink = await subscribe_by_right(rig, Version.WSE_2004_08)
        discovery = rig.run.gateway.discovery
        assert discovery is not None
        subscribers = discovery._subscribers
        listening = [True]

        class Listening:
            """Those of the gateway, and one more."""

            def end(self, topic_id: str, reason: str) -> None:
                subscribers.end(topic_id, reason)

            def end_delegated(self, revoked: Callable[[str], frozenset[str]], reason: str) -> None:
                subscribers.end_delegated(revoked, reason)

            def listen(self, topic_id: str) -> bool:
                return listening[0] or subscribers.listen(topic_id)

        discovery._subscribers = Listening()
        await until(lambda: discovery.protected_topics.why_closed(rig.topic) is not None)
        await until(lambda: not subscriptions(rig))
        await nobody_uses(rig, b"has expired")
        listening[0] = False
        await until(lambda: rig.topic not in discovery.protected_topics)
        assert (await rig.publish(2, None)).status == 202, "it is everybody's"
        assert numbers(sink) == [] or b"SubscriptionEnd" in sink.received[-1].body


def unknown_topics() -> list[Topic]:
    uuid = uuid4()
    return [
        parse_clark(f"{{urn:tide}}Tide/{level_of(uuid)}"),
        parse_clark(f"{level_of(uuid)}/below"),
        parse_clark(f"{{urn:dragoman:tdn:1}}Integer/i-{uuid.int}"),
    ]


@pytest.mark.parametrize("closes", [False, True])
async def test_topics_that_nobody_has_advertised_are_closed_by_setting(
    closes: bool, tmp_path: Path
) -> None:
    async with protected_topic(tmp_path) as rig, Client(rig.run.url) as client:
        assert rig.run.gateway.discovery is not None
        rig.run.gateway.discovery.protected_topics.closes_unknown = closes
        for topic in unknown_topics():
            sink = rig.consumers.add()
            if not closes:
                await client.subscribe(sink.url, topic=str(topic))
                await client.publish(b"<e><n>1</n></e>", topic=str(topic))
                await sink.until(lambda: bool(sink.received))  # noqa: B023  # Awaited at once.
                continue
            for asked in (
                client.subscribe(sink.url, topic=str(topic)),
                client.publish(b"<e/>", topic=str(topic)),
            ):
                with pytest.raises(GatewayError, match="no advertisement of the topic is known"):
                    await asked
        await client.publish(b"<e/>", topic="{urn:tide}Open")
        assert (await rig.publish(1, OWNER)).status == 202, "what is known is as it was"
