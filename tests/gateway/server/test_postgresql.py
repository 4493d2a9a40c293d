"""A gateway with its store in a real PostgreSQL: crashes of either, and what doctor says."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.gateway.server.test_kill import crash_often, judge, more_acknowledged
from tests.rigs.consumers import accept, consumers, status
from tests.rigs.postgresql import PostgreSQL, needs_postgresql, postgresql_cluster
from tests.rigs.processes import SPEAKER, GatewayProcess, Publisher, gateway_process, publishing
from tests.rigs.stores import check_store, execute
from tests.rigs.waiting import until

needs_postgresql(allow_module_level=True)

SECONDS = 90.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[PostgreSQL]:
    """One that may be stopped."""
    with postgresql_cluster() as one:
        yield one


@pytest.fixture
def url(cluster: PostgreSQL) -> str:
    return cluster.url(cluster.make_database())


@pytest.mark.nightly
async def test_kill_3_times(url: str, tmp_path: Path) -> None:
    await crash_often(tmp_path / "data", 3, seed=4, environment={"DRAGOMAN_STORE": url})
    check_store(url)


async def ready(gateway: GatewayProcess, expected: bool) -> None:
    async def says() -> bool:
        return ((await gateway.request("GET", "/readyz")).status == 200) is expected

    await until(says, SECONDS)


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGQUIT])
async def test_the_server_stops_for_a_while(
    cluster: PostgreSQL, url: str, tmp_path: Path, how: int
) -> None:
    """What needs the store is refused with 503 and Retry-After; the rest goes on; nothing is lost,
    and the gateway needs no restart."""
    environment = {"DRAGOMAN_STORE": url, "DRAGOMAN_RETRY_DELAYS": ",".join(["0.5"] * 600)}
    async with consumers() as sinks, gateway_process(tmp_path / "data", environment) as gateway:
        there, away = sinks.add(keep=False), sinks.add(status(503), keep=False)
        for consumer in (there, away):
            await gateway.subscribe(consumer.url)
        async with publishing(gateway, 50.0) as publishers:
            await there.have(20, SECONDS)
            cluster.stop(how)
            await ready(gateway, False)
            answer = await gateway.ask(SPEAKER.wse_subscribe(there.url))
            assert answer.status == 503 and int(answer.headers["retry-after"]) >= 1
            metrics = await gateway.metrics()
            assert metrics["store_writable"] == 0 and "waiting" not in metrics
            await more_acknowledged(publishers, 20)
            cluster.start()
            await ready(gateway, True)
            await there.have(there.count + 20, SECONDS)
        away.behaviour = accept
        for consumer in (there, away):
            await consumer.have_all([one for all in publishers for one in all.acknowledged])
        await gateway.at_rest()
        assert {status for one in publishers for status in one.statuses} <= {202, 503}
        judge(publishers, [there])
        assert set(away.numbers) == set(there.numbers)
    check_store(url)


async def test_a_restart_keeps_everything(url: str, tmp_path: Path) -> None:
    """Subscriptions, what waits, and dead letters; the data folder holds no store."""
    environment = {"DRAGOMAN_STORE": url, "DRAGOMAN_RETRY_DELAYS": ",".join(["1"] * 60)}
    data = tmp_path / "data"
    async with consumers() as sinks:
        late, rejecting = sinks.add(status(503)), sinks.add(status(400))
        async with gateway_process(data, environment) as gateway:
            for consumer in (late, rejecting):
                await gateway.subscribe(consumer.url)
            publisher = Publisher(gateway, "a")
            for _ in range(5):
                assert await publisher.publish() == 202
            publisher.close()
            await rejecting.have(5)
            await gateway.at_rest(waiting=5)
        late.behaviour = accept
        seen = late.count
        async with gateway_process(data, environment) as gateway:
            metrics = await gateway.at_rest()
            assert (metrics["dead_letters"], metrics["delivered_total"]) == (5, 5)
            assert late.numbers[seen:] == publisher.acknowledged
    assert not (data / "store.db").exists()
    check_store(url)


def doctor(url: str, folder: Path) -> str:
    words = [sys.executable, "-m", "gateway", "doctor", "--data", str(folder), "--port", "0"]
    done = subprocess.run(
        [*words, "--store", url], capture_output=True, text=True, timeout=SECONDS, check=False
    )
    return "\n".join(line for line in done.stdout.splitlines() if " store:" in line)


def test_doctor(cluster: PostgreSQL, url: str, tmp_path: Path) -> None:
    assert doctor(url, tmp_path).startswith("ok")
    assert "does not exist" in doctor(cluster.url("nowhere"), tmp_path)
    execute(url, "CREATE TABLE alembic_version (version_num text)")
    execute(url, "INSERT INTO alembic_version VALUES ('9999')")
    assert "has the schema 9999" in doctor(url, tmp_path)
    cluster.stop()
    try:
        said = doctor(url, tmp_path)
    finally:
        cluster.start()
    assert said.lower().startswith("fail")
    assert "cannot be reached" in said
