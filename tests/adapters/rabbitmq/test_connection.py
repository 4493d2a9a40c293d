"""Connections of pika as awaitables: what goes wrong while one is opened."""

import asyncio
import uuid
from collections.abc import Callable
from contextlib import closing

import pika
import pytest

from adapters.rabbitmq.connection import Connection, Lost
from tests.rigs.brokers import needs_rabbitmq, rabbitmq, wire_to
from tests.rigs.waiting import until

Served = Callable[[asyncio.StreamReader, asyncio.StreamWriter], None]


def abort(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.transport.abort()


def close(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.close()


def speak_first(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"220 mail.example ESMTP\r\n")
    writer.close()


@pytest.mark.parametrize("served", [abort, close, speak_first])
async def test_a_peer_that_is_no_broker(served: Served) -> None:
    """It is told at once, not after pika's time for the whole stack."""
    server = await asyncio.start_server(served, "127.0.0.1", 0)
    with closing(server):
        parameters = pika.ConnectionParameters(
            "127.0.0.1",
            server.sockets[0].getsockname()[1],
            connection_attempts=1,
            stack_timeout=60,
        )
        async with asyncio.timeout(60):
            for _ in range(5):
                with pytest.raises(Lost):
                    await Connection.open(parameters)


async def test_opening_is_given_up(caplog: pytest.LogCaptureFixture) -> None:
    """Nothing is left behind: no socket, no task that fails."""
    came, left = asyncio.Event(), asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        came.set()
        await reader.read()
        left.set()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    with closing(server):
        port = server.sockets[0].getsockname()[1]
        opening = asyncio.create_task(
            Connection.open(pika.ConnectionParameters("127.0.0.1", port, connection_attempts=1))
        )
        async with asyncio.timeout(60):
            await came.wait()
            opening.cancel()
            with pytest.raises(asyncio.CancelledError):
                await opening
            await left.wait()
    assert "exception was never retrieved" not in caplog.text


async def test_acknowledgements_do_not_wait_for_ever() -> None:
    """The last ones before a silence: too few for a frame of their own, and nothing comes."""
    needs_rabbitmq()
    broker = rabbitmq()
    queue = f"test-{uuid.uuid4().hex}"
    tags: asyncio.Queue[int] = asyncio.Queue()
    async with asyncio.timeout(30), wire_to(broker.port) as wire:
        connection = await Connection.open(pika.URLParameters(broker.at(wire.port)))
        channel = await connection.channel()
        await channel.ask(channel.raw.queue_declare, queue=queue, durable=True)
        for _ in range(10):
            channel.publish("", queue, pika.BasicProperties(), b"<a/>", mandatory=True)
        await channel.consume(
            queue,
            lambda method, _properties, _body: tags.put_nowait(method.delivery_tag),
            exclusive=False,
        )
        taken = [await tags.get() for _ in range(10)]
        carried = wire.carried.total()
        channel.acknowledge(taken[0])
        channel.acknowledge(taken[2])
        await until(lambda: wire.carried.total() > carried)
        # It is answered after what was sent before it has been dealt with.
        await channel.ask(channel.raw.basic_qos, prefetch_count=1)
        await wire.cut()
        await connection.closed
        other = await Connection.open(pika.URLParameters(broker.url))
        channel = await other.channel()

        async def all_others_lie_in_the_queue_again() -> bool:
            answer = await channel.ask(channel.raw.queue_declare, queue=queue, passive=True)
            left: int = answer.method.message_count
            assert left <= 8
            return left == 8

        await until(all_others_lie_in_the_queue_again)
        await channel.ask(channel.raw.queue_delete, queue=queue)
        await other.close(5)


async def test_a_broker_that_does_not_close_is_left_to_pika() -> None:
    """What comes from it afterwards is nobody's."""
    needs_rabbitmq()
    broker = rabbitmq()
    alarms: list[bool] = []
    async with asyncio.timeout(30), wire_to(broker.port) as wire:
        parameters = pika.URLParameters(broker.at(wire.port))
        connection = await Connection.open(parameters)
        channel = await connection.channel()
        connection.watch_alarms(alarms.append)
        wire.fall_silent()
        asking = asyncio.create_task(channel.ask(channel.raw.basic_qos, prefetch_count=1))
        await asyncio.sleep(0)
        await connection.close(0.1)
        assert str(connection.closed.result()) == "the broker did not close the connection"
        with pytest.raises(Lost, match="did not close"):
            await asking
        with pytest.raises(Lost):
            channel.acknowledge(1)
        await wire.cut()
