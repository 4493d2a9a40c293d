"""Whatever a function or a database raises, an inbox and a saga go on, or say that they do not."""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest
from sqlalchemy import Engine
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.orm import Session

from gateway.client.outbox import Backoff, Inbox, Message, Outbox
from gateway.client.outbox import inbox as inboxes
from gateway.client.outbox.databases import AnyDatabase, EngineDatabase
from gateway.client.outbox.saga import Saga, SagaRun
from gateway.client.outbox.transactions import Transaction
from tests.rigs.outbox import engine_of
from tests.rigs.waiting import until, wait_until

SOON = Backoff(0.01, 0.05)
STRUCTURED = [(b"content-type", b"application/cloudevents+json")]


@pytest.fixture
def lite(tmp_path: Path) -> Iterator[Engine]:
    with engine_of("sqlite", tmp_path) as found:
        yield found


def event(number: int) -> bytes:
    return (
        b'{"specversion":"1.0","id":"%d","source":"/s","type":"t","topic":"orders","data":%d}'
        % (number, number)
    )


def cancelled() -> None:
    raise asyncio.CancelledError


# In the program's own event loop SystemExit ends the program, as from any of its tasks.
@pytest.mark.parametrize(
    ("kind", "leave"),
    [
        ("plain", cancelled),
        ("plain", sys.exit),
        ("coroutine", cancelled),
        ("asynchronous engine", cancelled),
    ],
)
async def test_a_function_that_exits_fails_alone(
    kind: str, leave: Callable[[], object], lite: Engine
) -> None:
    given: list[int] = []

    def take(message: Message) -> None:
        given.append(message.json())
        if len(given) == 1:
            leave()

    async def take_later(message: Message) -> None:
        take(message)

    async with chosen(lite, asynchronous=kind == "asynchronous engine") as engine:
        inbox = Inbox(engine)
        inbox.on("orders", backoff=SOON)(take if kind == "plain" else take_later)
        async with inbox:
            for number in (1, 2):
                assert (await inbox.receive(STRUCTURED, event(number))).status == 204
                await until(lambda: given.count(1) == 2)
            await until(lambda: given == [1, 1, 2])


@pytest.mark.parametrize(
    ("asynchronous", "leave"), [(False, cancelled), (False, sys.exit), (True, cancelled)]
)
async def test_a_step_that_exits_fails_alone(
    asynchronous: bool, leave: Callable[[], object], lite: Engine
) -> None:
    taken: list[str] = []

    def book(run: SagaRun) -> None:
        taken.append(run.id)
        if len(taken) == 1:
            leave()

    async def book_later(run: SagaRun) -> None:
        book(run)

    def begin(trip: Saga, id: str) -> None:
        with Session(lite) as session, session.begin():
            trip.begin({}, session, id=id)

    async with chosen(lite, asynchronous=asynchronous) as engine:
        trip = Saga(engine, "trip", backoff=SOON)
        trip.step(book_later if asynchronous else book)
        async with trip:
            for id in ("a", "b"):
                await asyncio.to_thread(begin, trip, id)
                await until(lambda: taken.count("a") == 2)
            await until(lambda: taken == ["a", "a", "b"])


@asynccontextmanager
async def chosen(engine: Engine, *, asynchronous: bool) -> AsyncIterator[Engine | AsyncEngine]:
    """The engine, or an asynchronous one of the same database."""
    if not asynchronous:
        yield engine
        return
    other = create_async_engine(f"sqlite+aiosqlite:///{engine.url.database}")
    try:
        yield other
    finally:
        await other.dispose()


class Away(EngineDatabase):
    """Raises what drivers of asyncio do while their server is away, for what an inbox forgets."""

    refused = 0

    async def run(self, work: Callable[[Transaction], Any]) -> Any:
        if getattr(work, "__name__", "") == "_forget_some":
            self.refused += 1
            raise ConnectionRefusedError("Connect call failed")
        return await super().run(work)


def test_an_inbox_whose_database_was_away_goes_on(
    lite: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inboxes, "FORGETTING", 0.01)
    database, given = Away(lite), []
    inbox = Inbox(cast(AnyDatabase, database))
    inbox.on("orders")(lambda message: given.append(message.json()))
    with inbox:
        wait_until(lambda: database.refused > 2)
        assert inbox.receive_now(STRUCTURED, event(1)).status == 204
        wait_until(lambda: given == [1])


class Broken(Inbox):
    """Has a piece of work that fails, as none should."""

    async def _begin(self) -> list[Coroutine[Any, Any, None]]:
        return [*await super()._begin(), self._fail()]

    async def _fail(self) -> None:
        raise RuntimeError("broken")


def test_an_inbox_that_delivers_no_more_takes_nothing(
    lite: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    inbox = Broken(lite)
    inbox.on("orders")(lambda _: None)
    with inbox:
        wait_until(lambda: inbox.has_failed)
        assert inbox.receive_now(STRUCTURED, event(1)).status == 503
    assert "it has stopped" in caplog.text


async def test_a_server_is_told_that_the_inbox_cannot_start(tmp_path: Path) -> None:
    inbox = Inbox(f"sqlite:///{tmp_path}/no/folder.db")
    said: list[dict[str, Any]] = []
    incoming = iter([{"type": "lifespan.startup"}])

    async def receive() -> dict[str, Any]:
        return next(incoming)

    async def send(message: dict[str, Any]) -> None:
        said.append(message)

    await inbox({"type": "lifespan"}, receive, send)
    [failed] = said
    assert failed["type"] == "lifespan.startup.failed"
    assert "unable to open database file" in failed["message"]


async def test_what_cannot_be_stored_is_asked_for_again(tmp_path: Path) -> None:
    inbox = Inbox(f"sqlite:///{tmp_path}/no/folder.db")
    inbox.on("orders")(lambda _: None)
    assert (await inbox.receive(STRUCTURED, event(1))).status == 503
    assert inbox.receive_now(STRUCTURED, event(1)).status == 503


def test_an_outbox_may_be_closed_twice(lite: Engine) -> None:
    with Outbox(lite, "http://127.0.0.1:9/") as outbox:
        outbox.close()
