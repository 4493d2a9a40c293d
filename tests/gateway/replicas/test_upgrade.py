"""A rolling upgrade: two gateways are replaced, one after the other, by a version with a migration."""

import asyncio
import shutil
from pathlib import Path

import pytest

import gateway
from gateway.store import migrations
from tests.gateway.replicas.test_replicas import (
    SECONDS,
    broker,
    cluster,
    environment,
    replicas,
    shared_out,
)
from tests.gateway.server.test_kill import more_acknowledged
from tests.rigs.brokers import needs_rabbitmq
from tests.rigs.consumers import consumers
from tests.rigs.outage_traffic import judge
from tests.rigs.postgresql import needs_postgresql
from tests.rigs.processes import GatewayProcess, publishing
from tests.rigs.programs import run
from tests.rigs.stores import execute

needs_rabbitmq()
needs_postgresql(allow_module_level=True)
__all__ = ["broker", "cluster", "environment"]  # Fixtures.

RATE = 60.0
"""Messages a second, each for two consumers."""
NEXT = f"{int(migrations.newest()) + 1:04d}"
STEP = f"""
import sqlalchemy as sa
from alembic import op

revision = "{NEXT}"
down_revision = "{migrations.newest()}"
branch_labels = None
depends_on = None
backward_compatible = {{compatible}}


def upgrade() -> None:
    op.add_column("subscriptions", sa.Column("next_version", sa.Text()))
"""


def next_version(folder: Path, *, compatible: bool) -> dict[str, str]:
    """Make the next version of Dragoman in *folder*, whose schema has a step more; the environment
    of processes that run it."""
    shutil.copytree(Path(gateway.__file__).parent, folder / "gateway")
    versions = folder / "gateway/store/migrations/versions"
    (versions / f"{NEXT}_step.py").write_text(STEP.format(compatible=compatible))
    return {"PYTHONPATH": str(folder), "PYTHONSAFEPATH": "1"}


def schema(environment: dict[str, str]) -> object:
    [[found]] = execute(environment["DRAGOMAN_STORE"], "SELECT version_num FROM alembic_version")
    return found


@pytest.mark.nightly
async def test_a_rolling_upgrade_under_traffic(environment: dict[str, str], tmp_path: Path) -> None:
    """Nothing is lost, and nothing comes twice. The older one goes on beside the newer, and may
    start again; what it could not bear is refused."""
    contracted = next_version(tmp_path / "contracted", compatible=False)
    expanded = next_version(tmp_path / "expanded", compatible=True)
    async with consumers() as sinks, replicas(tmp_path, environment) as (a, b):
        those = [sinks.add(keep=False) for _ in range(2)]
        for consumer in those:
            await a.subscribe(consumer.url)
        async with publishing(b, RATE, publishers=4, topics=True) as publishers:
            await refused(environment | contracted, tmp_path)
            await replace(a, expanded, [a, b])
            assert schema(environment) == NEXT
            await more_acknowledged(publishers, 10)
            await replace(b, {}, [a, b])
            assert "store.schema-newer" in b.log.read_text()
            await more_acknowledged(publishers, 10)
            await replace(b, expanded, [a, b])
            await more_acknowledged(publishers, 10)
        published = [number for one in publishers for number in one.acknowledged]
        for consumer in those:
            await consumer.have_all(published)
        await b.at_rest()
        # A machine that is too busy for signs of life makes a gateway lose what it holds.
        lost = any("partition.lost" in one.log.read_text() for one in (a, b))
        assert lost or judge(publishers, those) == 0


async def refused(environment: dict[str, str], folder: Path) -> None:
    """What is refused by the command is refused by a start: both open the store."""
    before = schema(environment)
    variables = ("PYTHONPATH", "PYTHONSAFEPATH", "DRAGOMAN_STORE")
    path, safe, store = (environment[name] for name in variables)
    done = await asyncio.to_thread(
        lambda: run(
            *("store", "migrate"),
            cwd=folder,
            PYTHONPATH=path,
            PYTHONSAFEPATH=safe,
            DRAGOMAN_STORE=store,
        )
    )
    assert done.returncode == 1
    begins = f"dragoman: The store is not migrated to schema {NEXT} while gateways of an older "
    names = ", ".join(sorted((folder / name / "replica").read_text().strip() for name in "ab"))
    assert done.stderr.startswith(begins) and f"({names})" in done.stderr
    assert schema(environment) == before


async def replace(
    one: GatewayProcess, environment: dict[str, str], those: list[GatewayProcess]
) -> None:
    """Stop *one* and start it with *environment* besides; the work is shared out afterwards."""
    assert await one.end() == 0
    one.environment.update(environment)
    await one.start()
    await shared_out(those, SECONDS)
