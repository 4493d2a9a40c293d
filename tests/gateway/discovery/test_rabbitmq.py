"""A node behind AMQP: what is published goes to a real RabbitMQ, and comes from there."""

import uuid
from pathlib import Path

import pytest

from tests.rigs.brokers import needs_rabbitmq, rabbitmq
from tests.rigs.consumers import Consumers
from tests.rigs.discovery_exchange import exchange
from tests.rigs.discovery_nodes import node_settings
from tests.rigs.gateways import running

needs_rabbitmq()


@pytest.mark.slow
async def test_a_node_behind_amqp(tmp_path: Path) -> None:
    name = f"discovery-{uuid.uuid4().hex[:8]}"
    url = f"{rabbitmq().url}?name={name}&exchange={name}"
    settings = {**node_settings(tmp_path), "adapter": url}
    async with Consumers() as consumers, running(tmp_path, **settings) as run:
        await exchange(run, consumers)
