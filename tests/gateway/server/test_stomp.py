"""A gateway in front of a real ActiveMQ: native programs and web services, and every failure."""

import re
import uuid
from pathlib import Path

import pytest
import stomp

from tests.rigs.activemq import ActiveMQ, activemq, needs_activemq
from tests.rigs.broker_gateways import ROOT, die_in_traffic, start_without, talk_to_native_programs
from tests.rigs.brokers import PASSWORD, USER, wire_to
from tests.rigs.consumers import consumers
from tests.rigs.envelopes import message_content
from tests.rigs.outage_traffic import SECONDS, accepted, judge, refused, subscribed
from tests.rigs.processes import SPEAKER, Publisher, gateway_process

needs_activemq()


EXAMPLES = re.findall(r"```python\n(.*?)```", (ROOT / "docs/activemq.md").read_text(), re.DOTALL)


@pytest.fixture(scope="module")
def broker() -> ActiveMQ:
    return activemq()


def adapter(url: str, *settings: str) -> dict[str, str]:
    """What makes a gateway stand in front of *url*, with a queue of its own."""
    name = f"test-{uuid.uuid4().hex[:12]}"
    return {"DRAGOMAN_ADAPTER": f"{url}?{'&'.join([f'name={name}', f'root={name}', *settings])}"}


async def test_the_programs_of_the_guide(broker: ActiveMQ, tmp_path: Path) -> None:
    publish, hear = (
        example.replace('"localhost", 61613', f'"127.0.0.1", {broker.port}').replace(
            '"dragoman", "secret"', f'"{USER}", "{PASSWORD}"'
        )
        for example in EXAMPLES
    )
    assert str(broker.port) in publish and str(broker.port) in hear and PASSWORD in hear
    environment = {"DRAGOMAN_ADAPTER": broker.url}
    said = await talk_to_native_programs(publish, hear, environment, tmp_path / "data")
    assert said.startswith("storms <storm><n>2</n></storm>\n")


async def test_destinations_that_exist(
    broker: ActiveMQ, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``[[destinations]]`` of dragoman.toml, for a subscriber of WS-Eventing, which knows no topics."""
    topic = f"orders-{uuid.uuid4().hex[:8]}"
    (tmp_path / "dragoman.toml").write_text(
        f'[[destinations]]\ntopic = "{topic}.eu.>"\nnamespace = "urn:orders"\n'
    )
    monkeypatch.chdir(tmp_path)
    environment = adapter(broker.url) | {"PYTHONPATH": str(ROOT)}
    async with consumers() as sinks, gateway_process(tmp_path / "data", environment) as gateway:
        consumer = sinks.add()
        await gateway.subscribe(consumer.url)
        connection = stomp.Connection12([("127.0.0.1", broker.port)])
        connection.connect(USER, PASSWORD, wait=True, with_connect_command=True)
        connection.send(f"/topic/{topic}.us.new", "<n>1</n>")
        connection.send(f"/topic/{topic}.eu.new", '{"n": "<n>2</n>"}')
        connection.send(f"/topic/{topic}.eu.new", "<n>3</n>")
        connection.disconnect(receipt="done")
        await consumer.have(2, SECONDS)
        assert "3" in consumer.numbers and "1" not in consumer.numbers
        assert (await gateway.at_rest())["wrapped_total"] == 1


async def test_a_selector(broker: ActiveMQ, tmp_path: Path) -> None:
    """Named in Subscribe, evaluated by the broker, advertised, kept through a restart."""
    selector = "urn:dragoman:dialect:jms-selector:1"
    environment = adapter(broker.url)
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


async def test_a_broker_that_comes_late_and_goes(broker: ActiveMQ, tmp_path: Path) -> None:
    async with wire_to(broker.port) as wire, consumers() as sinks:
        await wire.cut()
        environment = adapter(broker.at(wire.port))
        async with gateway_process(tmp_path / "data", environment) as gateway:
            publisher, consumer = Publisher(gateway, "a"), sinks.add()
            assert (await gateway.request("GET", "/readyz")).status == 200
            answer = await gateway.ask(SPEAKER.wse_subscribe(consumer.url))
            assert answer.status == 503 and "retry-after" in answer.headers
            await refused(publisher)
            await wire.join()
            await subscribed(gateway, consumer)
            await accepted(publisher)
            await consumer.have(1, SECONDS)
            await wire.cut()
            await refused(publisher)
            await wire.join()
            await accepted(publisher)
            await consumer.have_all(publisher.acknowledged)
            await gateway.at_rest()
            judge([publisher], [consumer])
            publisher.close()


async def test_broker_and_gateway_die_in_traffic(broker: ActiveMQ, tmp_path: Path) -> None:
    await die_in_traffic(broker, adapter(broker.url), tmp_path / "data")


async def test_the_library_is_missing(tmp_path: Path) -> None:
    said = await start_without("stomp", "stomp://host", tmp_path)
    assert re.search("-m pip install 'stomp[.-]py", said), said  # As the build backend spells it.
