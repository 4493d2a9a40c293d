"""Drills of a real RabbitMQ and a real ActiveMQ."""

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pika
import pytest
from pika.exceptions import ChannelClosedByBroker
from typer.testing import CliRunner

from adapters.drills import Drill, Promise, Result, Wishes, trials_of
from gateway.cli import app
from tests.rigs.activemq import activemq, needs_activemq, own_activemq
from tests.rigs.brokers import (
    PASSWORD,
    Node,
    RabbitMQ,
    needs_rabbitmq,
    own_rabbitmq,
    rabbitmq,
)
from tests.rigs.waiting import until

needs_rabbitmq()
needs_activemq()

PARTS = ("", ".partitions", ".interests.a", ".interests.b", ".interests.c", ".interests.shared")
"""What follows the name in the names of exchanges."""


async def drilled(drill: Drill) -> dict[str, Result]:
    """What a drill says, by trial."""
    return {result.trial: result async for result in drill.run()}


def those(*names: str) -> Wishes:
    return Wishes(only=frozenset(names), backlog=500, largest=2**20)


def stands(broker: RabbitMQ, name: str) -> Iterator[str]:
    """What RabbitMQ has of a drill with *name*."""
    connection = pika.BlockingConnection(pika.URLParameters(broker.url))
    with contextlib.closing(connection):
        for part in PARTS:
            with contextlib.suppress(ChannelClosedByBroker):
                connection.channel().exchange_declare(f"{name}{part}", passive=True)
                yield f"{name}{part}"
        for number in (0, 15):
            with contextlib.suppress(ChannelClosedByBroker):
                connection.channel().queue_declare(f"{name}.{number:02}", passive=True)
                yield f"{name}.{number:02}"


async def test_rabbitmq() -> None:
    broker = rabbitmq()
    drill = Drill(broker.url, {}, those("confirmation", "content", "order", "backlog", "cut"))
    found = await drilled(drill)
    assert {each.promise for each in found.values()} == {Promise.KEPT}, found
    assert "in 16 partitions" in found["order"].text
    assert "publishers are told after" in found["cut"].text
    assert drill.left == []
    assert [*stands(broker, drill.name)] == []


async def test_activemq() -> None:
    drill = Drill(activemq().url, {}, those("confirmation", "content", "order", "cut"))
    found = await drilled(drill)
    assert {each.promise for each in found.values()} == {Promise.KEPT}, found
    [left] = drill.left
    assert left.promise is Promise.ABSENT
    assert left.text.startswith(f"Consumer.{drill.name}.VirtualTopic.{drill.name}.>: emptied")


async def test_a_drill_that_is_given_up_leaves_nothing() -> None:
    broker = rabbitmq()
    drill = Drill(broker.url, {}, those("cut"))
    made = asyncio.Event()

    async def run() -> None:
        async for result in drill.run():
            assert result.trial == "connection"
            made.set()

    task = asyncio.create_task(run())
    async with asyncio.timeout(60):
        await made.wait()
        assert [*stands(broker, drill.name)], "the connection alone has made queues"
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert [*stands(broker, drill.name)] == []
    assert drill.left == []


@pytest.mark.parametrize("broker", [rabbitmq, activemq], ids=["RabbitMQ", "ActiveMQ"])
def test_a_password_that_is_wrong(broker: Callable[[], Node]) -> None:
    node = broker()
    url = node.at(node.port, password=f"no{PASSWORD}")
    done = CliRunner().invoke(app, ["doctor", "adapter", url])
    assert done.exit_code == 1
    [line] = done.output.splitlines()
    assert line.startswith("FAIL  connection: the broker refused")
    assert "password" in line and PASSWORD not in line and "%" not in line


def test_a_port_where_nobody_is() -> None:
    done = CliRunner().invoke(
        app, ["doctor", "adapter"], env={"DRAGOMAN_ADAPTER": "amqp://127.0.0.1:9/"}
    )
    assert done.exit_code == 1
    assert done.output.startswith("FAIL  connection: Connection refused; see that")


@asynccontextmanager
async def started_again(node: Node) -> AsyncIterator[None]:
    """Meanwhile, *node* is started again whenever it has been killed."""

    async def start() -> None:
        await until(lambda: node._node is not None and node._node.poll() is not None, 600)
        node.stop()
        await node.start_again()

    task = asyncio.create_task(start())
    try:
        yield
        await task
    finally:
        task.cancel()


async def _all(node: Node, url: str, folder: Path, settings: dict[str, str]) -> dict[str, Result]:
    assert node._node is not None
    command = f"kill -{signal.SIGKILL} {node._node.pid}"
    wishes = Wishes(restart_command=command, folder=folder)
    async with started_again(node):
        return await drilled(Drill(url, settings, wishes))


def _kept(found: dict[str, Result], *but: str) -> None:
    assert [*found] == ["connection", *trials_of(Wishes())]
    others: Sequence[Result] = [each for each in found.values() if each.trial not in but]
    assert {each.promise for each in others} == {Promise.KEPT}, found


@pytest.mark.nightly  # A minute, 6 s of processor time, and the broker's start.
async def test_all_of_rabbitmq(tmp_path: Path) -> None:
    node = own_rabbitmq()
    url = node.at(node.tls_port).replace("amqp:", "amqps:").replace("127.0.0.1", "localhost")
    _kept(await _all(node, url, tmp_path, {"ca": str(node.ca)}))


@pytest.mark.nightly  # Two minutes, 6 s of processor time, and the broker's start.
async def test_all_of_activemq(tmp_path: Path) -> None:
    node = own_activemq()
    _kept(await _all(node, node.url, tmp_path, {}))


@pytest.mark.nightly  # rabbitmqctl takes 2 s of processor time for each call.
@pytest.mark.parametrize(
    ("policy", "promise", "text"),
    [
        ('{"max-length": 100}', Promise.BROKEN, "were dropped, the oldest of them"),
        ('{"message-ttl": 1}', Promise.BROKEN, "confirmed events that waited were dropped"),
        (
            '{"max-length": 100, "overflow": "reject-publish"}',
            Promise.KEPT,
            "a queue that is full refuses publishers",
        ),
    ],
)
async def test_a_policy_bounds_the_queues(policy: str, promise: Promise, text: str) -> None:
    node = own_rabbitmq()
    node.control("set_policy", "small", "^dragoman-drill-", policy, "--apply-to", "queues")
    try:
        found = await drilled(Drill(node.url, {}, those("backlog")))
    finally:
        node.control("clear_policy", "small")
    assert found["backlog"].promise is promise
    assert text in found["backlog"].text
