"""What was accepted on a protected topic stays accepted, however long it waits; nothing else."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from uuid import uuid4

import pytest
import pytest_asyncio

from filters import parse_clark
from gateway.discovery.proofs import RequestProof
from gateway.discovery.rights import TopicRights
from gateway.discovery.seal_numbers import SealNumbers
from gateway.discovery.seals import AFTER, Seals
from gateway.security.identify import anonymous
from gateway.store import Store, StoreUnavailable, seal_blocks, secrets
from mediation.discovery import Right
from mediation.model.messages import Attachment, Notification
from mediation.packaging.records import decode, encode
from tests.rigs.discovery_rights import OTHER, OWNER, Rig, now, numbers, protected_topic
from tests.rigs.envelopes import Speaker, fresh_id, notification_message, notify
from tests.rigs.stores import on_each_store
from tests.rigs.waiting import DEADLINE, until

TOPIC_ID = str(uuid4())
ENDS = datetime(2026, 6, 1, tzinfo=UTC)
EVENT = Notification(
    "urn:uuid:1", "urn:publisher", b"<e/>", datetime(2026, 5, 1, 12, 30, 15, 123456, UTC),
    parse_clark("{urn:t}A/B"), "urn:action",
    headers=(b"<h/>",), attachments=(Attachment("cid:1", "text/plain", b"\x00text"),),
)  # fmt: skip
SEALS = Seals(b"s" * 32)


def carried(notification: Notification) -> Notification:
    """*notification* as it comes out of a messaging system."""
    record = encode(notification)
    return decode(record.body, record.properties)


def test_a_seal_holds_for_what_was_carried_and_for_nothing_else() -> None:
    seal = SEALS.seal(EVENT, TOPIC_ID, ENDS, 7)
    assert SEALS.number(seal, EVENT, TOPIC_ID) == 7
    came = carried(replace(EVENT, properties={"tdn_seal": seal, "colour": "red"}))
    late = ENDS + timedelta(days=1)
    assert SEALS.holds(came.properties["tdn_seal"], came, TOPIC_ID, late)
    others = [
        replace(came, payload=b"<f/>"),
        replace(came, id="urn:uuid:2"),
        replace(came, source="urn:other"),
        replace(came, time=came.time + timedelta(microseconds=1)),
        replace(came, topic=parse_clark("{urn:t}A/C")),
        replace(came, action=None),
        replace(came, headers=()),
        replace(came, attachments=()),
        replace(came, attachments=(replace(EVENT.attachments[0], content=b"other"),)),
        replace(came, expires=late),
        replace(came, properties={**came.properties, "ce_attributes": "{}"}),
        replace(came, properties={**came.properties, "ce_type": "other"}),
    ]
    for other in others:
        assert not SEALS.holds(seal, other, TOPIC_ID, late), other
    assert not SEALS.holds(seal, came, str(uuid4()), late)
    assert not SEALS.holds(seal, came, TOPIC_ID, ENDS + AFTER), "it does not hold for ever"
    assert not Seals(b"t" * 32).holds(seal, came, TOPIC_ID, late)


@pytest.mark.parametrize("forged", ["", "x", "9" * 12, "é" * 96, "0" * 92, "\n" * 28 + "0" * 64])
def test_what_is_no_seal_does_not_hold(forged: str) -> None:
    assert not SEALS.holds(forged, EVENT, TOPIC_ID, ENDS)
    assert SEALS.number(forged, EVENT, TOPIC_ID) is None


def test_neither_end_nor_number_can_be_written_into_a_seal() -> None:
    seal = SEALS.seal(EVENT, TOPIC_ID, ENDS, 7)
    longer = SEALS.seal(EVENT, TOPIC_ID, ENDS + timedelta(days=99), 7)[:12] + seal[12:]
    assert not SEALS.holds(longer, EVENT, TOPIC_ID, ENDS)
    other = seal[:12] + SEALS.seal(EVENT, TOPIC_ID, ENDS, 8)[12:28] + seal[28:]
    assert SEALS.number(other, EVENT, TOPIC_ID) is None


def test_a_right_without_an_end() -> None:
    endless = datetime(9999, 12, 31, 23, 59, tzinfo=UTC)
    assert SEALS.holds(SEALS.seal(EVENT, TOPIC_ID, endless, 1), EVENT, TOPIC_ID, ENDS)


@on_each_store
async def test_gateways_that_share_a_store_have_one_secret(store_url: str) -> None:
    stores = [Store(store_url), Store(store_url)]
    for store in stores:
        await store.start()
    takes = [partial(secrets.take, name="a", fresh=fresh) for fresh in (b"1" * 32, b"2" * 32)]
    found = await asyncio.gather(
        *(s.submit(take, locks=(secrets.LOCK,)) for s, take in zip(stores, takes, strict=True))
    )
    assert found[0] == found[1] in (b"1" * 32, b"2" * 32)
    other = await stores[0].submit(partial(secrets.take, name="b", fresh=b"3" * 32))
    assert other == b"3" * 32
    for store in stores:
        await store.close()


# In a whole gateway.


@pytest_asyncio.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    async with protected_topic(tmp_path) as rig:
        yield rig


class Holding:
    """Holds back what comes next out of the messaging system."""

    def __init__(self, rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
        self.holds, self._go_on = asyncio.Event(), asyncio.Event()
        dispatchers = rig.run.gateway.dispatchers
        monkeypatch.setattr(dispatchers, "has_capacity", lambda _: self._go_on.is_set())
        monkeypatch.setattr(dispatchers, "wait_for_capacity", self._wait)

    async def _wait(self, _: str) -> None:
        self.holds.set()
        await self._go_on.wait()

    def end(self) -> None:
        self._go_on.set()


def later(rig: Rig, by: timedelta, monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on the gateway's clock is ahead by *by*."""
    assert rig.run.gateway.rights is not None
    monkeypatch.setattr(rig.run.gateway.rights, "now", lambda: now() + by)


async def test_what_was_accepted_outlives_its_proof_and_the_right(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = await rig.owner_subscribes()
    hold = Holding(rig, monkeypatch)
    assert (await rig.publish(0, OWNER)).status == 202
    await asyncio.wait_for(hold.holds.wait(), DEADLINE)
    delegation = rig.delegation(Right.PUBLISH, days=0.01)
    assert (await rig.publish(1, OTHER, delegation=delegation)).status == 202
    request = fresh_id()
    await rig.native(2, {"tdn_authorization": rig.proof(request)}, request)
    later(rig, timedelta(hours=1), monkeypatch)
    hold.end()
    # Natively a proof is judged when its message comes out of the messaging system.
    await sink.until(lambda: "1" in numbers(sink))

    async def counted() -> bool:
        metrics = await rig.run.admin("GET", "/metrics")
        return b'reason="publish-untimely"} 1.0' in metrics.body

    await until(counted)
    assert numbers(sink) == ["0", "1"]


async def test_who_saw_a_seal_says_nothing_else_with_it(rig: Rig) -> None:
    sink = await rig.owner_subscribes()
    seen: list[Notification] = []
    publish = rig.run.gateway.adapter.publish

    async def see(those: list[Notification]) -> None:
        seen.extend(those)
        await publish(those)

    rig.run.gateway.adapter.publish = see  # type: ignore[method-assign,assignment]
    assert (await rig.publish(1, OWNER)).status == 202
    [sealed] = seen
    seal = {"tdn_seal": sealed.properties["tdn_seal"]}
    await rig.native(2, seal)
    await rig.native(3, seal, sealed.id)
    await rig.native(4, {"tdn_seal": "0" * 76})
    await publish([replace(sealed, id=fresh_id(), payload=b"<e><n>5</n></e>")])
    assert (await rig.publish(6, OWNER)).status == 202
    await sink.until(lambda: "6" in numbers(sink))
    assert numbers(sink) == ["1", "6"]
    metrics = (await rig.run.admin("GET", "/metrics")).body.decode()
    assert "dragoman_withheld_total 4.0" in metrics
    assert 'dragoman_discovery_denials_total{reason="publish-forged"} 3.0' in metrics
    assert 'dragoman_discovery_denials_total{reason="publish-replayed"} 1.0' in metrics


async def test_what_was_accepted_at_a_channel_is_sealed_as_it_is_published(rig: Rig) -> None:
    gateway, seen = rig.run.gateway, list[Notification]()
    assert gateway.rights is not None
    made = await rig.run.api("POST", "/channels", b'{"name": "x"}')
    assert made.status == 201, made.body
    publish = gateway.adapter.publish

    async def see(those: list[Notification]) -> None:
        seen.extend(those)
        await publish(those)

    gateway.adapter.publish = see  # type: ignore[method-assign,assignment]
    first, *others = rig.topic.steps
    text = "/".join([f"t:{first.name}", *(step.name for step in others)])
    body = notify(notification_message("<e/>", text))
    body = body.replace("<n:Topic ", f'<n:Topic xmlns:t="{first.namespace}" ')
    request, path = fresh_id(), "/soap/channel/x"
    header = rig.header(OWNER, Right.PUBLISH, request, path)
    answer = await rig.run.ask(Speaker(), body, path, message_id=request, headers=header)
    assert answer.status == 202, answer.body
    [sealed] = map(carried, seen)
    assert sealed.source.endswith("#x")
    late = replace(sealed, properties={"tdn_seal": sealed.properties["tdn_seal"]})
    assert await gateway.rights.may_be_delivered(late, came=now() + timedelta(days=1))


async def test_another_gateway_with_the_store_knows_the_seal(rig: Rig) -> None:
    """It delivers what this one accepted, long after; one with another store does not."""
    gateway = rig.run.gateway
    assert gateway.discovery is not None and gateway.rights is not None
    secret = await gateway.store.submit(
        partial(secrets.take, name="publications", fresh=b"another")
    )

    def rights(secret: bytes) -> TopicRights:
        return TopicRights(
            gateway.discovery.protected_topics, gateway.store, gateway.discovery.node.verifier,  # type: ignore[union-attr]
            seals=Seals(secret), numbers=SealNumbers(gateway.store), trusts=lambda owner: True,
        )  # fmt: skip

    request = fresh_id()
    header = rig.header(OWNER, Right.PUBLISH, request)
    envelope = f"<s:Envelope xmlns:s='urn:s'><s:Header>{header}</s:Header></s:Envelope>".encode()
    event = replace(EVENT, topic=rig.topic)
    proof = RequestProof(request, envelope=envelope)
    owner = anonymous("127.0.0.1", trusted=True)
    admitted = await gateway.rights.check_publisher(event, proof, owner)
    came, late = carried(admitted), now() + timedelta(days=1)
    assert await rights(secret).may_be_delivered(came, came=late)
    assert not await rights(b"another").may_be_delivered(came, came=late)


async def test_what_was_delivered_is_not_delivered_once_more(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever reads it at the broker may put it there again, as it is; what the messaging system
    yields once more before it is settled gets through."""
    sink, seen = await rig.owner_subscribes(), list[Notification]()
    gateway = rig.run.gateway
    assert gateway.rights is not None
    publish = gateway.adapter.publish

    async def see(those: list[Notification]) -> None:
        seen.extend(those)
        await publish(those)

    gateway.adapter.publish = see  # type: ignore[method-assign,assignment]
    hold = Holding(rig, monkeypatch)
    assert (await rig.publish(1, OWNER)).status == 202
    await asyncio.wait_for(hold.holds.wait(), DEADLINE)
    [sealed] = seen
    [(block, bits)] = (await gateway.store.submit(seal_blocks.load)).items()
    assert bits == 0
    hold.end()
    await sink.until(lambda: numbers(sink) == ["1"])
    await rig.run.quiet()
    copies = [Came(sealed), Came(replace(sealed, payload=b"<e><n>9</n></e>"))]
    assert await gateway.rights.once(copies[0]) is None
    # What is not as it was sealed is judged later; nothing that it does is noted.
    assert await gateway.rights.once(copies[1]) is copies[1]
    await gateway.rights.numbers.flush()
    assert (await gateway.store.submit(seal_blocks.load))[block] == 1
    metrics = (await rig.run.admin("GET", "/metrics")).body.decode()
    assert 'dragoman_discovery_denials_total{reason="publish-replayed"} 1.0' in metrics


@dataclass
class Came:
    """A message that the messaging system yields."""

    notification: Notification
    partition: int = 0
    redelivered: bool = False
    settled: bool = False

    def settle(self) -> None:
        self.settled = True


async def test_what_is_yielded_again_before_it_was_settled_gets_through(rig: Rig) -> None:
    rights = rig.run.gateway.rights
    assert rights is not None
    event = replace(EVENT, topic=rig.topic)
    seal = rights._seals.seal(event, str(rig.topic_id), ENDS, await rights.numbers.take())
    came = [Came(replace(event, properties={"tdn_seal": seal})) for _ in range(3)]
    passed = [await rights.once(one) for one in came[:2]]
    assert None not in passed
    passed[0].settle()  # type: ignore[union-attr]
    assert came[0].settled and not came[1].settled
    assert await rights.once(came[2]) is None


@on_each_store
async def test_gateways_that_share_a_store_know_what_each_other_delivered(store_url: str) -> None:
    stores = [Store(store_url), Store(store_url)]
    for store in stores:
        await store.start()
    one, other = (SealNumbers(store, shared=True) for store in stores)
    await one.start()
    await other.start()
    numbers = [await one.take() for _ in range(3)] + [await other.take() for _ in range(3)]
    assert len(set(numbers)) == 6
    for number in numbers:
        assert not await one.was_delivered(number)
        assert not await other.was_delivered(number)
    other.note(numbers[0])
    one.note(numbers[5])
    await other.flush()
    await one.flush()
    for learning in (one, other):
        await learning.start()
        delivered = [await learning.was_delivered(number) for number in numbers]
        assert delivered == [True, *[False] * 4, True]
    for store in stores:
        await store.close()


@on_each_store
async def test_what_is_done_with_takes_no_room(store: Store) -> None:
    taken = SealNumbers(store)
    await taken.start()
    late = await taken.take()
    for _ in range(2 * seal_blocks.SIZE):
        taken.note(await taken.take())
    await taken.close()
    left = await store.submit(seal_blocks.load)
    assert len(left) == 2, "that of which one is missing, and the newest"
    after = SealNumbers(store)  # The next process.
    await after.start()
    assert not await after.was_delivered(late)
    assert await after.was_delivered(late + 1)
    assert await after.was_delivered(late + seal_blocks.SIZE)
    number = await after.take()
    assert number > late + 3 * seal_blocks.SIZE - 1
    assert not await after.was_delivered(number)
    assert not await after.was_delivered(number + 10 * seal_blocks.SIZE), "of another store"
    # Of those that never end the oldest are given up.
    for _ in range(3):
        await store.submit(partial(seal_blocks.take, most=2))
    await after.start()
    assert len(await store.submit(seal_blocks.load)) == 2
    assert await after.was_delivered(late)


async def test_what_could_not_be_noted_is_noted_later(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = SealNumbers(store)
    await numbers.start()
    number = await numbers.take()

    def away(*_: object, **__: object) -> None:
        raise StoreUnavailable

    numbers.note(number)
    with monkeypatch.context() as patch:
        patch.setattr(store, "submit", away)
        with pytest.raises(StoreUnavailable):
            await numbers.flush()
    await numbers.flush()
    [bits] = (await store.submit(seal_blocks.load)).values()
    assert bits == 1 << number % seal_blocks.SIZE
