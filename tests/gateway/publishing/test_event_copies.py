"""Copies of events in RabbitMQ, as a gateway makes them of what is published."""

import contextlib
import json
import uuid
from pathlib import Path
from typing import Any

import pika

from tests.rigs.brokers import needs_rabbitmq, rabbitmq
from tests.rigs.envelopes import Speaker, notification_message, notify
from tests.rigs.gateways import Running, running
from tests.rigs.messenger import WseClient
from tests.rigs.ports import free_ports
from tests.rigs.waiting import until

needs_rabbitmq()

WFT = "http://airavata.apache.org/schemas/wft/2011/08"
KEYS = """<routingKeys><event name="workflowTerminated"><key name="primaryKey">
<segment name="serviceID">notificationSource/@serviceID</segment></key></event></routingKeys>"""


def terminated(service: str) -> str:
    return (
        f'<w:workflowTerminated xmlns:w="{WFT}"><w:notificationSource w:serviceID="{service}"/>'
        "</w:workflowTerminated>"
    )


async def metric(run: Running, name: str) -> float:
    lines = (await run.admin("GET", "/metrics")).body.decode().splitlines()
    [line] = [one for one in lines if one.startswith(f"dragoman_{name} ")]
    return float(line.rpartition(" ")[2])


async def test_what_is_published_in_any_way_is_copied(tmp_path: Path) -> None:
    """Without any subscriber; each NotificationMessage is one."""
    broker, prefix = rabbitmq(), f"test-{uuid.uuid4().hex[:12]}"
    (tmp_path / "keys.xml").write_text(KEYS)
    copies = {"url": broker.url, "routing_keys": tmp_path / "keys.xml", "prefix": prefix}
    with contextlib.closing(pika.BlockingConnection(pika.URLParameters(broker.url))) as connection:
        channel = connection.channel()
        channel.exchange_declare(f"{prefix}-topic", "topic")
        queue = channel.queue_declare("", exclusive=True).method.queue
        channel.queue_bind(queue, f"{prefix}-topic", "workflowTerminated.#")
        async with running(tmp_path / "data", amqp_copies=copies) as run:
            await WseClient(run).publish("any", terminated("s1"))
            await WseClient(run).publish("any", "<other/>")
            body = notify(*(notification_message(terminated(one)) for one in ("s2", "s3")))
            assert (await run.ask(Speaker(), body)).status == 202

            async def copied() -> bool:
                return await metric(run, 'amqp_copies_total{outcome="copied"}') == 3

            await until(copied)
        found = [channel.basic_get(queue, auto_ack=True) for _ in range(4)]
        assert [(one[0].routing_key, one[2]) for one in found[:3]] == [
            (f"workflowTerminated.{one}", terminated(one).encode()) for one in ("s1", "s2", "s3")
        ]
        assert found[3][0] is None


async def test_a_copy_that_is_refused_is_a_dead_letter(tmp_path: Path) -> None:
    """Its keys are longer than AMQP's; it is delivered all the same, and no letter to redrive."""
    broker, prefix = rabbitmq(), f"test-{uuid.uuid4().hex[:12]}"
    (tmp_path / "keys.xml").write_text(KEYS)
    copies = {"url": broker.url, "routing_keys": tmp_path / "keys.xml", "prefix": prefix}
    async with running(tmp_path / "data", amqp_copies=copies) as run:
        await run.publish(terminated("x" * 300))
        listed = "/deadletters?reason=copy-refused"

        async def letters() -> list[dict[str, Any]]:
            found: list[dict[str, Any]] = json.loads((await run.api("GET", listed)).body)[
                "dead_letters"
            ]
            return found

        await until(letters)
        [letter] = await letters()
        assert "routing keys" in letter["failure"]
        redriven = await run.api("POST", "/deadletters/redrive", b'{"all": true}')
        assert json.loads(redriven.body)["number"] == 0
        assert len(await letters()) == 1


async def test_a_broker_that_is_away_costs_publishers_nothing(tmp_path: Path) -> None:
    [port] = free_ports(1)
    async with running(tmp_path, amqp_copies={"url": f"amqp://127.0.0.1:{port}/"}) as run:
        for _ in range(5):
            await run.publish("<c/>")
        assert await metric(run, "amqp_copies_waiting") == 5
