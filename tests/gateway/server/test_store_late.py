"""A gateway whose store does not answer: every door does, `/readyz` tells, and a stop ends."""

import asyncio
import json
import sqlite3
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import pytest
from sqlalchemy import Connection, make_url

from tests.rigs.consumers import consumers, hang
from tests.rigs.disks import fill, small_disk
from tests.rigs.envelopes import S12, WSNT, Answer, Speaker
from tests.rigs.gateways import Running, running
from tests.rigs.postgresql import PostgreSQL, needs_postgresql, postgresql, postgresql_cluster
from tests.rigs.stores import execute
from tests.rigs.waiting import DEADLINE, until

WAITS = 0.5
ANONYMOUS = "http://127.0.0.1:18999/"
SPEAKER = Speaker(S12)


@asynccontextmanager
async def stalled(run: Running) -> AsyncIterator[None]:
    """Meanwhile the store's writer is within a commit that does not end."""
    go_on, begun = threading.Event(), threading.Event()

    def operation(_: Connection) -> None:
        begun.set()
        assert go_on.wait(DEADLINE)

    run.gateway.store.hurry(WAITS)
    stalling = run.gateway.store.submit(operation)
    await until(begun.is_set)
    try:
        yield
    finally:
        go_on.set()
        await stalling


async def all_routes(run: Running) -> list[tuple[str, str]]:
    """Every route of JSON without a body, with something in the place of its parameters."""
    described = json.loads((await run.request("GET", "/openapi.json")).body)
    return [
        (method.upper(), path.replace("{", "").replace("}", ""))
        for path, methods in described["paths"].items()
        for method, route in methods.items()
        if "requestBody" not in route and not path.endswith("/events")
    ]


async def test_every_door_answers(tmp_path: Path) -> None:
    """Whoever needs a store that stands still has 503 in time, whatever was asked, by any door."""
    async with running(tmp_path / "data", wsrm="offered") as run:
        manager = await run.subscribe(SPEAKER, SPEAKER.wsn_subscribe(ANONYMOUS))
        made = await run.request("POST", "/mailboxes", b"{}", content_type="application/json")
        box = json.loads(made.body)
        key = f"/mailboxes/{box['key']}"
        routes = await all_routes(run)
        soap = {
            "Subscribe": SPEAKER.wsn_subscribe(ANONYMOUS),
            "CreatePullPoint": f'<n:CreatePullPoint xmlns:n="{WSNT}"/>',
            "WSE Subscribe": SPEAKER.wse_subscribe(ANONYMOUS),
        }
        managed = {
            "Renew": f'<n:Renew xmlns:n="{WSNT}"><n:TerminationTime>PT1H</n:TerminationTime></n:Renew>',
            "Unsubscribe": f'<n:Unsubscribe xmlns:n="{WSNT}"/>',
        }
        async with stalled(run):
            asked: dict[str, asyncio.Task[Answer]] = {}
            async with asyncio.timeout(DEADLINE), asyncio.TaskGroup() as group:
                for name, body in soap.items():
                    asked[name] = group.create_task(run.ask(SPEAKER, body))
                for name, body in managed.items():
                    asked[name] = group.create_task(run.ask(SPEAKER, body, manager))
                asked["deposit"] = group.create_task(run.ask(SPEAKER, "<a/>", key))
                asked["receive"] = group.create_task(
                    run.request(
                        "POST", f"{key}/receive", b'{"wait": 0}', content_type="application/json"
                    )
                )
                asked["size"] = group.create_task(run.request("GET", key))
                for method, path in routes:
                    asked[f"{method} {path}"] = group.create_task(run.request(method, path))
        found = {name: task.result().status for name, task in asked.items()}
        needed = {*soap, *managed, "deposit", "receive", "size", "GET /api/v1/deadletters"}
        assert {name: found[name] for name in needed} == dict.fromkeys(needed, 503)
        assert not {name for name, status in found.items() if status == 500}
        assert all(task.result().headers.get("retry-after") for task in asked.values()
                   if task.result().status == 503)  # fmt: skip
        # And when it answers again, memory and store are the same.
        assert (await run.ask(SPEAKER, managed["Unsubscribe"], manager)).status == 200
        assert len(run.gateway.subscriptions) == 0


async def readiness(run: Running) -> tuple[int, str]:
    answer = await run.request("GET", "/readyz")
    return answer.status, json.loads(answer.body)["store"]


@pytest.mark.slow
async def test_locked_tables(tmp_path: Path, postgresql_url: str) -> None:
    """A Subscribe is answered, `/readyz` says 503, and what was committed later is in memory, too."""
    database = make_url(postgresql_url).database
    assert database is not None
    async with running(tmp_path / "data", store=postgresql_url) as run:
        run.gateway.store.hurry(1.0)
        with postgresql().locked(database):
            body = SPEAKER.wsn_subscribe(ANONYMOUS)
            assert (await run.ask(SPEAKER, body)).status == 503

            async def tells() -> bool:
                return await readiness(run) == (503, "unavailable")

            await until(tells)

        async def recovers() -> bool:
            return await readiness(run) == (200, "writable")

        await until(recovers)
        [[rows]] = execute(postgresql_url, "SELECT count(*) FROM subscriptions")
        await until(lambda: len(run.gateway.subscriptions) == rows)


@contextmanager
def locked_file(path: Path) -> Iterator[None]:
    """Meanwhile another program has the SQLite file."""
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        other.execute("ROLLBACK")
        other.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["store.db", pytest.param("journal.db", marks=pytest.mark.nightly)]
)
async def test_a_locked_file_is_told_without_traffic(tmp_path: Path, name: str) -> None:
    """`/readyz` finds it by itself, and finds that it is over."""
    async with running(tmp_path / "data", adapter="embedded:") as run:

        async def is_(status: int) -> bool:
            return (await run.request("GET", "/readyz")).status == status

        with locked_file(tmp_path / "data" / name):
            await until(lambda: is_(503))
        await until(lambda: is_(200))


@pytest.fixture(scope="module")
def cluster() -> Iterator[PostgreSQL]:
    """One that may be frozen."""
    needs_postgresql()
    with postgresql_cluster() as one:
        yield one


@pytest.mark.slow
@pytest.mark.parametrize("trouble", ["locked", pytest.param("frozen", marks=pytest.mark.nightly)])
async def test_a_stop_ends_whatever_the_server_does(
    tmp_path: Path, cluster: PostgreSQL, trouble: str
) -> None:
    """In time, and with exit code 0 (which the rig asserts), while deliveries wait for the store."""
    database = cluster.make_database()
    settings = {"adapter": "embedded:", "store": cluster.url(database), "drain": 0.5}
    async with consumers() as sinks, running(tmp_path / "data", **settings) as run:
        hung = sinks.add(hang)
        await run.subscribe(SPEAKER, SPEAKER.wsn_subscribe(hung.url))
        await run.publish("<a/>", speaker=SPEAKER)
        await hung.have(1)
        in_trouble = getattr(cluster, trouble)(database)
        with in_trouble:
            asking = asyncio.create_task(run.ask(SPEAKER, SPEAKER.wsn_subscribe(hung.url)))
            await until(lambda: run.gateway.store._commits.began is not None)
            run.stop.set()
            await until(lambda: any(log["event"] == "dragoman.ended" for log in run.logs))
            await asyncio.gather(asking, return_exceptions=True)
    assert not [log for log in run.logs if log["event"] == "dragoman.stop-forced"]


@pytest.mark.slow
async def test_a_stop_ends_on_a_full_disk(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 48) as disk:
        settings = {"adapter": "embedded:", "drain": 0.5}
        async with consumers() as sinks, running(disk / "data", **settings) as run:
            hung = sinks.add(hang)
            await run.subscribe(SPEAKER, SPEAKER.wsn_subscribe(hung.url))
            await run.publish(f"<a>{'x' * 1_000_000}</a>", speaker=SPEAKER)
            await hung.have(1)
            fill(disk)
            run.stop.set()
            await until(lambda: any(log["event"] == "dragoman.ended" for log in run.logs))
        assert not [log for log in run.logs if log["event"] == "dragoman.stop-forced"]
