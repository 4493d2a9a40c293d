"""What is sent, by whom, and what is still sent when a program ends."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from sqlalchemy import Engine, insert, select, update
from sqlalchemy.orm import Session

from gateway.client.outbox import Inbox, Message, Outbox
from gateway.client.outbox.databases import AnyDatabase, EngineDatabase
from gateway.client.outbox.tables import outbox as rows
from gateway.client.outbox.tables import states
from gateway.client.outbox.transactions import Transaction
from gateway.reliability.storage import StorageUnavailable
from tests.rigs.consumers import Connection, Receipt, consumers
from tests.rigs.outbox import count, engine_of, taken
from tests.rigs.ports import free_ports
from tests.rigs.waiting import DEADLINE, until


@pytest.fixture
def lite(tmp_path: Path) -> Iterator[Engine]:
    with engine_of("sqlite", tmp_path) as found:
        Outbox(found, "http://127.0.0.1:9/").create_tables()
        yield found


@pytest.fixture
def url(lite: Engine) -> Iterator[str]:
    """Where an inbox in the same database takes orders."""
    inbox = Inbox(lite)

    @inbox.on("orders")
    def take(message: Message) -> None:
        message.session.execute(insert(taken).values(item=str(message.json())))

    (port,) = free_ports(1)
    inbox.listen(port)
    with inbox:
        yield f"http://127.0.0.1:{port}/inbox"


def publish(outbox: Outbox, engine: Engine, *payloads: Any) -> None:
    with Session(engine) as session, session.begin():
        for payload in payloads:
            outbox.publish("orders", payload, session)


class Looked(EngineDatabase):
    """Calls back between the end of a look for messages and the moment when the one who looked is
    told what there is: the first time, or each time that it is told to."""

    after_look: Callable[[], object] | None = None

    async def run(self, work: Callable[[Transaction], Any]) -> Any:
        found = await super().run(work)
        after_look, self.after_look = self.after_look, None
        if after_look is not None:
            after_look()
        return found


@pytest.mark.parametrize("failure", [None, StorageUnavailable("it is locked"), ValueError()])
def test_what_was_committed_before_the_end_is_sent(
    failure: Exception | None, lite: Engine, url: str
) -> None:
    database = Looked(lite)
    outbox = Outbox(cast(AnyDatabase, database), url)
    told = threading.Event()

    def publish_and_end() -> None:
        publish(outbox, lite, 1)
        outbox._end()
        told.set()
        if failure is not None:
            raise failure

    with outbox:
        database.after_look = publish_and_end
        assert told.wait(DEADLINE)
        outbox.close()
        assert outbox.waiting() == 0


def test_a_program_that_is_run_again_at_once_sends_at_once(lite: Engine, url: str) -> None:
    for number in range(3):
        with Outbox(lite, url) as outbox:
            publish(outbox, lite, number)
        assert outbox.waiting() == 0
    with lite.connect() as connection:
        leads = select(states.c.until).where(states.c.name.like("sends to %"))
        assert connection.execute(leads).scalars().all() == [0.0]


def leads(engine: Engine, url: str, seconds: float) -> None:
    """Have another process send there for so long from now."""
    row = {"value": "another", "until": time.time() + seconds}
    with engine.begin() as connection:
        same = states.c.name == f"sends to {url}"
        if not connection.execute(update(states).where(same).values(row)).rowcount:
            connection.execute(insert(states).values(name=f"sends to {url}", **row))


def test_what_one_that_was_killed_left_is_sent_when_its_lease_is_over(
    lite: Engine, url: str
) -> None:
    over = time.time() + 1.5
    leads(lite, url, 1.5)
    with Outbox(lite, url) as outbox:
        publish(outbox, lite, 1)
    assert outbox.waiting() == 0
    assert time.time() >= over


def test_what_one_that_is_alive_sends_is_left_to_it(lite: Engine, url: str) -> None:
    leads(lite, url, 600.0)
    database = Looked(lite)

    def extend() -> None:
        leads(lite, url, 600.0)
        database.after_look = extend

    database.after_look = extend
    with Outbox(cast(AnyDatabase, database), url) as outbox:
        publish(outbox, lite, 1)
    assert outbox.waiting() == 1


@pytest.mark.parametrize("dead", ["refused", "expired"])
async def test_what_waits_behind_dead_messages_is_sent_at_the_end(
    dead: str, lite: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.client.outbox.relay.MOST", 2)

    def behave(connection: Connection, receipt: Receipt) -> None:
        connection.answer(413 if b"refused" in receipt.body else 202)

    async with consumers() as sinks:
        sink = sinks.add(behave)
        outbox = Outbox(lite, sink.url)
        with Session(lite) as session, session.begin():
            for _ in range(5):
                outbox.publish("orders", [dead], session, expires=None if dead == "refused" else 0)
            outbox.publish("orders", ["last"], session)
        await asyncio.to_thread(outbox.start)
        await asyncio.to_thread(outbox.close)
        assert outbox.waiting() == 0
        assert b"last" in sink.received[-1].body


async def test_a_message_that_is_not_taken_alone_either_is_sent_again_after_a_pause(
    lite: Engine,
) -> None:
    """Where a batch is refused for good, and a message of it for now."""

    def behave(connection: Connection, receipt: Receipt) -> None:
        connection.answer(413 if receipt.body.count(b'"specversion"') > 1 else 503)

    async with consumers() as sinks:
        sink = sinks.add(behave)
        outbox = Outbox(lite, sink.url)
        publish(outbox, lite, 1, 2)
        await asyncio.to_thread(outbox.start)
        await until(lambda: sink.count >= 4)
        await asyncio.sleep(1.0)
        await asyncio.to_thread(outbox.close)
        assert sink.count < 30, "a pause of a quarter of a second, then longer ones"
    assert count(lite, rows) == 2
