"""Messages are given to functions once, in order by key, in the transaction that takes them."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pymysql
import pytest
from sqlalchemy import Engine, create_engine, select
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.orm import Session

from gateway.client.outbox import Backoff, Dead, Fault, Inbox, Message, Outbox
from gateway.client.outbox.tables import DEAD, DONE
from gateway.client.outbox.tables import inbox as rows
from tests.rigs.outbox import ASYNC, SYNC, count, database, engine_of, items, taken
from tests.rigs.ports import free_ports
from tests.rigs.waiting import until, wait_until

SOON = Backoff(0.01, 0.05)


@pytest.fixture(params=SYNC)
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    with engine_of(request.param, tmp_path) as found:
        yield found


@pytest.fixture
def lite(tmp_path: Path) -> Iterator[Engine]:
    with engine_of("sqlite", tmp_path) as found:
        yield found


def listening(inbox: Inbox) -> str:
    (port,) = free_ports(1)
    inbox.listen(port)
    return f"http://127.0.0.1:{port}/inbox"


def publish(outbox: Outbox, engine: Engine, *numbers: int, key: str = "") -> None:
    with Session(engine) as session, session.begin():
        for number in numbers:
            outbox.publish("orders", {"n": number}, session, id=f"{key}{number}", key=key)


def states(engine: Engine) -> dict[str, tuple[str, str | None]]:
    with engine.connect() as connection:
        found = connection.execute(select(rows.c.id, rows.c.state, rows.c.error))
        return {str(id): (str(state), error) for id, state, error in found}


def ended(engine: Engine, count: int) -> bool:
    return sum(state in (DONE, DEAD) for state, _ in states(engine).values()) == count


def take(message: Message) -> None:
    message.session.execute(taken.insert().values(item=str(message.json()["n"])))


def test_messages_come_once_and_in_order_by_key(engine: Engine) -> None:
    inbox = Inbox(engine)
    inbox.on("orders")(take)
    url = listening(inbox)
    with inbox, Outbox(engine, url) as outbox:
        for number in range(0, 100, 5):
            publish(outbox, engine, *range(number, number + 5), key=str(number % 3))
        wait_until(lambda: count(engine, taken) == 100)
        assert outbox.drain(30)
    got = [int(item) for item in items(engine)]
    assert sorted(got) == list(range(100))
    for key in range(3):
        assert [each for each in got if each // 5 * 5 % 3 == key] == [
            each for each in range(100) if each // 5 * 5 % 3 == key
        ]


def test_what_a_function_changed_is_undone_where_it_fails_and_others_go_on(engine: Engine) -> None:
    inbox = Inbox(engine)
    attempts: list[int] = []

    @inbox.on("orders", retries=3, backoff=SOON)
    def fail_twice(message: Message) -> None:
        take(message)
        if message.json()["n"] == 1:
            attempts.append(message.attempt)
            if message.attempt < 3:
                raise RuntimeError("not yet")

    url = listening(inbox)
    with inbox, Outbox(engine, url) as outbox:
        publish(outbox, engine, 1, 2, key="a")
        publish(outbox, engine, 3, 4, key="b")
        wait_until(lambda: ended(engine, 4))
    got = items(engine)
    assert attempts == [1, 2, 3]
    assert sorted(got) == ["1", "2", "3", "4"]
    assert got.index("1") < got.index("2")
    assert got.index("3") < got.index("4")


def test_a_dead_letter_stays_with_its_reason_and_the_next_goes_on(engine: Engine) -> None:
    inbox = Inbox(engine)

    @inbox.on("orders", retries=1, backoff=SOON)
    def refuse(message: Message) -> None:
        take(message)
        if message.json()["n"] == 1:
            raise RuntimeError("no tea")
        if message.json()["n"] == 2:
            raise Dead("never")

    url = listening(inbox)
    with inbox, Outbox(engine, url) as outbox:
        publish(outbox, engine, 1, 2, 3)
        wait_until(lambda: ended(engine, 3))
    assert items(engine) == ["3"]
    assert states(engine) == {
        "1": (DEAD, "RuntimeError: no tea"), "2": (DEAD, "never"), "3": (DONE, None)
    }  # fmt: skip


def test_a_function_whose_commit_fails_is_a_failure_of_its_message(tmp_path: Path) -> None:
    with engine_of("postgresql", tmp_path) as engine:
        with engine.begin() as connection:
            connection.exec_driver_sql(
                "ALTER TABLE taken ADD CONSTRAINT once UNIQUE (item) DEFERRABLE INITIALLY DEFERRED"
            )
        inbox = Inbox(engine)

        @inbox.on("orders", retries=0)
        def twice(message: Message) -> None:
            take(message)
            if message.json()["n"] == 1:
                take(message)

        url = listening(inbox)
        with inbox, Outbox(engine, url) as outbox:
            publish(outbox, engine, 0, 1, 2)
            wait_until(lambda: ended(engine, 3))
        assert items(engine) == ["0", "2"]
        assert states(engine)["1"][0] == DEAD


def test_what_a_deadlock_undoes_is_not_noted_as_done(tmp_path: Path) -> None:
    with engine_of("mariadb", tmp_path) as engine:
        inbox = Inbox(engine)

        @inbox.on("orders", backoff=SOON)
        def deadlock(message: Message) -> None:
            take(message)
            if message.json()["n"] == 2 and message.attempt == 1:
                # As InnoDB does at a deadlock: all of the transaction is gone, and it goes on.
                message.connection.exec_driver_sql("ROLLBACK")
                raise pymysql.err.OperationalError(1213, "Deadlock found")

        url = listening(inbox)
        with inbox, Outbox(engine, url) as outbox:
            publish(outbox, engine, 0, 1, 2, 3)
            wait_until(lambda: ended(engine, 4))
        assert items(engine) == ["0", "1", "2", "3"]


@pytest.mark.parametrize("kind", ASYNC)
async def test_coroutine_functions_take_messages_in_an_asynchronous_session(
    kind: str, tmp_path: Path
) -> None:
    with database(kind, tmp_path) as url:
        engine = create_async_engine(url)
        inbox = Inbox(engine)

        @inbox.on("orders", retries=2, backoff=SOON)
        async def take_async(message: Message) -> None:
            await message.session.execute(taken.insert().values(item=str(message.json()["n"])))
            if message.attempt == 1:
                raise RuntimeError("not yet")

        looking = create_engine(url.replace("+aiosqlite", "").replace("+asyncpg", "+psycopg"))
        try:
            url = listening(inbox)
            async with inbox, Outbox(engine, url) as outbox:
                for number in range(5):
                    await asyncio.to_thread(publish, Outbox(looking, "x"), looking, number)
                outbox.wake()
                await until(lambda: ended(looking, 5))
        finally:
            looking.dispose()
            await engine.dispose()


def test_requests_are_answered_in_the_transaction_that_takes_them(engine: Engine) -> None:
    (port,) = free_ports(1)
    shop = Outbox(engine, f"http://127.0.0.1:{port}/inbox", reply_to="replies/shop")
    inbox = Inbox(engine, outbox=shop)
    inbox.listen(port)
    got: list[tuple[str, str, str]] = []

    @inbox.on("orders", faults=KeyError)
    def answer(message: Message) -> dict[str, int]:
        take(message)
        number = message.json()["n"]
        if number == 2:
            raise Fault("no tea")
        if number == 3:
            raise KeyError("no cup")
        return {"answer": number}

    @inbox.on_reply("confirmed")
    def confirmed(message: Message) -> None:
        got.append(("confirmed", message.relates_to, message.body.decode()))

    @inbox.on_reply("refused")
    def refused(message: Message) -> None:
        got.append(("refused", message.relates_to, message.fault))

    with inbox, shop:
        for number in (1, 2, 3):
            with Session(engine) as session, session.begin():
                shop.request(
                    "orders", {"n": number}, session, id=str(number), on_reply="confirmed",
                    on_fault="refused",
                )  # fmt: skip
        wait_until(lambda: len(got) == 3, says=lambda: (got, states(engine), failures(engine)))
    assert sorted(got) == [
        ("confirmed", "1", '{"answer":1}'), ("refused", "2", "no tea"), ("refused", "3", "'no cup'")
    ]  # fmt: skip
    assert items(engine) == ["1"]


async def test_what_is_no_message_is_refused_and_what_comes_again_is_known(lite: Engine) -> None:
    inbox = Inbox(lite)
    inbox.on("orders")(take)
    structured = [(b"content-type", b"application/cloudevents+json")]
    event = (
        b'{"specversion":"1.0","id":"1","source":"/s","type":"t","topic":"orders","data":{"n":1}}'
    )
    answers = [
        (await inbox.receive(structured, event)).status,
        (await inbox.receive(structured, event)).status,
        (await inbox.receive(structured, event.replace(b"orders", b"others"))).status,
        (await inbox.receive(structured, b"{")).status,
        (await inbox.receive([(b"content-type", b"text/plain")], b"tea")).status,
    ]
    assert answers[:4] == [204, 204, 404, 400]
    assert answers[4] >= 400
    assert count(lite, rows) == 1


def test_a_secret_keeps_strangers_out(lite: Engine) -> None:
    secret = "whsec_" + "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    inbox = Inbox(lite, secret=secret)
    inbox.on("orders")(take)
    url = listening(inbox)
    with inbox:
        with Outbox(lite, url) as stranger:
            publish(stranger, lite, 1)
            wait_until(lambda: "401" in failures(lite))
            assert count(lite, taken) == 0
        with Outbox(lite, url, secret=secret) as outbox:
            wait_until(lambda: count(lite, taken) == 1)
            assert outbox.drain(10)


def failures(engine: Engine) -> str:
    from gateway.client.outbox.tables import outbox

    with engine.connect() as connection:
        return " ".join(filter(None, connection.execute(select(outbox.c.error)).scalars()))
