"""A gateway in front of a real ActiveMQ: native programs and web services, and every failure."""

import re
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import stomp

from dragoman.client import WseClient, WsnClient
from tests.rigs.activemq import ActiveMQ, needs_activemq, own_activemq
from tests.rigs.broker_gateways import ROOT, GatewayTrials
from tests.rigs.brokers import PASSWORD, USER, Node
from tests.rigs.consumers import consumers
from tests.rigs.envelopes import message_content
from tests.rigs.outage_traffic import SECONDS
from tests.rigs.processes import SPEAKER, gateway_process

needs_activemq()


EXAMPLES = re.findall(r"```python\n(.*?)```", (ROOT / "docs/activemq.md").read_text(), re.DOTALL)


@pytest.fixture(scope="module")
def broker() -> ActiveMQ:
    return own_activemq()


class TestGateway(GatewayTrials):
    library = "stomp", "stomp://host"

    def environment(self, url: str) -> dict[str, str]:
        name = f"test-{uuid.uuid4().hex[:12]}"
        return {"DRAGOMAN_ADAPTER": f"{url}?name={name}&root={name}"}

    def programs(self, broker: ActiveMQ) -> tuple[str, str]:
        publish, hear = (
            example.replace('"localhost", 61613', f'"127.0.0.1", {broker.port}').replace(
                '"dragoman", "secret"', f'"{USER}", "{PASSWORD}"'
            )
            for example in EXAMPLES
        )
        assert str(broker.port) in publish and str(broker.port) in hear and PASSWORD in hear
        return publish, hear

    @pytest.mark.nightly  # By day before RabbitMQ.
    async def test_broker_and_gateway_die_in_traffic(self, broker: Node, tmp_path: Path) -> None:
        await super().test_broker_and_gateway_die_in_traffic(broker, tmp_path)

    def orders(self, broker: ActiveMQ) -> tuple[str, Callable[[Sequence[tuple[str, bytes]]], None]]:
        topic = f"orders-{uuid.uuid4().hex[:8]}"

        def publish(messages: Sequence[tuple[str, bytes]]) -> None:
            connection = stomp.Connection12([("127.0.0.1", broker.port)])
            connection.connect(USER, PASSWORD, wait=True, with_connect_command=True)
            for key, body in messages:
                connection.send(f"/topic/{topic}.{key}", body.decode())
            connection.disconnect(receipt="done")

        return f'topic = "{topic}.eu.>"\nnamespace = "urn:orders"\n', publish


async def test_a_selector_sees_what_publishers_in_soap_say(
    broker: ActiveMQ, tmp_path: Path
) -> None:
    environment = TestGateway().environment(broker.url)
    async with consumers() as sinks, gateway_process(tmp_path / "data", environment) as gateway:
        severe = sinks.add()
        selector = "urn:dragoman:dialect:jms-selector:1"
        condition = message_content("severity &gt; 5", dialect=selector)
        answer = await gateway.ask(SPEAKER.wsn_subscribe(severe.url, filter=condition))
        assert answer.status == 200, answer.body
        url = f"http://127.0.0.1:{gateway.port}"
        async with WsnClient(url) as wsn, WseClient(url) as wse:
            for number, client in ((4, wsn), (6, wsn), (5, wse), (10, wse)):
                properties = {"severity": str(number)}
                await client.publish(f"<n>{number}</n>", topic="storms", properties=properties)
        await severe.have_all(["6", "10"])
        assert set(severe.numbers) == {"6", "10"}
        await gateway.at_rest()


async def test_a_selector(broker: ActiveMQ, tmp_path: Path) -> None:
    """Named in Subscribe, evaluated by the broker, advertised, kept through a restart."""
    selector = "urn:dragoman:dialect:jms-selector:1"
    environment = TestGateway().environment(broker.url)
    name = environment["DRAGOMAN_ADAPTER"].rpartition("=")[2]
    connection = stomp.Connection12([("127.0.0.1", broker.port)])
    connection.connect(USER, PASSWORD, wait=True, with_connect_command=True)

    def publish(number: int) -> None:
        topic = f"/topic/VirtualTopic.{name}.adhoc.storms"
        connection.send(topic, f"<n>{number}</n>", severity=str(number))

    async with consumers() as sinks, gateway_process(tmp_path / "data", environment) as gateway:
        everything, severe = sinks.add(), sinks.add()
        await gateway.subscribe(everything.url)
        condition = message_content("severity &gt; 5", dialect=selector)
        answer = await gateway.ask(SPEAKER.wsn_subscribe(severe.url, filter=condition))
        assert answer.status == 200, answer.body
        for number in (4, 6, 5, 10):
            publish(number)
        await everything.have(4, SECONDS)
        assert await severe.have(2, SECONDS) == ["6", "10"]
        await gateway.kill()
        publish(7)
        await gateway.start()
        publish(3)
        publish(8)
        await severe.have_all(["6", "10", "7", "8"])
        await everything.have_all(["4", "6", "5", "10", "7", "3", "8"])
        assert set(severe.numbers) == {"6", "10", "7", "8"}
        await gateway.at_rest()
        unknown = '<e:Filter Dialect="urn:no-such-dialect">severity</e:Filter>'
        answer = await gateway.ask(SPEAKER.wse_subscribe(severe.url, filter=unknown))
        assert answer.status == 400 and selector.encode() in answer.body, answer.body
        broken = condition.replace("severity", "severity = = ")
        answer = await gateway.ask(SPEAKER.wsn_subscribe(severe.url, filter=broken))
        assert answer.status == 400
    connection.disconnect(receipt="done")
