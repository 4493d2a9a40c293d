"""Two programs of outbox and inbox, with databases of every kind."""

import contextlib
import random
import time
from collections.abc import Iterator
from pathlib import Path

from sqlalchemy import Column, Engine, Integer, MetaData, Table, Text, create_engine, func, select
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from gateway.client.outbox import Inbox, Message, Outbox
from gateway.client.outbox.tables import states
from gateway.databases import driver_url
from tests.rigs.mariadb import fresh_mariadb, needs_mariadb
from tests.rigs.postgresql import fresh_database, needs_postgresql
from tests.rigs.queued import Killed
from tests.rigs.waiting import wait_until

SECONDS = 120.0

SYNC = ("sqlite", "postgresql", "mariadb")
ASYNC = ("sqlite+aiosqlite", "postgresql+asyncpg", "postgresql+psycopg")

metadata = MetaData()
sold = Table("sold", metadata, Column("id", Integer, primary_key=True), Column("item", Text))
taken = Table("taken", metadata, Column("id", Integer, primary_key=True), Column("item", Text))
"""What the programs change; ids tell the order."""


@contextlib.contextmanager
def database(kind: str, folder: Path, name: str = "both") -> Iterator[str]:
    """The URL of an empty database with `sold` and `taken`; skips where its server is missing."""
    with contextlib.ExitStack() as stack:
        if kind.startswith("sqlite"):
            url = f"sqlite:///{folder}/{name}.db"
        elif kind == "mariadb":
            needs_mariadb()
            url = stack.enter_context(fresh_mariadb())
        else:
            needs_postgresql()
            url = driver_url(stack.enter_context(fresh_database()))
        engine = create_engine(url)
        metadata.create_all(engine)
        engine.dispose()
        yield url.replace(url.partition(":")[0], kind, 1) if "+" in kind else url


@contextlib.contextmanager
def engine_of(kind: str, folder: Path, name: str = "both") -> Iterator[Engine]:
    """An engine of such a database."""
    with database(kind, folder, name) as url:
        engine = create_engine(url)
        try:
            yield engine
        finally:
            engine.dispose()


def items(engine: Engine, table: Table = taken) -> list[str]:
    """What is in a table, in the order in which it was inserted."""
    with engine.connect() as connection:
        return list(connection.execute(select(table.c.item).order_by(table.c.id)).scalars())


def count(engine: Engine, table: Table) -> int:
    """How many rows a table has."""
    with engine.connect() as connection:
        return int(connection.execute(select(func.count()).select_from(table)).scalar_one())


def sell(url: str, to: str, source: str) -> None:
    """The process of a sender: it sells, and publishes each sale in the same transaction, until it
    is killed. Sales have numbers, and one of four keys."""
    engine = create_engine(url)
    with Outbox(engine, to, source=source) as outbox:
        number = count(engine, sold)
        while True:
            with Session(engine) as session, session.begin():
                session.execute(sold.insert().values(item=str(number)))
                outbox.publish("orders", {"n": number}, session, key=str(number % 4))
            number += 1
            time.sleep(0.002)


def forward(url: str, to: str, source: str) -> None:
    """The process of a sender that only sends what is there."""
    with Outbox(create_engine(url), to, source=source):
        time.sleep(600.0)


def take(url: str, port: int, gateway: str | None) -> None:
    """The process of a receiver, which inserts each sale into its own table."""
    address = f"http://127.0.0.1:{port}/inbox"
    inbox = Inbox(create_engine(url), gateway=gateway, address=address)

    @inbox.on("orders", backoff=0.05)
    def insert(message: Message) -> None:
        message.session.execute(taken.insert().values(item=str(message.json()["n"])))

    inbox.serve(port)


def kill_again_and_again(
    here: str, there: str, to: str, port: int, gateway: str | None, kills: int, seed: int
) -> int:
    """Kill sender and receiver in turn while messages are on their way; each must be taken once, and
    those of a key in their order.

    Args:
        here, there: The URLs of the databases of sender and receiver.
        to: Where the sender sends.
        port: Where the receiver listens.
        gateway: At which it subscribes.

    Returns:
        How many messages there were.
    """
    draw = random.Random(seed)
    ours, theirs = create_engine(here), create_engine(there)
    sender = Killed(sell, (here, to, "/shop"))
    receiver = Killed(take, (there, port, gateway))
    receiver.start()
    if gateway is not None:
        wait_until(lambda: subscribed(theirs))
    sender.start()
    for _ in range(kills):
        before = count(theirs, taken)
        wait_until(lambda before=before: count(theirs, taken) > before + 5, SECONDS)  # type: ignore[misc]
        time.sleep(draw.random() * 0.2)  # Not to show anything: the kill comes at any time.
        end = draw.choice((sender, receiver))
        end.kill()
        end.start()
    wait_until(lambda: count(theirs, taken) > before + 5, SECONDS)
    sender.kill()
    sender = Killed(forward, (here, to, "/shop"))
    sender.start()
    wait_for_all(ours, theirs)
    receiver.kill()
    sender.kill()
    check(items(ours, sold), items(theirs, taken))
    sold_count = count(ours, sold)
    ours.dispose()
    theirs.dispose()
    return sold_count


def wait_for_all(ours: Engine, theirs: Engine) -> None:
    """Wait until all that was sold is taken, however long that takes while it goes on."""
    due = count(ours, sold)
    while (there := count(theirs, taken)) < due:
        wait_until(
            lambda there=there: count(theirs, taken) > there,  # type: ignore[misc]
            SECONDS,
            says=lambda there=there: f"{there} of {due} were taken",  # type: ignore[misc]
        )


def check(sent: list[str], got: list[str]) -> None:
    """Check that each message was taken once, and those of a key in their order."""
    assert len(got) == len(set(got)), (
        f"twice: {sorted(each for each in got if got.count(each) > 1)}"
    )
    assert set(got) == set(sent), f"lost: {sorted(set(sent) - set(got))}"
    for key in range(4):
        numbers = [int(each) for each in got if int(each) % 4 == key]
        assert numbers == sorted(numbers), f"out of order: {numbers}"


def subscribed(engine: Engine) -> bool:
    """Return whether the inbox in this database has a subscription at a gateway."""
    with contextlib.suppress(DBAPIError), engine.connect() as connection:
        found = select(states.c.name).where(states.c.name.startswith("subscription"))
        return bool(connection.execute(found).all())
    return False
