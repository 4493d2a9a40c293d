"""From program to program through a gateway and a broker: nothing is lost, taken twice or out of
order, though programs and gateway are killed."""

import asyncio
import random
import uuid
from pathlib import Path

import pytest

from tests.rigs.activemq import activemq, needs_activemq
from tests.rigs.brokers import needs_rabbitmq, rabbitmq
from tests.rigs.outbox import database, kill_again_and_again
from tests.rigs.ports import free_ports
from tests.rigs.processes import GatewayProcess
from tests.rigs.rabbitmq_adapters import environment_of


@pytest.mark.slow
async def test_messages_go_through_rabbitmq_once_and_in_order(tmp_path: Path) -> None:
    needs_rabbitmq()
    await play(environment_of(rabbitmq().url), "postgresql", tmp_path, kills=2, seed=1)


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(3))
async def test_many_kills_around_rabbitmq(tmp_path: Path, seed: int) -> None:
    needs_rabbitmq()
    await play(environment_of(rabbitmq().url), "postgresql", tmp_path, kills=12, seed=seed)


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(3))
async def test_many_kills_around_activemq(tmp_path: Path, seed: int) -> None:
    needs_activemq()
    name = f"test-{uuid.uuid4().hex[:12]}"
    adapter = f"{activemq().url}?name={name}&root={name}"
    await play({"DRAGOMAN_ADAPTER": adapter}, "sqlite", tmp_path, kills=12, seed=seed)


async def play(
    environment: dict[str, str], kind: str, folder: Path, *, kills: int, seed: int
) -> None:
    """Kill sender, receiver and gateway while messages are on their way."""
    port, own = free_ports(2)
    gateway = GatewayProcess(folder / "gateway", environment, "--port", str(own))
    await gateway.start()
    url = f"http://127.0.0.1:{own}"
    over = asyncio.Event()

    async def kill_gateway() -> None:
        draw = random.Random(seed)
        for _ in range(max(1, kills // 4)):
            try:
                async with asyncio.timeout(3.0 + 2.0 * draw.random()):
                    await over.wait()
            except TimeoutError:  # Not to show anything: the kill comes at any time.
                await gateway.kill()
                await gateway.start()

    try:
        with database(kind, folder, "here") as here, database(kind, folder, "there") as there:
            killing = asyncio.create_task(kill_gateway())
            played = await asyncio.to_thread(
                kill_again_and_again, here, there, url, port, url, kills, seed
            )
            over.set()
            await killing
        assert played > 5 * kills
    finally:
        await gateway.end()
