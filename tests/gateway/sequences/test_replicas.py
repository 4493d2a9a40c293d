"""Sequences in PostgreSQL, which several gateways share: a message may come to any of them."""

import asyncio
import contextlib
import random
import uuid
from pathlib import Path

import pytest

from tests.gateway.replicas.test_replicas import replicas
from tests.gateway.sequences.test_kill import Pump
from tests.rigs.brokers import needs_rabbitmq, rabbitmq
from tests.rigs.consumers import consumers
from tests.rigs.gateways import running
from tests.rigs.postgresql import fresh_database, needs_postgresql
from tests.rigs.processes import GatewayProcess
from tests.rigs.rabbitmq_adapters import environment_of
from tests.rigs.reliable_publishers import ReliablePublisher, numbers_in, upto
from tests.rigs.waiting import DEADLINE, until

needs_postgresql(allow_module_level=True)

TOPIC = "/soap/topic/sequenced"


async def test_a_sequence_in_postgresql(tmp_path: Path) -> None:
    with fresh_database() as url:
        async with running(tmp_path, wsrm="offered", adapter="embedded:", store=url) as run:
            publisher = ReliablePublisher(run)
            await publisher.create()
            for number in (2, 1, 1, 4, 3):
                await publisher.send(number)
            assert publisher.acknowledged == upto(4)
            await publisher.close(4)
            await publisher.terminate(4)
            [state] = await run.gateway.sequences.listed()  # type: ignore[union-attr]
            assert (state.delivered, state.waiting, state.sequence.complete) == (4, 0, True)


class Wanderer(Pump):
    """Sends each message to another gateway than the one before."""

    def aim_at_all(self, gateways: list[GatewayProcess]) -> None:
        self.gateways = gateways
        self.aim_at(gateways[0])

    async def post_now(self, octets: bytes) -> bytes:
        up = [gateway for gateway in self.gateways if gateway.up.is_set()]
        self.aim_at(random.choice(up))
        return await super().post_now(octets)


@pytest.mark.slow
async def test_two_gateways_one_of_which_is_killed(tmp_path: Path) -> None:
    needs_rabbitmq()
    with fresh_database() as url:
        environment = {
            **environment_of(rabbitmq().url, f"sequences-{uuid.uuid4().hex[:8]}"),
            "DRAGOMAN_STORE": url,
            "DRAGOMAN_WSRM": "offered",
        }
        async with consumers() as some, replicas(tmp_path, environment) as two:
            consumer = some.add()
            await two[0].subscribe(consumer.url)
            pump = Wanderer(None)  # type: ignore[arg-type]
            pump.aim_at_all(two)
            await pump.begin()
            await pump.send_all(lambda: 60)
            sending = asyncio.create_task(pump.send_all(lambda: 120))
            await two[1].kill()
            await sending
            await two[1].start()

            def first() -> list[int]:
                """The numbers that arrived, in the order of their first arrival."""
                return list(dict.fromkeys(numbers_in(each.body for each in consumer.received)))

            # What the killed one had waits in the broker until its partition is another's.
            with contextlib.suppress(TimeoutError):
                await until(lambda: len(first()) >= 120, 2 * DEADLINE)
            assert first() == list(range(1, 121)), "lost, or out of order"
            for gateway in two:
                await gateway.at_rest()
