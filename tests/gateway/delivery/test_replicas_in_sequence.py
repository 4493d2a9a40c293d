"""Sequences to subscribers where two gateways share the work: the numbers are in the store, so that
whoever has the partition goes on with them."""

import json
import uuid
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.delivery.test_kill_in_sequence import subscribe
from tests.gateway.replicas.test_replicas import partitions, replicas
from tests.rigs.brokers import needs_rabbitmq, rabbitmq
from tests.rigs.consumers import consumers
from tests.rigs.postgresql import fresh_database, needs_postgresql
from tests.rigs.processes import SPEAKER, GatewayProcess, event
from tests.rigs.rabbitmq_adapters import environment_of
from tests.rigs.reliable_consumers import ReliableConsumer
from tests.rigs.waiting import until

needs_rabbitmq()
needs_postgresql(allow_module_level=True)


async def publish(gateway: GatewayProcess, *numbers: int) -> None:
    for number in numbers:
        octets = event(str(number))
        kind = SPEAKER.soap.media_type
        answer = await gateway.request("POST", "/soap/topic/orders", octets, content_type=kind)
        assert answer.status == 202, answer.body


async def partition_in_use(gateway: GatewayProcess) -> int:
    """The partition of the only topic: its sequence is the one with messages."""
    found: list[Any] = []

    async def is_shown() -> bool:
        shown = json.loads((await gateway.request("GET", "/api/v1/sequences")).body)["sequences"]
        found[:] = [one for one in shown if one["published"]]
        return bool(found)

    await until(is_shown)
    [one] = found
    return int(one["id"].partition("-")[2])


@pytest.mark.slow
async def test_the_holder_is_killed(tmp_path: Path) -> None:
    """It has given numbers to what waits, and one of them was taken, whose answer was lost."""
    reliable = ReliableConsumer()
    with fresh_database() as url:
        environment = {
            **environment_of(rabbitmq().url, f"numbers-{uuid.uuid4().hex[:8]}"),
            "DRAGOMAN_STORE": url,
            "DRAGOMAN_RETRY_DELAYS": ",".join(["0.5"] * 60),
        }
        async with consumers() as some, replicas(tmp_path, environment) as two:
            await subscribe(two[0], some.add(reliable).url)
            await publish(two[0], 1, 2, 3)
            await until(lambda: reliable.got == ["1", "2", "3"])
            partition = await partition_in_use(two[0])
            [holder] = [one for one in two if partition in await partitions(one)]
            [other] = [one for one in two if one is not holder]
            reliable.loses = lambda said: "answer" if said.sequence is not None else ""
            await publish(other, *range(4, 11))
            await until(lambda: "4" in reliable.got)
            await holder.kill()
            reliable.loses = lambda said: ""
            await until(lambda: len(reliable.got) >= 10)
            await publish(other, 11)
            await until(lambda: len(reliable.got) >= 11)
            assert reliable.got == [str(number) for number in range(1, 12)], "order, doubles"
            assert reliable.sequences == [list(range(1, 12))], "a gap, or another numbering"
            await other.at_rest()
            await holder.start()
