"""Signed events that programs publish at RabbitMQ and ActiveMQ, by the example's programs, past the
gateway; and what they read there of events that were published over it."""

import asyncio
import contextlib
import json
import sys
import uuid
from pathlib import Path
from typing import Any

import pika
import pytest

from dragoman.client import WsnClient
from dragoman.events import Event
from dragoman.signing import Signer, TrustedSigners
from gateway.signed_topics.settings import SignedTopicsRow
from tests.rigs.activemq import activemq, needs_activemq
from tests.rigs.brokers import needs_rabbitmq, rabbitmq
from tests.rigs.event_signatures import credentials, key_pem, pem
from tests.rigs.gateways import Running, running
from tests.rigs.outage_traffic import SECONDS
from tests.rigs.waiting import until

EXAMPLE = Path(__file__).parents[3] / "examples" / "signed-events"
GALE = "<gale>8</gale>"
pytestmark = pytest.mark.nightly  # 5 s each, and the start of the broker.


def addresses(system: str) -> tuple[str, str, str, str]:
    """The program that publishes, the URL of the broker, that of the gateway, and the name of what
    is this test's there."""
    name = f"test-{uuid.uuid4().hex[:12]}"
    if system == "rabbitmq":
        needs_rabbitmq()
        url = rabbitmq().url
        return "publish_amqp.py", url, f"{url}?name={name}&exchange={name}", name
    needs_activemq()
    url = activemq().url
    return "publish_stomp.py", url, f"{url}?name={name}&root={name}", name


async def publish(program: str, url: str, folder: Path, name: str, where: str) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, EXAMPLE / program, url, folder / f"{name}.key", folder / f"{name}.pem",
        "storms", GALE, where,
    )  # fmt: skip
    assert await asyncio.wait_for(process.wait(), SECONDS) == 0


async def letters(run: Running) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((await run.api("GET", "/deadletters")).body)[
        "dead_letters"
    ]
    return found


@pytest.mark.parametrize("system", ["rabbitmq", "activemq"])
async def test_what_programs_publish_is_signed_or_set_aside(system: str, tmp_path: Path) -> None:
    program, url, adapter, name = addresses(system)
    for who in ("North mole", "South mole"):
        (tmp_path / f"{who}.key").write_bytes(key_pem(credentials(who)))
        (tmp_path / f"{who}.pem").write_bytes(pem(credentials(who)))
    (tmp_path / "signers.pem").write_bytes(pem(credentials("North mole")))
    trusted = TrustedSigners.from_file(tmp_path / "signers.pem")
    rows = (SignedTopicsRow(topics=["storms"], signers=tmp_path / "signers.pem"),)
    mole = Signer.from_files(tmp_path / "North mole.key", tmp_path / "North mole.pem")
    async with (
        running(tmp_path / "data", adapter=adapter, signed_topics=rows) as run,
        WsnClient(run.url, signers=trusted) as client,
        client.listen(topic="storms") as events,
    ):

        async def came() -> Event:
            return await asyncio.wait_for(anext(events), SECONDS)

        await publish(program, url, tmp_path, "North mole", name)
        assert (await came()).signed_by == "North mole"
        await publish(program, url, tmp_path, "South mole", name)
        await client.publish(GALE, topic="storms", sign=mole)
        assert (await came()).signed_by == "North mole"

        async def set_aside() -> bool:
            return bool(await letters(run))

        await until(set_aside, SECONDS)
        [letter] = await letters(run)
        assert (letter["reason"], letter["subscription"]) == ("signature-refused", "")
        assert "the signer is not trusted" in letter["failure"]


async def test_a_selector_of_the_broker_s_own_lets_nothing_else_through(tmp_path: Path) -> None:
    program, url, adapter, name = addresses("activemq")
    for who in ("North mole", "South mole"):
        (tmp_path / f"{who}.key").write_bytes(key_pem(credentials(who)))
        (tmp_path / f"{who}.pem").write_bytes(pem(credentials(who)))
    rows = (SignedTopicsRow(topics=["storms"], signers=tmp_path / "North mole.pem"),)
    selector = "eventsignature IS NOT NULL"
    async with (
        running(tmp_path / "data", adapter=adapter, signed_topics=rows) as run,
        WsnClient(run.url) as client,
        client.listen(topic="storms", selector=selector) as events,
    ):
        for who in ("South mole", "North mole"):
            await publish(program, url, tmp_path, who, name)
        event = await asyncio.wait_for(anext(events), SECONDS)
        found = TrustedSigners(pem()).verify(event)
        assert found is not None and found.name == "North mole"
        assert [one["reason"] for one in await letters(run)] == ["signature-refused"]


async def test_a_copy_at_the_broker_is_set_aside(tmp_path: Path) -> None:
    _, url, adapter, name = addresses("rabbitmq")
    (tmp_path / "signers.pem").write_bytes(pem(credentials()))
    (tmp_path / "mole.key").write_bytes(key_pem(credentials()))
    mole = Signer.from_files(tmp_path / "mole.key", tmp_path / "signers.pem")
    rows = (SignedTopicsRow(topics=["storms"], signers=tmp_path / "signers.pem"),)
    async with running(tmp_path / "data", adapter=adapter, signed_topics=rows) as run:
        with contextlib.closing(pika.BlockingConnection(pika.URLParameters(url))) as connection:
            channel = connection.channel()
            queue = channel.queue_declare("", exclusive=True).method.queue
            channel.queue_bind(queue, name, "#")
            async with WsnClient(run.url) as client, client.listen(topic="storms") as events:
                await client.publish(GALE, topic="storms", sign=mole)
                await asyncio.wait_for(anext(events), SECONDS)
                await run.quiet()
                _, properties, body = channel.basic_get(queue, auto_ack=True)
                read = Event(body, "storms", properties=properties.headers)
                found = TrustedSigners(pem()).verify(read)
                assert found is not None and found.name == "North mole"
                channel.basic_publish(name, "dragoman.adhoc.storms", body, properties)

                async def set_aside() -> bool:
                    return bool(await letters(run))

                await until(set_aside, SECONDS)
                [letter] = await letters(run)
                assert "came before" in letter["failure"]
