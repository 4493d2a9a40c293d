"""A gateway in which something stands on every page of the console."""

import json
import sqlite3
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from tests.rigs.consumers import Consumers, status
from tests.rigs.envelopes import FULL, Speaker, topic_expression
from tests.rigs.gateways import Running, running
from tests.rigs.json_mailboxes import Box
from tests.rigs.reliable_publishers import ReliablePublisher
from tests.rigs.waiting import until

AWAY = "http://127.0.0.1:9/consumer"
"""A consumer that is not there."""
REASON = b"The schema of this event is not known here."
STORM = '<storm xmlns="urn:weather"><region>coast</region><severity>7</severity></storm>'
SPEAKER = Speaker()
ROWS = 10_000


@asynccontextmanager
async def sample_gateway(folder: Path) -> AsyncIterator[Running]:
    """A gateway with consumers that accept, that refuse and that are away, and one of all else."""
    async with (
        Consumers() as consumers,
        running(folder, wsrm="offered", console_messages=20) as run,
    ):
        good, bad = consumers.add(), consumers.add(status(400, REASON))
        topic = topic_expression("storms//.", FULL)
        await run.subscribe(SPEAKER, SPEAKER.wsn_subscribe(good.url, filter=topic))
        for url in (good.url, bad.url, AWAY, AWAY):
            await run.subscribe(SPEAKER, SPEAKER.wse_subscribe(url))
        await Box.make(run, xpath="//storm")
        publisher = ReliablePublisher(run)
        await publisher.create()
        await publisher.send(1)
        for path, asked in OTHERS.items():
            await post(run, path, asked)
        for number in range(3):
            await run.publish(
                STORM, path="/soap/topic/storms/coast", message_id=f"urn:example:storm:{number}"
            )
        await good.have(7)
        await bad.have(4)
        for table, field, count in (("destinations", None, 1), ("deadletters", "dead_letters", 4)):
            await until(_has(run, table, field, count))
        yield run


OTHERS: Mapping[str, object] = {
    "/sources": {"url": "http://127.0.0.1:9/producer", "topic": "storms"},
    "/channels": {"name": "lab", "xpath": "//storm"},
    "/links": {"url": "http://127.0.0.1:9/soap", "channel": "lab"},
    "/relays": {"location": "http://127.0.0.1:9/service"},
}


async def post(run: Running, path: str, asked: object) -> Any:
    """Ask the administration for something new."""
    answer = await run.api("POST", path, json.dumps(asked).encode())
    assert answer.status < 300, (path, answer.body)
    return json.loads(answer.body)


async def rows_of(run: Running, table: str, field: str | None = None) -> list[Any]:
    """Rows of a list of the administration."""
    found: list[Any] = json.loads((await run.api("GET", f"/{table}")).body)[field or table]
    return found


def _has(run: Running, table: str, field: str | None, count: int) -> Callable[[], Awaitable[bool]]:
    async def holds() -> bool:
        return len(await rows_of(run, table, field)) >= count

    return holds


def multiply(folder: Path, rows: int = ROWS) -> None:
    """Have each of the tables of subscriptions and dead letters of a gateway that is stopped *rows*
    rows, copies of the first."""
    with _database(folder) as database:
        _copy(database, "subscriptions", ("key", "id"), rows)
        _copy(database, "dead_letters", ("number", "subscription"), rows)
        database.execute("UPDATE totals SET matched = ?, dead = ?", (rows, rows))
        database.execute("UPDATE dead_letter_totals SET buried = ?", (rows,))


@contextmanager
def _database(folder: Path) -> Iterator[sqlite3.Connection]:
    database = sqlite3.connect(folder / "store.db")
    try:
        with database:
            yield database
    finally:
        database.close()


def _copy(database: sqlite3.Connection, table: str, own: tuple[str, ...], rows: int) -> None:
    found = database.execute(f"SELECT * FROM {table} LIMIT 1")  # noqa: S608
    names = [column[0] for column in found.description]
    first = dict(zip(names, found.fetchone(), strict=True))
    [[count]] = database.execute(f"SELECT count(*) FROM {table}")  # noqa: S608
    marks = ", ".join("?" * len(names))
    database.executemany(
        f"INSERT INTO {table} VALUES ({marks})",  # noqa: S608
        (_row(first, own, number) for number in range(rows - count)),
    )


def _row(first: Mapping[str, Any], own: tuple[str, ...], number: int) -> list[Any]:
    fresh = {name: number + 1000 if name == "number" else uuid.uuid4().hex for name in own}
    return [*{**first, **fresh}.values()]
