"""A creator takes a delegation back: what rests on it ends at once, and stays so."""

import asyncio
import json
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from uuid import UUID, uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from gateway.discovery.revocations import Revocations
from gateway.model.advertisements import AdvertisementLimits, RevocationRow
from gateway.store import revocations
from mediation.discovery import (
    TOPICS,
    Delegation,
    DelegationRevocation,
    Fault,
    Refusal,
    Right,
    SignedTopicAdvertisement,
    read_advertisement,
    read_as,
    topic_of,
)
from mediation.model.messages import Notification
from tests.rigs.consumers import Consumer
from tests.rigs.discovery_at_work import CONSUMER, PRODUCER, AtWork, advertise, at_work
from tests.rigs.discovery_entities import Speaker
from tests.rigs.discovery_keys import parties
from tests.rigs.discovery_nodes import node_settings
from tests.rigs.discovery_rights import OTHER, OWNER, Rig, now, numbers, protected_topic
from tests.rigs.envelopes import WSNT, Answer, fresh_id
from tests.rigs.envelopes import Speaker as Peer
from tests.rigs.gateways import running
from tests.rigs.stores import on_each_store
from tests.rigs.waiting import seconds_of, until

DAY = timedelta(days=1)


def revocation(
    topic_id: UUID,
    delegation: str,
    by: Speaker = OWNER,
    *,
    issued: datetime | None = None,
    ends: datetime | None = None,
) -> bytes:
    said = DelegationRevocation(
        f"rev-{uuid4()}", topic_id, delegation, issued or now(), ends or now() + DAY
    )
    return by.signed(said)


def id_of(delegation: bytes) -> str:
    return read_as(Delegation, delegation).value.id


async def tell(rig: Rig, octets: bytes) -> None:
    message = Notification(fresh_id(), "urn:owner", octets, now(), TOPICS)
    await rig.run.gateway.adapter.publish([message])


async def lend(rig: Rig) -> tuple[Consumer, bytes]:
    """A consumer of the other, and the delegation that it rests on."""
    sink, request, delegation = rig.consumers.add(), fresh_id(), rig.delegation(Right.SUBSCRIBE)
    header = rig.header(OTHER, Right.SUBSCRIBE, request, delegation=delegation)
    answer = await rig.subscribe(sink, request, header)
    assert answer.status == 200, answer.body
    return sink, delegation


def lent(rig: Rig) -> set[str | None]:
    """The delegations on which subscriptions rest."""
    rights = (one.subscription.policy.rights for one in rig.run.gateway.subscriptions.entries)
    return {right.delegation for right in rights if right is not None}


async def test_what_rests_on_it_ends_at_once_and_stays_so_over_a_restart(tmp_path: Path) -> None:
    async with protected_topic(tmp_path, adapter="embedded:") as rig:
        (revoked, taken_back), (kept, other) = await lend(rig), await lend(rig)
        publishing = rig.delegation(Right.PUBLISH)
        assert (await rig.publish(1, OTHER, delegation=publishing)).status == 202
        for sink in (revoked, kept):
            await until(lambda: numbers(sink) == ["1"])  # noqa: B023  # Awaited at once.
        for each in (taken_back, publishing):
            await tell(rig, revocation(rig.topic_id, id_of(each)))
        discovery = rig.run.gateway.discovery
        assert discovery is not None
        obeyed = until(lambda: len(discovery._revocations) == 2 and lent(rig) == {id_of(other)})
        assert await seconds_of(obeyed) < 1.0
        for request in (rig.publish(2, OTHER, delegation=publishing), _again(rig, taken_back)):
            answer = await request
            assert (answer.status, b"is revoked" in answer.body) == (403, True), answer.body
        assert (await rig.publish(3, OWNER)).status == 202
        await until(lambda: numbers(kept) == ["1", "3"])
        assert numbers(revoked) == ["1"]
    chosen = {**node_settings(tmp_path), "trusted": ("127.0.0.1",), "adapter": "embedded:"}
    async with running(tmp_path, **chosen) as run:
        rig.run = run
        assert lent(rig) == {id_of(other)}
        for request in (rig.publish(4, OTHER, delegation=publishing), _again(rig, taken_back)):
            answer = await request
            assert (answer.status, b"is revoked" in answer.body) == (403, True), answer.body


async def test_what_was_accepted_before_is_delivered(tmp_path: Path) -> None:
    """By right it was published: it comes out of the store after the publisher's delegation was
    taken back. Out of a pull point nothing comes after the subscriber's was."""
    async with protected_topic(tmp_path, adapter="embedded:") as rig:
        sink, _ = await lend(rig)
        [entry] = rig.run.gateway.subscriptions.entries
        path = f"/subscriptions/{entry.id}"
        assert (await rig.run.api("POST", f"{path}/pause", b'{"hold": true}')).status == 200
        boxed = await rig.run.ask(Peer(), f'<n:CreatePullPoint xmlns:n="{WSNT}"/>')
        [address] = (str(one.text) for one in boxed.message.body[0].iter("{*}Address"))
        request, subscribing = fresh_id(), rig.delegation(Right.SUBSCRIBE)
        header = rig.header(OTHER, Right.SUBSCRIBE, request, delegation=subscribing)
        assert (await rig.subscribe(Consumer(address), request, header)).status == 200
        publishing = rig.delegation(Right.PUBLISH)
        assert (await rig.publish(1, OTHER, delegation=publishing)).status == 202
        key = address.rpartition("/")[2]

        async def has_it() -> bool:
            box = await rig.run.gateway.mailboxes.find(key)
            return (await rig.run.gateway.mailboxes.size(box)).messages == 1

        await until(has_it)
        for each in (publishing, subscribing):
            await tell(rig, revocation(rig.topic_id, id_of(each)))
        discovery = rig.run.gateway.discovery
        assert discovery is not None
        await until(lambda: len(discovery._revocations) == 2)
        assert (await rig.run.api("POST", f"{path}/resume", b"{}")).status == 200
        await until(lambda: numbers(sink) == ["1"])
        boxes = rig.run.gateway.mailboxes
        assert (await boxes.leases.take(await boxes.find(key))).messages == ()
        dead = json.loads((await rig.run.api("GET", "/deadletters")).body)["dead_letters"]
        assert [one["reason"] for one in dead] == ["mailbox-right-withdrawn"]


async def _again(rig: Rig, delegation: bytes) -> Answer:
    request = fresh_id()
    header = rig.header(OTHER, Right.SUBSCRIBE, request, delegation=delegation)
    return await rig.subscribe(rig.consumers.add(), request, header)


# The node: whose word counts, what was tampered with, what came before.


def topic_id_of(advertisement: bytes) -> UUID:
    return read_as(SignedTopicAdvertisement, advertisement).value.topic_id


Make = Callable[[UUID, str], bytes]
TAMPERED: dict[str, Make] = {
    "another entity": lambda topic, id_: revocation(topic, id_, CONSUMER),
    "another topic": lambda topic, id_: revocation(uuid4(), id_, PRODUCER),
    "the future": lambda topic, id_: revocation(topic, id_, PRODUCER, issued=now() + DAY),
    "over": lambda topic, id_: revocation(topic, id_, PRODUCER, ends=now() - DAY),
    "unsigned": lambda topic, id_: revocation(topic, id_, Speaker(None)),
    "another delegation": lambda topic, id_: revocation(
        topic, id_.replace("0", "1"), PRODUCER
    ).replace(id_.replace("0", "1").encode(), id_.encode()),
    "signed by a node": lambda topic, id_: revocation(topic, id_, Speaker(parties().node)),
}


@pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
@pytest.mark.parametrize("restarted", [False, True])
async def test_whose_word_counts(store_url: str, restarted: bool) -> None:
    delegation = f"dlg-{uuid4()}".replace("1", "0")
    async with at_work(store_url) as node:
        topic = topic_id_of(await advertise(node))
        if not restarted:
            await _nothing_counts(node, topic, delegation)
    if restarted:
        async with at_work(store_url) as node:
            await _nothing_counts(node, topic, delegation)


async def _nothing_counts(node: AtWork, topic: UUID, delegation: str) -> None:
    revoked = node.service._revocations
    for why, make in TAMPERED.items():
        await node.tell(make(topic, delegation))
        assert not revoked.of(str(topic)), why
    await node.tell(revocation(topic, delegation, PRODUCER))
    assert revoked.of(str(topic)) == {delegation}


async def test_a_stranger_s_is_refused_where_the_node_answers(store_url: str) -> None:
    async with at_work(store_url) as node:
        topic = topic_id_of(await advertise(node))
        own = topic_of(parties().node_id)
        with capture_logs() as logs:
            await node.tell(revocation(topic, "dlg-1", CONSUMER), own)
        assert [one["why"] for one in logs if one["event"] == "discovery.revocation-refused"] == [
            "not-creator"
        ]
        answer = CONSUMER.read(node.published.to(CONSUMER)[-1].payload, now()).message
        assert isinstance(answer, Refusal)
        assert answer.reason is Fault.UNAUTHORIZED


@on_each_store
async def test_it_is_there_after_a_kill_and_at_the_other_gateways(store_url: str) -> None:
    async with at_work(store_url, shared=True) as first, at_work(store_url, shared=True) as second:
        topic = topic_id_of(await advertise(first))
        octets = revocation(topic, "dlg-1", PRODUCER)
        await first.tell(octets)
        await until(lambda: second.service._revocations.of(str(topic)) == {"dlg-1"})
        await second.tell(octets)  # Again: nothing changes.
    async with at_work(store_url) as again:  # The others were dropped, as by kill -9.
        assert again.service._revocations.of(str(topic)) == {"dlg-1"}
        assert len(again.service._revocations) == 1


async def test_how_many_are_kept(store_url: str) -> None:
    limits = AdvertisementLimits(revocations_of_topic=3, revocations_of_creator=5, revocations=6)
    async with at_work(store_url, limits=limits) as node:
        topics = [topic_id_of(await advertise(node)) for _ in range(3)]
        theirs = topic_id_of(await advertise(node, CONSUMER))
        for topic, delegations in zip(topics, (4, 4, 4), strict=True):
            for number in range(delegations):
                await node.tell(revocation(topic, f"dlg-{number}", PRODUCER))
        for number in range(2):
            await node.tell(revocation(theirs, f"dlg-{number}", CONSUMER))
        of = node.service._revocations.of
        assert [len(of(str(topic))) for topic in (*topics, theirs)] == [3, 2, 0, 1]


async def test_how_many_are_kept_of_one_batch(store_url: str) -> None:
    async with at_work(store_url) as node:
        topic = str(topic_id_of(await advertise(node)))
        ends = (now() + DAY).timestamp()
        rows = [RevocationRow(topic, f"dlg-{n}", PRODUCER.id, ends) for n in (1, 1, 2, 3, 4)]
        keep = partial(
            revocations.keep,
            rows=rows,
            limits=AdvertisementLimits(revocations=3),
            now=now().timestamp(),
        )
        kept = await node.service._store.submit(keep)
        assert [one.value for one in kept] == ["new", "known", "new", "new", "full"]


async def test_one_is_never_shortened_and_forgotten_when_its_delegation_is_over(
    store_url: str,
) -> None:
    async with at_work(store_url) as node:
        topic = topic_id_of(await advertise(node))
        soon = timedelta(seconds=1.5)
        await node.tell(revocation(topic, "dlg-1", PRODUCER, ends=now() + DAY))
        await node.tell(revocation(topic, "dlg-1", PRODUCER, ends=now() + soon))  # A rollback.
        await node.tell(revocation(topic, "dlg-2", PRODUCER, ends=now() + soon))
        await asyncio.sleep(1.6)
    async with at_work(store_url) as node:
        assert node.service._revocations.of(str(topic)) == {"dlg-1"}


async def test_it_ends_with_its_topic(store_url: str) -> None:
    """Creators of short-lived topics would fill the memory otherwise."""
    async with at_work(store_url) as node:
        octets = await advertise(node)
        ends = read_advertisement(
            read_as(SignedTopicAdvertisement, octets).value.advertisement
        ).value.expires
        await node.tell(revocation(topic_id_of(octets), "dlg-1", PRODUCER, ends=ends + 999 * DAY))
        assert len(node.service._revocations) == 1
        node.service._revocations.forget(ends.timestamp())
        assert not len(node.service._revocations)


_IDS = st.sampled_from(["a", "b", "c"])


@given(st.lists(st.tuples(_IDS, _IDS, st.integers(0, 9)), max_size=20), st.integers(0, 9))
def test_the_ones_in_memory_are_a_set_that_time_alone_shrinks(
    said: list[tuple[str, str, int]], at: int
) -> None:
    revoked = Revocations(frozenset({"always"}))
    for topic, delegation, until_ in said:
        revoked.add(topic, delegation, until_)
    revoked.forget(at)
    for topic in "abc":
        left = {one for where, one, _ in said if where == topic} & {
            one
            for one in "abc"
            if max((ends for where, id_, ends in said if (where, id_) == (topic, one)), default=0)
            > at
        }
        assert revoked.of(topic) == left | {"always"}
