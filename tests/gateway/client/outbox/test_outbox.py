"""Messages are stored in the transaction of the program, whatever began it, or not at all."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import transaction
from hypothesis import example, given
from hypothesis import strategies as st
from lxml import etree
from pydantic import BaseModel
from sqlalchemy import Engine, create_engine, delete, event, insert, select
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, create_async_engine
from sqlalchemy.orm import Session, SessionTransaction

from gateway.client.errors import GatewayError
from gateway.client.outbox import Outbox
from gateway.client.outbox.tables import outbox as rows
from tests.rigs.outbox import ASYNC, SYNC, count, database, engine_of, items, sold

NOWHERE = "http://127.0.0.1:9/events"


@pytest.fixture(params=SYNC)
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    with engine_of(request.param, tmp_path) as found:
        Outbox(found, NOWHERE).create_tables()
        yield found


@pytest.fixture
def lite(tmp_path: Path) -> Iterator[Engine]:
    with engine_of("sqlite", tmp_path) as found:
        Outbox(found, NOWHERE).create_tables()
        yield found


def stored(engine: Engine) -> list[tuple[str, bytes]]:
    with engine.connect() as connection:
        found = connection.execute(select(rows.c.id, rows.c.body).order_by(rows.c.position))
        return [(str(id), bytes(body)) for id, body in found]


def test_a_session_commits_its_messages_or_none(engine: Engine) -> None:
    outbox = Outbox(engine, NOWHERE)
    with Session(engine) as session, session.begin():
        session.execute(insert(sold).values(item="tea"))
        outbox.publish("orders", {"n": 1}, session, id="1")
    with Session(engine) as session:
        session.execute(insert(sold).values(item="lost"))
        outbox.publish("orders", {"n": 2}, session, id="2")
        session.rollback()
        outbox.publish("orders", {"n": 3}, session, id="3")
        session.commit()
        outbox.publish("orders", {"n": 4}, session, id="4")
    with pytest.raises(RuntimeError), Session(engine) as session, session.begin():
        outbox.publish("orders", {"n": 5}, session, id="5")
        raise RuntimeError
    assert [id for id, _ in stored(engine)] == ["1", "3"]
    assert items(engine, sold) == ["tea"]


def test_a_savepoint_takes_its_messages_with_it(engine: Engine) -> None:
    outbox = Outbox(engine, NOWHERE)
    with Session(engine) as session, session.begin():
        outbox.publish("orders", 0, session, id="before")
        undone = session.begin_nested()
        outbox.publish("orders", 1, session, id="undone")
        undone.rollback()
        with session.begin_nested():
            outbox.publish("orders", 2, session, id="kept")
    assert {id for id, _ in stored(engine)} == {"before", "kept"}


class Savepoints:
    """A transaction with savepoints within each other, each of whose sales has a message."""

    def __init__(self, session: Session, outbox: Outbox) -> None:
        self._session, self._outbox = session, outbox
        self._root = session.begin()
        self._open: list[SessionTransaction] = []
        self._sales = 0

    def sell(self) -> None:
        self._sales += 1
        self._session.execute(insert(sold).values(item=str(self._sales)))
        self._outbox.publish("orders", self._sales, self._session, id=str(self._sales))

    def save(self) -> None:
        self._open.append(self._session.begin_nested())

    def commit(self) -> None:
        self._pop(-1).commit()

    def roll_back(self) -> None:
        self._pop(-1).rollback()

    def commit_around(self) -> None:
        self._pop(-2).commit()

    def roll_back_around(self) -> None:
        self._pop(-2).rollback()

    def _pop(self, at: int) -> SessionTransaction:
        """The innermost (-1), or the one around that; what is within it ends with it."""
        ended = [self._root, self._root, *self._open][at]
        del self._open[at:]
        return ended


STEPS = (
    *(Savepoints.sell, Savepoints.save, Savepoints.commit, Savepoints.roll_back),
    *(Savepoints.commit_around, Savepoints.roll_back_around),
)


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """An engine whose driver begins no transactions by itself: it would not roll back savepoints."""
    with engine_of("sqlite", tmp_path_factory.mktemp("begun")) as usual:
        Outbox(usual, NOWHERE).create_tables()
        engine = create_engine(usual.url)
        event.listen(engine, "connect", lambda driver, _: setattr(driver, "isolation_level", None))
        event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN"))
        yield engine
        engine.dispose()


@given(st.lists(st.sampled_from(STEPS), max_size=12), st.booleans())
@example([STEPS[at] for at in (0, 1, 1, 2, 3)], True)
@example([STEPS[at] for at in (0, 1, 0, 4)], False)
def test_what_is_committed_has_its_messages_and_what_is_rolled_back_none(
    begun: Engine, steps: list[Callable[[Savepoints], None]], commits: bool
) -> None:
    for table in (sold, rows):
        with begun.begin() as connection:
            connection.execute(delete(table))
    with Session(begun) as session:
        transaction = Savepoints(session, Outbox(begun, NOWHERE))
        for step in steps:
            if session.in_transaction():
                step(transaction)
        if commits:
            session.commit()
    assert [id for id, _ in stored(begun)] == items(begun, sold)


def test_a_connection_commits_its_messages_or_none(engine: Engine) -> None:
    outbox = Outbox(engine, NOWHERE)
    with engine.begin() as connection:
        outbox.publish("orders", 1, connection, id="1")
    with engine.connect() as connection:
        outbox.publish("orders", 2, connection, id="2")
    assert [id for id, _ in stored(engine)] == ["1"]


def test_an_id_is_published_once_also_beside_others(engine: Engine) -> None:
    outbox = Outbox(engine, NOWHERE)
    for ids in (("a", "A", "a "), ("a", "b")):
        with Session(engine) as session, session.begin():
            for id in ids:
                outbox.publish("orders", 1, session, id=id)
    assert sorted(id for id, _ in stored(engine)) == ["A", "a", "a ", "b"]


@pytest.mark.parametrize("kind", ASYNC)
async def test_an_asynchronous_session_commits_its_messages_or_none(
    kind: str, tmp_path: Path
) -> None:
    with database(kind, tmp_path) as url:
        async with opened(url) as engine, Outbox(engine, NOWHERE) as outbox:
            async with AsyncSession(engine) as session, session.begin():
                await session.execute(insert(sold).values(item="tea"))
                outbox.publish("orders", {"n": 1}, session, id="1")
            async with AsyncSession(engine) as session:
                outbox.publish("orders", {"n": 2}, session, id="2")
                await session.rollback()
            async with engine.begin() as connection:
                await connection.run_sync(
                    lambda its: outbox.publish("orders", {"n": 3}, its, id="3")
                )
                found = await connection.execute(select(rows.c.id).order_by(rows.c.position))
                assert list(found.scalars()) == ["1", "3"]


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[AsyncEngine]:
    engine = create_async_engine(url)
    try:
        yield engine
    finally:
        await engine.dispose()


def test_the_package_transaction_commits_messages_or_none(lite: Engine) -> None:
    outbox = Outbox(lite, NOWHERE)
    manager = transaction.TransactionManager()
    with manager:
        outbox.publish("orders", 1, manager, id="1")
        outbox.publish("orders", 2, manager, id="2")
    manager.begin()
    outbox.publish("orders", 3, manager, id="3")
    manager.abort()
    assert [id for id, _ in stored(lite)] == ["1", "2"]


def test_what_has_no_transaction_is_refused(lite: Engine) -> None:
    outbox = Outbox(lite, NOWHERE)
    for session in (None, lite, "session"):
        with pytest.raises(TypeError, match="within a transaction"):
            outbox.publish("orders", 1, session)


@dataclass
class Order:
    item: str
    at: datetime


class Model(BaseModel):
    item: str


AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
BODIES: list[tuple[Any, str, bytes, str]] = [
    ({"a": [1, "ä"]}, "", '{"a":[1,"ä"]}'.encode(), "application/json"),
    (Order("tea", AT), "", b'{"item":"tea","at":"2026-01-02T03:04:05+00:00"}', "application/json"),
    (Model(item="tea"), "", b'{"item":"tea"}', "application/json"),
    ([Model(item="tea")], "", b'[{"item":"tea"}]', "application/json"),
    ("<order>tea</order>", "", b"<order>tea</order>", "application/xml"),
    (b"<order/>", "", b"<order/>", "application/xml"),
    (etree.fromstring("<order/>"), "", b"<order/>", "application/xml"),
    ("tea", "", b"tea", "text/plain;charset=utf-8"),
    (b"\0\1", "image/png", b"\0\1", "image/png"),
    ("a;b", "text/csv", b"a;b", "text/csv"),
    (None, "", b"null", "application/json"),
]


@pytest.mark.parametrize(("payload", "said", "body", "content_type"), BODIES)
def test_a_body_is_json_xml_text_or_bytes(
    payload: Any, said: str, body: bytes, content_type: str, lite: Engine
) -> None:
    row = Outbox(lite, NOWHERE).row("orders", payload, content_type=said)
    assert (row["body"], row["content_type"]) == (body, content_type)
    assert json.loads(row["attributes"])["datacontenttype"] == content_type


REFUSED: list[tuple[Callable[[Outbox], object], type[Exception]]] = [
    (lambda to: to.row("", 1), ValueError),
    (lambda to: to.row("x" * 256, 1), ValueError),
    (lambda to: to.row("a\nb", 1), ValueError),
    (lambda to: to.row("orders", 1, key="x" * 256), ValueError),
    (lambda to: to.row("orders", b"\0"), ValueError),
    (lambda to: to.row("orders", "<open>"), ValueError),
    (lambda to: to.row("orders", object()), TypeError),
    (lambda to: to.row("orders", 1, attributes={"Upper": "x"}), ValueError),
    (lambda to: to.row("orders", 1, attributes={"a": "x" * 9000}), ValueError),
    (lambda to: to.row("orders", 1, expires=datetime(2026, 1, 1)), ValueError),  # noqa: DTZ001
    (lambda to: to.row("orders", 1, priority=10), ValueError),
    (lambda to: to.row("orders", 1, priority=-1), ValueError),
    (lambda to: to.request("orders", 1, on_reply="x"), ValueError),
    (lambda to: Outbox("sqlite:///x.db", "ftp://host"), GatewayError),
]


@pytest.mark.parametrize(("call", "error"), REFUSED)
def test_what_cannot_be_sent_is_refused_and_nothing_stored(
    call: Callable[[Outbox], object], error: type[Exception], lite: Engine
) -> None:
    outbox = Outbox(lite, NOWHERE)
    with pytest.raises(error):
        call(outbox)
    assert count(lite, rows) == 0


def test_attributes_are_those_of_cloudevents(lite: Engine) -> None:
    outbox = Outbox(lite, NOWHERE)
    row = outbox.row(
        "orders/new", 1, id="7", key="tea", type="com.example.order", expires=timedelta(hours=1),
        attributes={"subject": "tea", "n": 3}, delay=5, priority=7,
    )  # fmt: skip
    found = json.loads(row["attributes"])
    assert found.pop("time") < found.pop("expirytime")
    assert found == {
        "specversion": "1.0", "id": "7", "type": "com.example.order",
        "topic": "orders/new", "partitionkey": "tea", "subject": "tea", "n": 3, "priority": 7,
        "datacontenttype": "application/json",
    }  # fmt: skip
    assert row["due_at"] == pytest.approx(row["created_at"] + 5)


def test_an_asynchronous_engine_is_for_an_event_loop(tmp_path: Path) -> None:
    engine = create_async_engine(f"sqlite+aiosqlite:///{tmp_path}/a.db")
    with pytest.raises(TypeError, match="async with"):
        Outbox(engine, NOWHERE).start()
    asyncio.run(engine.dispose())
