"""What ActiveMQ, its operators and the network do to the adapter."""

import asyncio
import json
import signal
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from adapters import EVERYTHING_WANTED, AdapterUnavailable, Interest, PublicationRefused, load
from adapters.stomp import publishing
from adapters.testing import Inbox
from filters import Expression, Step, Topic
from filters.dialects import TOPIC_FULL
from tests.rigs.activemq import ActiveMQ, activemq_broker, needs_activemq, own_activemq
from tests.rigs.adapters import (
    CALM,
    SECONDS,
    STORM,
    published,
    reasons,
    storm,
    told,
)
from tests.rigs.broker_trials import FaultTrials
from tests.rigs.brokers import PASSWORD, USER, wire_to
from tests.rigs.stomp_adapters import running
from tests.rigs.waiting import until

needs_activemq()


@pytest.fixture(scope="module")
def broker() -> ActiveMQ:
    return own_activemq()


class TestFaults(FaultTrials):
    heartbeat = ("1", 15.0)
    wants_while_cut = True
    second_publishes = False
    running = staticmethod(running)

    def secure_url(self, broker: ActiveMQ) -> str:
        url = broker.at(broker.tls_port)
        return url.replace("stomp:", "stomp+ssl:").replace("127.0.0.1", "localhost")


async def test_a_broker_that_is_silent(
    broker: ActiveMQ, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publishing, "CONFIRMATION", 0.3)
    monkeypatch.setattr(publishing, "STALLED", 0.2)
    async with (
        wire_to(broker.port) as wire,
        running(broker.at(wire.port), name, tmp_path) as adapter,
    ):
        wire.fall_silent()
        with pytest.raises(AdapterUnavailable, match="in time"):
            await adapter.publish([storm()])
        with pytest.raises(AdapterUnavailable, match="takes no messages"):
            await adapter.publish([storm()])
        async with asyncio.timeout(20):
            await adapter.close()


async def test_an_idle_connection_stays(
    broker: ActiveMQ, name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Both sides hear heart-beats, and nothing else."""
    async with (
        wire_to(broker.port) as wire,
        running(broker.at(wire.port), name, tmp_path, heartbeat="1") as adapter,
    ):
        before = Counter(wire.carried)
        await until(lambda: all(wire.carried[way] >= before[way] + 4 for way in before))
        await adapter.publish([sent := storm()])
        assert (await Inbox(adapter, SECONDS).take(1))[0].notification == sent
    assert told(caplog, "adapter.disconnected") == []


async def test_a_broker_that_hangs_and_goes_on(broker: ActiveMQ, name: str, tmp_path: Path) -> None:
    async with running(broker.url, name, tmp_path, heartbeat="1") as adapter:
        inbox = Inbox(adapter, SECONDS)
        broker.freeze(True)
        try:
            under_way = asyncio.create_task(adapter.publish([doubtful := storm()]))
            with pytest.raises(AdapterUnavailable):
                await under_way
        finally:
            broker.freeze(False)
        last = storm(1)
        await published(adapter, last)
        assert set(await inbox.until(last.id)) <= {doubtful.id}


async def test_no_broker_at_the_start(
    broker: ActiveMQ, name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with wire_to(broker.port) as wire:
        await wire.cut()
        async with running(broker.at(wire.port), name, tmp_path) as adapter:
            with pytest.raises(AdapterUnavailable):
                await adapter.publish([storm()])
            with pytest.raises(AdapterUnavailable):
                await adapter.publish([storm(0, "unwanted")])
            with pytest.raises(AdapterUnavailable):
                await adapter.want(CALM)
            assert "Connect" in reasons(caplog)
            await wire.join()
            sent = storm()
            await published(adapter, sent)  # What is wanted is not confirmed without a queue.
            assert (await Inbox(adapter, SECONDS).next()).notification == sent


async def test_what_is_wanted_waits_for_the_queue(
    broker: ActiveMQ, name: str, tmp_path: Path
) -> None:
    """While another gateway holds the name there is no queue: nothing is published into nowhere."""
    async with (
        running(broker.url, name, tmp_path / "first"),
        running(broker.url, name, tmp_path / "second", root=f"{name}-2") as second,
    ):
        with pytest.raises(AdapterUnavailable, match="queue"):
            await second.publish([storm()])
        await second.publish([storm(0, "unwanted")])


async def test_wrong_credentials(
    broker: ActiveMQ, name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    url = broker.at(broker.port, user="late", password="pass/word")
    async with running(url, name, tmp_path) as adapter:
        with pytest.raises(AdapterUnavailable):
            await adapter.publish([storm()])
        assert reasons(caplog).count("User name [late] or password is invalid") == 1
        assert "pass/word" not in str([vars(record) for record in caplog.records])
        broker.users({USER: PASSWORD, "late": "pass/word"})
        await published(adapter, sent := storm())
        assert (await Inbox(adapter, SECONDS).take(1))[0].notification == sent
    broker.users({USER: PASSWORD})


async def test_the_permissions_of_the_guide(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """They suffice, and without them nothing is confirmed."""
    guide = (Path(__file__).parents[3] / "docs" / "activemq.md").read_text()
    authorization = guide.partition("```xml\n<authorizationPlugin>")[2].partition("```")[0]
    assert authorization
    rows = json.dumps([{"topic": "orders.>", "namespace": "urn:orders"}])
    orders = Interest(Expression("o:orders//.", TOPIC_FULL, (("o", "urn:orders"),)))
    with activemq_broker(authorization=f"<authorizationPlugin>{authorization}") as broker:
        adapter = load(broker.url, data=tmp_path, settings={"destinations": rows})
        await adapter.start([STORM, orders])
        try:
            sent = [storm(), replace(storm(), topic=_topic("urn:orders", "orders", "new"))]
            await adapter.publish(sent)
            taken = await Inbox(adapter, SECONDS).take(2)
            assert {one.notification.id for one in taken} == {one.id for one in sent}
        finally:
            await adapter.close()
        adapter = load(broker.url, data=tmp_path, settings={"root": "elsewhere"})
        await adapter.start([CALM])
        try:
            with pytest.raises(PublicationRefused, match="is not authorized"):
                await adapter.publish([storm()])
            assert "is not authorized" in reasons(caplog)
        finally:
            await adapter.close()


def _topic(namespace: str | None, *names: str) -> Topic:
    root, *others = names
    return Topic((Step(namespace, root), *(Step(None, each) for each in others)))


async def test_a_broker_short_of_memory(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes nothing, and gives what it has: publishers are refused, and consuming goes on."""
    monkeypatch.setattr(publishing, "CONFIRMATION", 1.0)
    monkeypatch.setattr(publishing, "STALLED", 0.5)
    with activemq_broker(memory="2 mb", elements=_SMALL) as broker:
        async with running(broker.url, name, tmp_path, prefetch="1") as adapter:
            large = [
                replace(storm(number), payload=b"<n>%s</n>" % (b"x" * 200_000))
                for number in range(60)
            ]
            confirmed = []
            with pytest.raises(AdapterUnavailable):
                for one in large:
                    await adapter.publish([one])
                    confirmed.append(one.id)
            assert confirmed
            with pytest.raises(AdapterUnavailable):
                await adapter.publish([storm()])
            inbox = Inbox(adapter, SECONDS)
            taken = [delivery.notification.id for delivery in await inbox.take(len(confirmed))]
            assert taken == confirmed
            last = storm(9)
            await published(adapter, last)
            assert len(await inbox.until(last.id)) <= 3


_SMALL = """<destinationPolicy><policyMap><policyEntries>
  <policyEntry queue=">" producerFlowControl="true" memoryLimit="1mb">
    <pendingQueuePolicy><vmQueueCursor/></pendingQueuePolicy></policyEntry>
</policyEntries></policyMap></destinationPolicy>"""


async def test_a_root_that_is_no_longer_configured(
    broker: ActiveMQ, name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """STOMP cannot delete its queue: it is emptied. A durable subscription is removed."""
    rows = [{"topic": f"VirtualTopic.{name}-orders.>"}, {"topic": f"{name}-audit.>"}]
    orders, audit = (_topic(None, f"{name}-{one}", "new") for one in ("orders", "audit"))
    sent = [replace(storm(n), topic=topic) for n, topic in enumerate([orders, audit])]
    former = {"destinations": json.dumps(rows)}
    async with running(broker.url, name, tmp_path, EVERYTHING_WANTED, **former) as adapter:
        await adapter.publish(sent)
        taken = await Inbox(adapter, SECONDS).take(2)
        assert {one.notification.topic for one in taken} == {orders, audit}
        assert {one.partition for one in taken} == {1, 2}
    async with running(broker.url, name, tmp_path, **former) as adapter:  # for the other broker
        await adapter.publish(sent)
    async with running(broker.url, name, tmp_path) as adapter:
        (left,) = told(caplog, "adapter.queue_left")
        assert left["queue"] == f"/queue/Consumer.{name}.VirtualTopic.{name}-orders.>"
        await adapter.publish([last := storm()])
        assert await Inbox(adapter, SECONDS).until(last.id) == []
    async with running(broker.url, name, tmp_path, EVERYTHING_WANTED, **former) as adapter:
        await adapter.publish([last := storm()])
        assert await Inbox(adapter, SECONDS).until(last.id) == []


async def test_a_file_that_cannot_be_read(
    broker: ActiveMQ, name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "stomp.json").write_text("{")
    async with running(broker.url, name, tmp_path) as adapter:
        with pytest.raises(AdapterUnavailable):
            await adapter.want(CALM)
        assert "stomp.json cannot be read" in reasons(caplog)


@pytest.mark.parametrize(
    "number",
    [
        pytest.param(signal.SIGTERM, id="stopped", marks=pytest.mark.nightly),
        pytest.param(signal.SIGKILL, id="killed"),
    ],
)
async def test_a_restart(
    broker: ActiveMQ, name: str, tmp_path: Path, number: signal.Signals
) -> None:
    """What was confirmed comes, in order; what comes while nobody consumes is kept."""
    topics = [f"storm{number}" for number in range(30)]
    confirmed = [storm(n, topic) for n in range(3) for topic in topics]
    text = "\U0001f300"  # ActiveMQ writes it to its disk in the manner of Java.
    confirmed.append(replace(storm(), payload=f"<n>{text}</n>".encode(), properties={"t": text}))
    async with running(broker.url, name, tmp_path, EVERYTHING_WANTED) as adapter:
        inbox = Inbox(adapter, SECONDS)
        await adapter.publish(confirmed)
        held = await inbox.take(40, settle=False)
        await asyncio.to_thread(broker.stop, number)
        with pytest.raises(AdapterUnavailable):
            await adapter.publish([storm()])
        await broker.start_again()
        for delivery in held:
            delivery.settle()
        await published(adapter, last := storm(9, "last"))
        taken = [delivery.notification for delivery in await inbox.take(92)]
        assert taken == [*confirmed, last]
    async with running(broker.url, f"{name}-2", tmp_path / "other", root=name) as other:
        await asyncio.to_thread(broker.stop, number)
        await broker.start_again()
        away = storm(10, "away")  # published before the first gateway is back
        await published(other, away)
    async with running(broker.url, name, tmp_path, EVERYTHING_WANTED) as adapter:
        assert (await Inbox(adapter, SECONDS).take(1))[0].notification == away
