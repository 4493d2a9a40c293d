"""What kill -9 of the gateway does to a sequence: nothing is lost, comes twice into the messaging
system, or comes out of order."""

import asyncio
import json
import random
import sqlite3
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gateway.sequences.contents import MEDIA_TYPE, named, write_content
from mediation.model.messages import Notification
from mediation.names import PUBLISHER
from mediation.reliable_messaging import (
    CreateSequenceResponse,
    ReliableMessage,
    TerminateSequence,
    TerminateSequenceResponse,
    write_message,
)
from tests.rigs.consumers import consumers
from tests.rigs.envelopes import fresh_id
from tests.rigs.gateways import exchange, http_request
from tests.rigs.processes import GatewayProcess, gateway_process
from tests.rigs.reliable_publishers import ReliablePublisher, numbers_in, upto
from tests.rigs.stores import outage
from tests.rigs.waiting import until

ENVIRONMENT = {"DRAGOMAN_WSRM": "offered"}
WINDOW = 16
MOST = 60
"""Messages between two kills."""


class Pump(ReliablePublisher):
    """Sends numbers, several at once, each until it is acknowledged."""

    def aim_at(self, gateway: GatewayProcess) -> None:
        self.gateway = gateway

    async def post_now(self, octets: bytes) -> bytes:
        """What came back; nothing where the connection broke."""
        await self.gateway.up.wait()
        port = self.gateway.port
        headers = {"content_type": f"{self.soap.media_type}; charset=utf-8"}
        try:
            async with asyncio.timeout(30):
                answer = await exchange(port, http_request(port, "POST", "/soap", octets, headers))
                return answer.body
        except (OSError, asyncio.IncompleteReadError, TimeoutError):
            await asyncio.sleep(0.01)
            return b""

    async def begin(self) -> None:
        octets = self.create_message()
        while not self.identifier:
            said = self.read(await self.post_now(octets))
            if said is not None and isinstance(said.body, CreateSequenceResponse):
                self.identifier = said.body.identifier

    async def send_all(self, last: Callable[[], int]) -> None:
        """Send numbers up to what *last* says, until all are acknowledged."""
        while (first := self.acknowledged.first_gap) <= last():
            window = range(first, min(first + WINDOW, last() + 1))
            mine = [number for number in window if number not in self.acknowledged]
            random.shuffle(mine)
            await asyncio.gather(*map(self.send_one, mine))

    async def send_one(self, number: int) -> None:
        body = f'<e:event xmlns:e="urn:example">{number}</e:event>'
        said = self.read(await self.post_now(self.message(number, body)))
        for each in said.acknowledgements if said is not None else ():
            self.acknowledged |= each.ranges

    async def end(self, last: int) -> ReliableMessage:
        """Send TerminateSequence, and return what comes back."""
        body = TerminateSequence(self.identifier, last)
        _, octets = write_message(self.spec, body, to=self.to, message_id=fresh_id())
        said = self.read(await self.post_now(octets))
        assert said is not None
        return said


def ids_in_journal(data: Path) -> list[str]:
    """The ids of what the messaging system holds and has not settled."""
    journal = sqlite3.connect(data / "journal.db")
    try:
        rows = journal.execute("SELECT properties FROM message ORDER BY seq").fetchall()
    finally:
        journal.close()
    return [json.loads(properties)["cloudEvents_id"] for (properties,) in rows]


async def kill_often(data: Path, cycles: int, seed: int) -> None:
    choose = random.Random(seed)
    wanted = cycles * MOST
    async with consumers() as some, gateway_process(data, ENVIRONMENT) as gateway:
        consumer = some.add()
        await gateway.subscribe(consumer.url)
        pump = Pump(None)  # type: ignore[arg-type]
        pump.aim_at(gateway)
        await pump.begin()
        sending = asyncio.create_task(pump.send_all(lambda: wanted))
        for _ in range(cycles):
            enough = pump.acknowledged.count + choose.randrange(1, MOST)
            await until(lambda enough=enough: pump.acknowledged.count >= min(enough, wanted))  # type: ignore[misc]
            await gateway.kill()
            ids = ids_in_journal(data)
            assert len(ids) == len(set(ids)), "twice"
            await gateway.start()
        await sending
        await gateway.at_rest()
        first: list[int] = []
        for number in numbers_in(receipt.body for receipt in consumer.received):
            if number not in first:
                first.append(number)
        assert first == list(range(1, wanted + 1)), "lost, or out of order"


@pytest.mark.slow
async def test_kill_6_times(tmp_path: Path) -> None:
    await kill_often(tmp_path / "data", 6, seed=1)


@pytest.mark.release
async def test_kill_500_times(tmp_path: Path) -> None:
    await kill_often(tmp_path / "data", 500, seed=2)


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.parametrize("published", [True, False])
async def test_killed_between_publishing_and_noting_it(tmp_path: Path, published: bool) -> None:
    """The last message is in the buffer still, leased; whether it was published is what the
    messaging system knows."""
    data = tmp_path / "data"
    async with consumers() as some, gateway_process(data, ENVIRONMENT) as gateway:
        consumer = some.add()
        await gateway.subscribe(consumer.url)
        pump = Pump(None)  # type: ignore[arg-type]
        pump.aim_at(gateway)
        await pump.begin()
        await pump.send_all(lambda: 2)
        await gateway.at_rest()
        await gateway.kill()
        with sqlite3.connect(data / "store.db") as store:
            before = _buffer(store)
        await gateway.start()
        await pump.send_all(lambda: 3)
        await gateway.at_rest()
        await gateway.kill()
        _put_back(data, before, forgotten=not published)
        await gateway.start()
        await pump.send_all(lambda: 4)
        await gateway.at_rest()
        numbers = numbers_in(receipt.body for receipt in consumer.received)
        assert numbers == ([1, 2, 3, 4] if published else [1, 2, 3, 3, 4])


@pytest.mark.slow
async def test_killed_while_the_end_is_refused(tmp_path: Path) -> None:
    """What the messaging system does not take is neither said to be lost nor published twice."""
    data = tmp_path / "data"
    async with consumers() as some, gateway_process(data, ENVIRONMENT) as gateway:
        consumer = some.add()
        await gateway.subscribe(consumer.url)
        pump = Pump(None)  # type: ignore[arg-type]
        pump.aim_at(gateway)
        await pump.begin()
        await pump.send_all(lambda: 1)
        with outage(f"sqlite:///{data / 'journal.db'}"):
            for number in (2, 3):
                await pump.send_one(number)
            assert pump.acknowledged == upto(1)
            said = await pump.end(3)
            assert said.fault is not None
            assert said.acknowledgements == ()
            await gateway.kill()
        await gateway.start()
        said = await pump.end(3)  # It publishes what it can, before.
        assert isinstance(said.body, TerminateSequenceResponse)
        [told] = said.acknowledgements
        assert (told.ranges, told.final) == (upto(3), True)
        await gateway.at_rest()
        numbers = numbers_in(receipt.body for receipt in consumer.received)
        assert sorted(set(numbers)) == [1, 2, 3]
        ids = ids_in_journal(data)
        assert len(ids) == len(set(ids))


def _buffer(store: sqlite3.Connection) -> tuple[object, ...]:
    row = store.execute("SELECT delivered, state FROM dragoman_rm_invoker").fetchone()
    return tuple(row)


def _put_back(data: Path, before: tuple[object, ...], *, forgotten: bool) -> None:
    """Make the store as it was before message 3 was noted as published; with *forgotten*, make
    the journal forget that it ever had it: then it is published once more."""
    with sqlite3.connect(data / "store.db") as store:
        [identifier] = store.execute("SELECT identifier FROM dragoman_rm_invoker").fetchone()
        [notification] = named([_event()], identifier, 3)
        store.execute(
            "UPDATE dragoman_rm_invoker SET delivered = 2, count = 1, state = '100', "
            "leased_until = 9e12, due_at = 9e12"
        )
        store.execute(
            "INSERT INTO dragoman_rm_invoker_messages (sequence, number, envelope, content_type) "
            "VALUES (?, 3, ?, ?)",
            (identifier, write_content([notification]), MEDIA_TYPE),
        )
    assert before == (2, "000")
    if forgotten:
        with sqlite3.connect(data / "journal.db") as journal:
            journal.execute("DELETE FROM used")
            journal.execute("DELETE FROM generation")


def _event() -> Notification:
    payload = b'<e:event xmlns:e="urn:example">3</e:event>'
    return Notification("", f"{PUBLISHER}127.0.0.1", payload, datetime.now(UTC))
