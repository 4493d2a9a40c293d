"""What waits for a subscriber that loses its right is not delivered, wherever it waits.

Of each way three events wait; the second is of the topic that the subscriber may get no more. After
the right is gone the others come, and that one never does.
"""

import json
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from gateway.egress import Request, SendFailed, parse_target
from gateway.identities.file_editing import add_key, add_user, create_identities
from mediation.model.versions import Soap, Wsa
from mediation.names import DRAGOMAN_POLICY, WSMAN, WSMAN_EVENTS
from tests.gateway.subscriptions.test_replaying import archived, row
from tests.rigs.consumers import Connection, Consumers, Receipt, accept, acknowledge, consumers
from tests.rigs.envelopes import Speaker, fresh_id
from tests.rigs.gateways import Running, running
from tests.rigs.reliable_consumers import ReliableConsumer, policy
from tests.rigs.waiting import until

SPEAKER = Speaker()
MANAGER = Speaker(Soap.V1_2, Wsa.V2004_08)
"""A subscriber of WS-Management."""
RULES = """
[[rights]]
who = ["user:mole"]
may = ["publish", "subscribe", "manage"]
topics = ["calm"]

[[rights]]
who = ["user:mole"]
may = ["subscribe"]
topics = ["storm"]
"""
NOW = {"wait": 0}
STORM = '\ntopics = ["storm"]'
"""The right that is withdrawn."""


@dataclass
class Gate:
    """A consumer that answers nothing before it is open."""

    open: bool = False
    _kept: list[tuple[Connection, Receipt]] = field(default_factory=list)

    def __call__(self, connection: Connection, receipt: Receipt) -> None:
        if self.open:
            accept(connection, receipt)
        else:
            self._kept.append((connection, receipt))

    def release(self) -> None:
        self.open = True
        for connection, receipt in self._kept:
            accept(connection, receipt)


@dataclass
class Case:
    run: Running
    sinks: Consumers
    administrator: str
    mole: str
    file: Path

    async def withdraw(self, text: str | None = None) -> None:
        """Have other rules hold: *text*, or those without the right to storms."""
        before = self._times_read()
        self.file.write_text(text or self.file.read_text().replace(STORM, '\ntopics = ["snow"]'))

        await until(lambda: self._times_read() > before)

    def _times_read(self) -> int:
        return len([one for one in self.run.logs if one["event"] == "identity.read"])

    async def reasons(self) -> Counter[str]:
        """The reasons of the dead letters, once nothing is under way."""
        await self.run.quiet()
        listed = (await self.ask("GET", "/api/v1/deadletters"))["dead_letters"]
        return Counter(letter["reason"] for letter in listed)

    async def ask(self, method: str, path: str, asked: object = None, key: str = "") -> Any:
        octets = b"" if asked is None else json.dumps(asked).encode()
        answer = await self.run.request(
            method,
            path,
            octets,
            content_type="application/json",
            authorization=f"Bearer {key or self.administrator}",
        )
        assert answer.status < 300, answer.body
        return json.loads(answer.body) if answer.body else None

    async def subscribe(self, url: str, inner: str = "", speaker: Speaker = SPEAKER) -> str:
        """Subscribe as the one that loses a right; the id."""
        body = speaker.wse_subscribe(url).replace("</e:Delivery>", f"{inner}</e:Delivery>")
        if speaker is MANAGER:
            mode = f'<e:Delivery Mode="{WSMAN_EVENTS}" xmlns:w="{WSMAN}">'
            body = body.replace("<e:Delivery>", mode)
        before = {entry.id for entry in self.run.gateway.subscriptions.entries}
        answer = await self.post(body, key=self.mole, speaker=speaker)
        assert answer == 200
        [new] = {entry.id for entry in self.run.gateway.subscriptions.entries} - before
        return new

    async def subscribe_paused(self, url: str, inner: str = "", speaker: Speaker = SPEAKER) -> str:
        id_ = await self.subscribe(url, inner, speaker)
        await self.ask("POST", f"/api/v1/subscriptions/{id_}/pause", {"hold": True})
        return id_

    async def resume(self, id_: str) -> None:
        await self.ask("POST", f"/api/v1/subscriptions/{id_}/resume", {})

    async def post(
        self, body: str, path: str = "/soap", key: str = "", speaker: Speaker = SPEAKER
    ) -> int:
        answer = await self.run.post(
            speaker.envelope(body, message_id=fresh_id()),
            path,
            type=speaker.type,
            authorization=f"Bearer {key or self.administrator}",
        )
        return answer.status

    async def publish(self, topic: str, number: int) -> None:
        assert await self.post(f"<{topic}><n>{number}</n></{topic}>", f"/soap/topic/{topic}") == 202


Way = AsyncGenerator[list[str], None]
"""Yields when it is ready for events; when they wait; and the numbers that came at last."""


async def behind_another(case: Case) -> Way:
    """In memory, and soon in the store, behind one under way."""
    gate = Gate()
    consumer = case.sinks.add(gate)
    await case.subscribe(consumer.url)
    yield []
    yield []
    gate.release()
    await consumer.have(2)
    yield consumer.numbers


async def paused(case: Case) -> Way:
    consumer = case.sinks.add()
    id_ = await case.subscribe_paused(consumer.url)
    yield []
    yield []
    await case.resume(id_)
    await consumer.have(2)
    yield consumer.numbers


async def failing(case: Case) -> Way:
    """In the store, after attempts that failed."""
    answers = [503]
    consumer = case.sinks.add(lambda connection, _: connection.answer(answers[0]))
    await case.subscribe(consumer.url)
    yield []
    await consumer.have(1)
    yield []
    answers[0] = 202
    await consumer.until(lambda: "2" in consumer.numbers)
    yield list(dict.fromkeys(consumer.numbers))


async def side_by_side(case: Case) -> Way:
    """In order by key."""
    consumer = case.sinks.add()
    key = f'<p:OrderKey xmlns:p="{DRAGOMAN_POLICY}">topic</p:OrderKey>'
    id_ = await case.subscribe_paused(consumer.url, key)
    yield []
    yield []
    await case.resume(id_)
    await consumer.have(2)
    yield consumer.numbers


async def in_a_batch(case: Case) -> Way:
    consumer = case.sinks.add(acknowledge)
    batches = "<w:MaxElements>7</w:MaxElements>"
    id_ = await case.subscribe_paused(consumer.url, batches, MANAGER)
    yield []
    yield []
    await case.resume(id_)
    await consumer.have(1)
    yield consumer.received[0].events


async def replayed(case: Case) -> Way:
    """Out of the archive, among what waits."""
    yield []
    consumer = case.sinks.add()
    id_ = await case.subscribe_paused(consumer.url)
    asked = {"from": "2026-03-01T00:00:00Z", "to": "2026-03-02T00:00:00Z"}
    await case.ask("POST", f"/api/v1/subscriptions/{id_}/replay", asked)

    async def done() -> bool:
        said = await case.ask("GET", f"/api/v1/subscriptions/{id_}/replay")
        return bool(said["state"] == "done" and said["replayed"] == 3)

    await until(done)
    yield []
    await case.resume(id_)
    await consumer.have(2)
    yield consumer.numbers


async def in_a_sequence(case: Case) -> Way:
    """Numbered or not: a number with which nothing was sent goes to the next."""
    consumer = ReliableConsumer()
    sink = case.sinks.add(consumer)
    id_ = await case.subscribe_paused(sink.url, policy())
    yield []
    yield []
    await case.resume(id_)
    await until(lambda: len(consumer.got) == 2)
    yield consumer.got
    assert consumer.sequences == [[1, 2]]


async def in_a_mailbox(case: Case) -> Way:
    box = await case.ask("POST", "/mailboxes", {"topic": "*"}, case.mole)
    yield []

    async def filled() -> bool:
        found = await case.ask("GET", f"/mailboxes/{box['key']}", None, case.mole)
        return bool(found["messages"] == 3)

    await until(filled)
    yield []
    taken = await case.ask("POST", f"/mailboxes/{box['key']}/receive", {"wait": 0}, case.mole)
    yield [
        message["payload"].rpartition("</n>")[0].rpartition(">")[2] for message in taken["messages"]
    ]


WAYS: dict[str, Callable[[Case], Way]] = {
    "behind another": behind_another,
    "paused": paused,
    "failing": failing,
    "side by side": side_by_side,
    "in a batch": in_a_batch,
    "in a sequence": in_a_sequence,
    "replayed": replayed,
    "in a mailbox": in_a_mailbox,
}


@asynccontextmanager
async def guarded(folder: Path, **settings: Any) -> AsyncIterator[Case]:
    """A gateway with rules, and consumers."""
    file = folder / "identities.toml"
    administrator = create_identities(file)
    add_user(file, "mole", None, [])
    mole = add_key(file, "mole")
    file.write_text(file.read_text() + RULES)
    chosen = {"adapter": "embedded:", "identities": file, "retry_delays": "0.2," * 50, **settings}
    async with consumers() as sinks, running(folder / "data", **chosen) as run:
        yield Case(run, sinks, administrator, mole, file)


async def test_wherever_it_waits(tmp_path: Path) -> None:
    archive = tmp_path / "archive"
    archived(archive, [row(0, "calm"), row(1, "storm"), row(2, "calm")])
    async with guarded(tmp_path, archive=archive) as case:
        async with AsyncExitStack() as ways:
            each = {
                name: await ways.enter_async_context(aclosing(way(case)))
                for name, way in WAYS.items()
            }
            for way in each.values():
                await anext(way)
            for topic, number in (("calm", 0), ("storm", 1), ("calm", 2)):
                await case.publish(topic, number)
            for way in each.values():
                await anext(way)
            await case.withdraw()
            came = {name: await anext(way) for name, way in each.items()}
            assert came == {name: ["0", "2"] for name in WAYS}
        reasons = await case.reasons()
        assert reasons == {"right-withdrawn": len(WAYS) - 1, "mailbox-right-withdrawn": 1}
        counts = [sink.count for sink in case.sinks.by_path.values()]
        died = (await case.ask("GET", "/api/v1/deadletters?reason=right-withdrawn"))["dead_letters"]
        path = f"/api/v1/subscriptions/{died[0]['subscription']}/send-again"
        tried = await case.ask("POST", path, {"message": died[0]["published_id"], "force": True})
        assert tried["verdict"] == "withdrawn"
        await case.ask("POST", "/api/v1/deadletters/redrive", {"all": True})
        assert (await case.reasons())["right-withdrawn"] == len(WAYS) - 1
        assert [sink.count for sink in case.sinks.by_path.values()] == counts


async def test_what_was_redriven_into_a_mailbox(tmp_path: Path) -> None:
    """It has not become anybody's by that, until the right is there again."""
    async with guarded(tmp_path) as case:
        box = await case.ask("POST", "/mailboxes", {"topic": "*"}, case.mole)
        await case.publish("storm", 1)
        await case.run.quiet()
        granted = case.file.read_text()
        await case.withdraw()
        for _ in range(2):
            took = await case.ask("POST", f"/mailboxes/{box['key']}/receive", NOW, case.mole)
            assert took["messages"] == []
            assert await case.reasons() == {"mailbox-right-withdrawn": 1}
            await case.ask("POST", "/api/v1/deadletters/redrive", {"all": True})
        await case.withdraw(granted)
        took = await case.ask("POST", f"/mailboxes/{box['key']}/receive", NOW, case.mole)
        assert len(took["messages"]) == 1


@dataclass
class HeldReliable:
    """A consumer in sequences that does not answer the event *held* before it is open."""

    consumer: ReliableConsumer
    held: int
    open: bool = False
    kept: list[tuple[Connection, Receipt]] = field(default_factory=list)

    def __call__(self, connection: Connection, receipt: Receipt) -> None:
        if not self.open and receipt.number == str(self.held):
            self.kept.append((connection, receipt))
        else:
            self.consumer(connection, receipt)


@pytest.mark.parametrize("sent", [False, True], ids=["given alone", "sent, too"])
async def test_a_number_that_was_given(tmp_path: Path, sent: bool) -> None:
    """What was not sent with it is left out, and the next event gets it. What may have been sent
    with it can neither be sent again nor be left out: the subscription ends."""
    async with guarded(tmp_path) as case:
        held = HeldReliable(ReliableConsumer(), 2 if sent else 1)
        sink = case.sinks.add(held)
        id_ = await case.subscribe_paused(sink.url, policy())
        for topic, number in (("calm", 0), ("calm", 1), ("storm", 2), ("calm", 3)):
            await case.publish(topic, number)
        await case.resume(id_)
        await until(lambda: bool(held.kept))
        await case.withdraw()
        held.open = True
        [(connection, receipt)] = held.kept
        if sent:
            connection.transport.abort()
            there = case.run.gateway.subscriptions
            await until(lambda: id_ not in {entry.id for entry in there.entries})
            assert held.consumer.got == ["0", "1"]
        else:
            held.consumer(connection, receipt)
            await until(lambda: held.consumer.got == ["0", "1", "3"])
            assert held.consumer.sequences == [[1, 2, 3]]
            assert await case.reasons() == {"right-withdrawn": 1}


async def test_a_connection_that_took_long(tmp_path: Path) -> None:
    """A request is asked for once more when it is about to be written."""
    async with guarded(tmp_path) as case:
        sink = case.sinks.add()
        target = parse_target(sink.url)
        transport = case.run.gateway.transport
        wanted = [True]
        request = Request(target, b"<a/>", (), wanted=lambda: wanted[0])
        assert (await transport.send(request)).status == 202
        wanted[0] = False
        with pytest.raises(SendFailed):
            await transport.send(request)
        assert sink.count == 1
