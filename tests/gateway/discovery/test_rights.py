"""Protected topics: who may publish on them and subscribe to them, in a whole gateway."""

import asyncio
from collections.abc import AsyncIterator, Callable
from datetime import datetime, timedelta
from pathlib import Path
from threading import Event
from typing import Any
from urllib.parse import quote
from uuid import UUID, uuid4

import pytest
import pytest_asyncio

from gateway.parsing.fair_queue import AT_A_TIME
from gateway.security.quotas import PrincipalRate
from mediation.discovery import Authorization, Right, Role, Verifier, topic_of, write
from tests.gateway.publishing.test_synchronization import synchronize
from tests.rigs.discovery_rights import (
    NAMESPACE,
    OTHER,
    OWNER,
    Rig,
    now,
    numbers,
    protected_topic,
)
from tests.rigs.envelopes import Speaker as Peer
from tests.rigs.envelopes import fresh_id
from tests.rigs.reliable_publishers import ReliablePublisher
from tests.rigs.waiting import DEADLINE, until

STRANGER = "127.0.0.2"
FULL = "http://docs.oasis-open.org/wsn/t-1/TopicExpression/Full"
WSN = "http://docs.oasis-open.org/wsn/b-2"


@pytest_asyncio.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    async with protected_topic(tmp_path) as rig:
        yield rig


def verifications(monkeypatch: pytest.MonkeyPatch) -> list[Role]:
    """The roles as which signatures are looked at, from now on."""
    looks: list[Role] = []
    verify = Verifier.verify

    def look(self: Verifier, received: Any, role: Role, **more: Any) -> Any:
        looks.append(role)
        return verify(self, received, role, **more)

    monkeypatch.setattr(Verifier, "verify", look)
    return looks


async def test_the_owner_and_whom_it_lets(rig: Rig) -> None:
    everything, own, lent = (rig.consumers.add() for _ in range(3))
    peer = Peer()
    await rig.run.subscribe(peer, peer.wsn_subscribe(everything.url))
    request = fresh_id()
    answer = await rig.subscribe(own, request, rig.header(OWNER, Right.SUBSCRIBE, request))
    assert answer.status == 200, answer.body
    request = fresh_id()
    delegation = rig.delegation(Right.SUBSCRIBE)
    header = rig.header(OTHER, Right.SUBSCRIBE, request, delegation=delegation)
    assert (await rig.subscribe(lent, request, header)).status == 200
    assert (await rig.publish(1, OWNER)).status == 202
    assert (await rig.publish(2, OTHER, delegation=rig.delegation(Right.PUBLISH))).status == 202
    for consumer in (own, lent):
        await until(lambda: len(consumer.received) == 2)  # noqa: B023  # Awaited at once.
    # Who subscribes to everything gets what is everybody's, and nothing of this.
    await rig.run.publish("<e><n>3</n></e>", path="/soap/topic/open")
    await everything.until(lambda: bool(everything.received))
    assert numbers(everything) == ["3"]


async def test_a_wildcard_is_accepted_and_matches_no_protected_topic(rig: Rig) -> None:
    wide, own = rig.consumers.add(), rig.consumers.add()
    assert (await rig.subscribe(wide, fresh_id(), dialect=FULL)).status == 200
    request = fresh_id()
    await rig.subscribe(own, request, rig.header(OWNER, Right.SUBSCRIBE, request))
    await rig.publish(1, OWNER)
    await own.until(lambda: bool(own.received))
    path = f"/soap/topic/{quote(f'{{{NAMESPACE}}}Tide/Open', safe='')}"
    await rig.run.publish("<e><n>2</n></e>", path=path)
    await wide.until(lambda: bool(wide.received))
    assert numbers(wide) == ["2"]


def elsewhere(rig: Rig, request: str) -> str:
    address = "https://elsewhere.example.net/soap"
    return write(Authorization(rig.possession(OWNER, Right.SUBSCRIBE, request, address))).decode()


async def test_who_may_not_subscribe(rig: Rig) -> None:
    sink, right = rig.consumers.add(), Right.SUBSCRIBE
    cases: dict[str, Callable[[str], str]] = {
        "proves no right": lambda request: "",
        "another's": lambda request: rig.header(OTHER, right, request),
        "another right": lambda request: rig.header(
            OTHER, right, request, delegation=rig.delegation(Right.PUBLISH)
        ),
        "is over": lambda request: rig.header(
            OTHER, right, request, delegation=rig.delegation(right, days=-1)
        ),
        "outlives": lambda request: rig.header(
            OTHER, right, request, delegation=rig.delegation(right, days=60)
        ),
        "for another": lambda request: rig.header(
            OTHER, right, request, delegation=rig.delegation(right, grantee=OWNER)
        ),
        "not by the creator": lambda request: rig.header(
            OTHER, right, request, delegation=rig.delegation(right, by=OTHER)
        ),
        "another request": lambda request: rig.header(OWNER, right, fresh_id()),
        "another address": lambda request: elsewhere(rig, request),
    }
    for why, header in cases.items():
        request = fresh_id()
        answer = await rig.subscribe(sink, request, header(request))
        assert answer.status == 403, (why, answer.body)
        assert why in answer.body.decode()
        assert "SubscribeCreationFailedFault" in answer.body.decode()


async def test_a_proof_counts_once(rig: Rig) -> None:
    sink, request = rig.consumers.add(), fresh_id()
    header = rig.header(OWNER, Right.SUBSCRIBE, request)
    assert (await rig.subscribe(sink, request, header)).status == 200
    again = await rig.subscribe(rig.consumers.add(), request, header)
    assert (again.status, b"came before" in again.body) == (403, True)


async def test_a_lease_ends_with_the_delegation(rig: Rig) -> None:
    request = fresh_id()
    delegation = rig.delegation(Right.SUBSCRIBE, days=0.25)
    header = rig.header(OTHER, Right.SUBSCRIBE, request, delegation=delegation)
    sink = rig.consumers.add()
    await rig.subscribe(sink, request, header, expires="P1D")
    [entry] = rig.run.gateway.subscriptions.entries
    ends = now() + timedelta(days=0.25)

    def expires() -> datetime:
        end = entry.subscription.lease.expires
        assert end is not None
        return end

    assert ends - timedelta(minutes=2) < expires() <= ends
    await rig.run.gateway.renewal.keep_alive(entry, 10 * 86400.0)
    assert expires() <= ends


async def test_who_may_not_publish(rig: Rig) -> None:
    for speaker, delegation in (
        (None, None), (OTHER, None), (OTHER, rig.delegation(Right.SUBSCRIBE)),
    ):  # fmt: skip
        answer = await rig.publish(1, speaker, delegation=delegation)
        assert answer.status == 403, answer.body


async def test_who_may_publish_in_a_sequence(rig: Rig) -> None:
    sink, request = rig.consumers.add(), fresh_id()
    await rig.subscribe(sink, request, rig.header(OWNER, Right.SUBSCRIBE, request))
    path = f"/soap/topic/{quote(str(rig.topic), safe='')}"
    publisher = ReliablePublisher(rig.run, path=path)
    await publisher.create()
    for number, speaker in ((1, OWNER), (2, None), (3, OTHER), (4, OWNER)):
        request, header = fresh_id(), ""
        if speaker is not None:
            raw = f"/soap/topic/{rig.topic}"
            header = rig.header(speaker, Right.PUBLISH, request, raw)
        message = publisher.message(number, f"<e><n>{number}</n></e>", message_id=request)
        message = message.replace(b"</s:Header>", header.encode() + b"</s:Header>", 1)
        for _ in range(2):  # It is sent again when its acknowledgement was lost.
            answer = await publisher.post(message)
            assert (answer.status == 403) == (speaker is not OWNER), answer.body
    await sink.until(lambda: "4" in numbers(sink))
    await rig.run.quiet()
    assert numbers(sink) == ["1", "4"]


async def test_native_messages_without_the_right_reach_nobody_and_are_counted(rig: Rig) -> None:
    sink, request = rig.consumers.add(), fresh_id()
    await rig.subscribe(sink, request, rig.header(OWNER, Right.SUBSCRIBE, request))
    await rig.native(1, {})
    await rig.native(2, {"tdn_authorization": "no base64"})
    right = fresh_id()
    proof = rig.proof(right)
    await rig.native(3, {"tdn_authorization": proof}, right)
    # Somebody who saw it says something else with its proof.
    await rig.native(4, {"tdn_authorization": proof, "tdn_request": right})
    await rig.publish(5, OWNER)
    await sink.until(lambda: "5" in numbers(sink))
    assert numbers(sink) == ["3", "5"]
    metrics = (await rig.run.admin("GET", "/metrics")).body.decode()
    assert "dragoman_withheld_total 3.0" in metrics
    assert 'dragoman_discovery_denials_total{reason="publish-replayed"} 1.0' in metrics


async def test_an_entity_s_own_topic(rig: Rig) -> None:
    """A stranger that is somebody else does not listen to it; it itself does, with a proof; and a
    subscription to everything does not get it either."""
    where = topic_of(OTHER.id)
    sink = rig.consumers.add()
    refused = await rig.subscribe(sink, fresh_id(), topic=where, source=STRANGER)
    assert refused.status == 403
    topic_id = UUID(OTHER.id.removeprefix(Role.ENTITY.value))
    request = fresh_id()
    for speaker, status in ((OWNER, 403), (OTHER, 200)):
        header = rig.header(speaker, Right.SUBSCRIBE, request, topic_id=topic_id)
        answer = await rig.subscribe(sink, request, header, topic=where, source=STRANGER)
        assert answer.status == status, answer.body
    everything, peer = rig.consumers.add(), Peer()
    await rig.run.subscribe(peer, peer.wsn_subscribe(everything.url), source=STRANGER)
    path = f"/soap/topic/{quote(str(where), safe='')}"
    await rig.run.publish("<e><n>1</n></e>", path=path)
    await sink.until(lambda: bool(sink.received))
    await rig.run.publish("<e><n>2</n></e>", path="/soap/topic/open")
    await everything.until(lambda: bool(everything.received))
    assert numbers(everything) == ["2"]
    unknown = topic_of("x-" + uuid4().hex)
    answer = await rig.subscribe(sink, fresh_id(), topic=unknown, source=STRANGER)
    assert answer.status == 200, "who knows the name of a stranger without a key is it"


async def test_the_last_message_is_for_those_who_may_subscribe(rig: Rig) -> None:
    assert (await rig.publish(1, OWNER)).status == 202
    steps = "/".join(step.name for step in rig.topic.steps)
    body = (
        f'<n:GetCurrentMessage xmlns:n="{WSN}" xmlns:t="{NAMESPACE}"><n:Topic Dialect="{FULL}">'
        f"t:{steps}</n:Topic></n:GetCurrentMessage>"
    )
    refused = await rig.run.ask(Peer(), body)
    assert (refused.status, b"proves no right" in refused.body) == (403, True), refused.body
    request = fresh_id()
    header = rig.header(OTHER, Right.SUBSCRIBE, request)
    assert (await rig.run.ask(Peer(), body, message_id=request, headers=header)).status == 403
    request = fresh_id()
    header = rig.header(OWNER, Right.SUBSCRIBE, request)
    answer = await rig.run.ask(Peer(), body, message_id=request, headers=header)
    assert (answer.status, b"<n>1</n>" in answer.body) == (200, True), answer.body


async def test_who_shows_nothing_costs_no_look_at_the_topic(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked = False

    async def look(*_: object) -> None:
        nonlocal looked
        looked = True

    assert rig.run.gateway.rights is not None
    monkeypatch.setattr(rig.run.gateway.rights.proofs, "advertised", look)
    assert (await rig.publish(1, None)).status == 403
    assert not looked
    assert (await rig.publish(1, OTHER)).status == 403
    assert looked


async def test_what_cannot_do_costs_no_look_at_a_signature(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = verifications(monkeypatch)
    sink, request = rig.consumers.add(), fresh_id()
    for header in (
        rig.header(OWNER, Right.PUBLISH, request),
        rig.header(OWNER, Right.SUBSCRIBE, fresh_id()),
        rig.header(OWNER, Right.SUBSCRIBE, request, topic_id=uuid4()),
        elsewhere(rig, request),
    ):
        assert (await rig.subscribe(sink, request, header)).status == 403
    assert looks == []
    header = rig.header(OWNER, Right.SUBSCRIBE, request)
    assert (await rig.subscribe(sink, request, header)).status == 200
    assert looks != []


async def test_a_stranger_s_proofs_are_counted_before_they_are_read(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert rig.run.gateway.rights is not None
    few = PrincipalRate(0.0001, 2.0, "Too many proofs of possession.")
    monkeypatch.setattr(rig.run.gateway.rights.proofs, "_proofs", few)
    answers = [await rig.publish(1, OTHER, source=STRANGER) for _ in range(2)]
    assert [answer.status for answer in answers] == [403, 403]
    looks = verifications(monkeypatch)
    answer = await rig.publish(1, OWNER, source=STRANGER)
    assert (answer.status, answer.headers.get("retry-after")) == (429, "10000"), answer.body
    assert b"Too many proofs of possession." in answer.body
    assert (await rig.publish(1, None, source=STRANGER)).status == 403, "it brings none"
    assert looks == []
    assert (await rig.publish(1, OWNER, source="127.0.0.3")).status == 202, "another stranger"
    assert (await rig.publish(1, OWNER)).status == 202
    metrics = (await rig.run.admin("GET", "/metrics")).body
    assert b'dragoman_discovery_denials_total{reason="publish-rate"} 1.0' in metrics


async def test_subscribe_requests_are_counted_before_their_proofs_are_read(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = PrincipalRate(0.0001, 1.0, "Too many Subscribe requests.")
    monkeypatch.setattr(rig.run.gateway.creation, "_rate", few)
    sink, looks = rig.consumers.add(), verifications(monkeypatch)
    for status in (403, 429):
        request = fresh_id()
        header = rig.header(OTHER, Right.SUBSCRIBE, request)
        answer = await rig.subscribe(sink, request, header, source=STRANGER)
        assert (answer.status, bool(looks)) == (status, status == 403), answer.body
        looks.clear()


async def test_strangers_leave_threads_for_others(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert rig.run.gateway.rights is not None
    threads, released = rig.run.gateway.rights.proofs._strangers, Event()
    busy = [
        asyncio.create_task(threads.run(0, lambda _: released.wait(DEADLINE), "another"))
        for _ in range(AT_A_TIME)
    ]
    waiting = asyncio.create_task(rig.publish(1, OTHER, source=STRANGER))
    assert (await rig.publish(2, OWNER)).status == 202
    assert not waiting.done()
    monkeypatch.setattr(threads.queue, "_wait", 0.0)
    answer = await rig.publish(1, OTHER, source=STRANGER)
    assert (answer.status, b"wait to be checked" in answer.body) == (503, True), answer.body
    released.set()
    assert (await waiting).status == 403
    await asyncio.gather(*busy)


async def test_a_wildcard_gets_no_last_message_of_a_protected_topic(rig: Rig) -> None:
    wide, peer = rig.consumers.add(), Peer()
    assert (await rig.publish(1, OWNER)).status == 202
    await rig.run.publish("<e><n>2</n></e>", path="/soap/topic/open")
    manager = await rig.run.subscribe(peer, peer.wsn_subscribe(wide.url))
    own, request = rig.consumers.add(), fresh_id()
    await rig.subscribe(own, request, rig.header(OWNER, Right.SUBSCRIBE, request))
    [entry] = [one for one in rig.run.gateway.subscriptions.entries if one.target.url == own.url]
    path = f"/subscriptions/{entry.subscription.key}"
    assert [await synchronize(rig.run, each) for each in (manager, path)] == [200, 200]
    for sink in (wide, own):
        await sink.until(lambda: bool(sink.received))  # noqa: B023  # Awaited at once.
    await rig.run.quiet()
    assert (numbers(wide), numbers(own)) == (["2"], ["1"])
