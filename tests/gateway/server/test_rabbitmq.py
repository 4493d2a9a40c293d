"""A gateway in front of a real RabbitMQ: native programs and web services, and every failure."""

import asyncio
import contextlib
import re
import uuid
from collections.abc import Callable, Sequence

import pika
import pytest

from tests.rigs.broker_gateways import ROOT, GatewayTrials
from tests.rigs.brokers import RabbitMQ, needs_rabbitmq, own_rabbitmq
from tests.rigs.outage_traffic import refused
from tests.rigs.processes import Publisher
from tests.rigs.rabbitmq_adapters import environment_of

needs_rabbitmq()


EXAMPLES = re.findall(r"```python\n(.*?)```", (ROOT / "docs/rabbitmq.md").read_text(), re.DOTALL)
URL_OF_THE_EXAMPLES = "amqp://guest:guest@localhost:5672/"
MEMORY = "set_vm_memory_high_watermark"


@pytest.fixture(scope="module")
def broker() -> RabbitMQ:
    return own_rabbitmq()


class TestGateway(GatewayTrials):
    library = "pika", "amqp://host/"

    def environment(self, url: str) -> dict[str, str]:
        return environment_of(url)

    def programs(self, broker: RabbitMQ) -> tuple[str, str]:
        publish, hear = (
            example.replace(URL_OF_THE_EXAMPLES, broker.url) for example in EXAMPLES[:2]
        )
        assert broker.url in publish and broker.url in hear
        return publish, hear

    def orders(self, broker: RabbitMQ) -> tuple[str, Callable[[Sequence[tuple[str, bytes]]], None]]:
        exchange = f"orders-{uuid.uuid4().hex[:8]}"

        def publish(messages: Sequence[tuple[str, bytes]]) -> None:
            parameters = pika.URLParameters(broker.url)
            with contextlib.closing(pika.BlockingConnection(parameters)) as connection:
                channel = connection.channel()
                for key, body in messages:
                    channel.basic_publish(exchange, key, body)

        return f'exchange = "{exchange}"\npattern = "eu.#"\nnamespace = "urn:orders"\n', publish

    async def while_short_of_memory(self, broker: RabbitMQ, publisher: Publisher) -> None:
        await asyncio.to_thread(broker.control, MEMORY, "0.0000001")
        try:
            await refused(publisher)
        finally:
            await asyncio.to_thread(broker.control, MEMORY, "0.6")
