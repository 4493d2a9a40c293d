"""Measures outbox and inbox through RabbitMQ, beside bare pika.

Question: how many messages a second go from one program to another, where each is stored in the
transaction that inserts a row of the sender, and taken in one that inserts a row of the receiver:
program, gateway, RabbitMQ, gateway, program; beside a program that inserts a row, commits, and
publishes with pika and confirms, and one that inserts a row, commits, and acknowledges? What bare
pika does loses messages, and doubles them, where a process ends between two of these steps.

    .venv/bin/python -m benchmarks.outbox [--messages 4000] [--database sqlite|postgresql]
"""

import argparse
import asyncio
import contextlib
import multiprocessing
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

import pika
from sqlalchemy import Column, Engine, Integer, MetaData, Table, Text, create_engine, func, select

from benchmarks.machine import describe, spread
from gateway.client.outbox import Inbox, Message, Outbox
from gateway.databases import driver_url
from tests.rigs.brokers import rabbitmq_node
from tests.rigs.ports import free_ports
from tests.rigs.postgresql import postgresql_cluster
from tests.rigs.processes import GatewayProcess
from tests.rigs.rabbitmq_adapters import environment_of
from tests.rigs.waiting import wait_until

TOPIC, QUEUE = "orders", "bare"
BODY = {"item": "tea", "filling": "x" * 400}
KEYS = 32
END = 300.0

metadata = MetaData()
sold = Table("sold", metadata, Column("id", Integer, primary_key=True), Column("item", Text))
taken = Table("taken", metadata, Column("id", Integer, primary_key=True), Column("item", Text))


def engine_of(url: str) -> Engine:
    """The engine of a database, with the tables of both programs."""
    engine = create_engine(driver_url(url))
    metadata.create_all(engine)
    return engine


def count(engine: Engine) -> int:
    """How many messages were taken."""
    with engine.connect() as connection:
        return int(connection.execute(select(func.count()).select_from(taken)).scalar_one())


def receive(url: str, gateway: str, port: int) -> None:
    """Run the receiver."""
    address = f"http://127.0.0.1:{port}/"
    inbox = Inbox(engine_of(url), gateway=gateway, address=address)

    @inbox.on(TOPIC)
    def take(message: Message) -> None:
        message.connection.execute(taken.insert().values(item=message.json()["item"]))

    inbox.serve(port)


def send(url: str, gateway: str, messages: int) -> None:
    """Run the sender."""
    engine = engine_of(url)
    with Outbox(engine, gateway) as outbox:
        for number in range(messages):
            with engine.begin() as connection:
                connection.execute(sold.insert().values(item="tea"))
                outbox.publish(TOPIC, BODY, connection, key=str(number % KEYS))
        outbox.drain(END)


def bare_receive(url: str, broker: str) -> None:
    """Take messages with pika: a row, a commit, an acknowledgement."""
    engine = engine_of(url)
    channel = pika.BlockingConnection(pika.URLParameters(broker)).channel()
    channel.basic_qos(prefetch_count=64)
    for method, _, _body in channel.consume(QUEUE):
        with engine.begin() as connection:
            connection.execute(taken.insert().values(item="tea"))
        assert method is not None
        channel.basic_ack(method.delivery_tag)


def bare_send(url: str, broker: str, messages: int) -> None:
    """Send messages with pika: a row, a commit, a message that is confirmed."""
    engine = engine_of(url)
    channel = pika.BlockingConnection(pika.URLParameters(broker)).channel()
    channel.confirm_delivery()
    body, kept = str(BODY).encode(), pika.BasicProperties(delivery_mode=2)
    for _ in range(messages):
        with engine.begin() as connection:
            connection.execute(sold.insert().values(item="tea"))
        channel.basic_publish("", QUEUE, body, kept)


def measure(
    urls: tuple[str, str], receiver: Callable[..., None], others: tuple[Any, ...],
    sender: Callable[..., None], to: str, messages: int,
) -> float:  # fmt: skip
    """Messages a second, from the first row of the receiver to its last."""
    spawn = multiprocessing.get_context("spawn")
    engine = engine_of(urls[1])
    before = count(engine)
    takes = spawn.Process(target=receiver, args=(urls[1], *others), daemon=True)
    takes.start()
    try:
        warm = spawn.Process(target=sender, args=(urls[0], to, 10))
        time.sleep(3.0)  # It subscribes.
        warm.start()
        wait_until(lambda: count(engine) >= before + 10, END)
        warm.join()
        sends = spawn.Process(target=sender, args=(urls[0], to, messages))
        sends.start()
        wait_until(lambda: count(engine) >= before + 11, END)
        began, first = time.monotonic(), count(engine)
        wait_until(lambda: count(engine) >= before + 10 + messages, END)
        rate = (before + 10 + messages - first) / (time.monotonic() - began)
        sends.join()
        return rate
    finally:
        takes.terminate()
        takes.join()
        engine.dispose()


@contextlib.contextmanager
def databases(kind: str, folder: Path) -> Iterator[tuple[str, str]]:
    """The URLs of the databases of sender and receiver."""
    if kind == "sqlite":
        yield f"sqlite:///{folder}/shop.db", f"sqlite:///{folder}/warehouse.db"
        return
    with postgresql_cluster() as cluster:
        yield cluster.url(cluster.make_database()), cluster.url(cluster.make_database())


async def main() -> None:
    """Measure, and print what was found."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--messages", type=int, default=4000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--database", choices=("sqlite", "postgresql"))
    options = parser.parse_args()
    print(describe())
    kinds = [options.database] if options.database else ["sqlite", "postgresql"]
    with tempfile.TemporaryDirectory(prefix="dragoman-") as name, rabbitmq_node() as broker:
        gateway = GatewayProcess(Path(name) / "gateway", environment_of(broker.url))
        await gateway.start()
        channel = pika.BlockingConnection(pika.URLParameters(broker.url)).channel()
        channel.queue_declare(QUEUE, durable=True)
        for kind in kinds:
            with databases(kind, Path(name)) as urls:
                await asyncio.to_thread(compare, kind, urls, gateway.url, broker.url, options)
        await gateway.end()


def compare(
    kind: str, urls: tuple[str, str], gateway: str, broker: str, options: argparse.Namespace
) -> None:
    """Measure both ways in turn."""
    ours: list[float] = []
    bare: list[float] = []
    for _ in range(options.rounds):
        (port,) = free_ports(1)
        ours.append(measure(urls, receive, (gateway, port), send, gateway, options.messages))
        bare.append(measure(urls, bare_receive, (broker,), bare_send, broker, options.messages))
        print(f"{kind}: {ours[-1]:,.0f} messages/s, bare pika {bare[-1]:,.0f}", flush=True)
    ratios = [mine / its for mine, its in zip(ours, bare, strict=True)]
    print(
        f"{kind}: {spread(ours)} messages/s, bare pika {spread(bare)}, "
        f"ratio {median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
    )


if __name__ == "__main__":
    asyncio.run(main())
