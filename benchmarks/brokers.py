"""Measures what a gateway in front of a broker costs.

Question: how many persistent messages of 1 KiB a second does a broker confirm to web services, and
how many reach consumers, against the same traffic with the broker's client library and no gateway?
And how many queues do 10,000 subscriptions on one topic cost?

Publishing: 32 in flight, as SOAP over HTTP, and as messages of pika or stomp.py with confirms or
receipts: once the payload alone, once the very messages that the gateway makes of the events, whose
headers cost the broker, too. Delivering: a backlog that was published while the gateway stood
still, to one consumer and to eight, each on a topic of its own and so with one message in flight.
Beside it the same backlog consumed and acknowledged with the same prefetch, and the same octets
posted with as many in flight by aiohttp, and by the gateway's own HTTP client, which does nothing
else meanwhile. The slower of consuming and posting is the limit.

RabbitMQ and ActiveMQ are private to the run. The gateway has the first core, publishers and
consumers the second, the brokers both.

    .venv/bin/python -m benchmarks.brokers [--messages 5000] [--prefetch 64] [--only rabbitmq]
"""

import argparse
import asyncio
import os
import re
import signal
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, SimpleQueue
from statistics import median
from typing import Any, Protocol

import aiohttp
import pika
import stomp
import uvloop
from pika.adapters.asyncio_connection import AsyncioConnection

from benchmarks.fanout import check_law, connect, subscribe
from benchmarks.machine import describe, pin, spread
from benchmarks.rig import TOPIC, Poster, Running, Sinks, envelope, gateway, subscribe_request
from benchmarks.sinks import Sink, Tally
from gateway.client.signals import end_as_by_interrupt
from gateway.egress import AddressPolicy, Dialer, HttpTransport, Request, parse_target
from mediation.model.versions import Soap, Version
from mediation.names import WSN_1_3
from mediation.soap.envelopes import http_headers
from tests.rigs.activemq import ActiveMQ
from tests.rigs.brokers import PASSWORD, USER, RabbitMQ, rabbitmq_node

OCTETS = 1024
IN_FLIGHT = 32
CONSUMERS = (1, 8)
SUBSCRIPTIONS = 10_000
BATCH = 500
"""Messages under way, or in a transaction, while a backlog is published."""
SECONDS = 120.0
"""The most seconds that a step may take."""

_FRAME = '<w:Warning xmlns:w="urn:weather"><w:x>{}</w:x></w:Warning>'
PAYLOAD = _FRAME.format("x" * (OCTETS + 2 - len(_FRAME)))


@dataclass(frozen=True)
class Sample:
    """A message of a gateway: its headers, and its body."""

    headers: dict[str, str]
    body: str


class Bare(Protocol):
    """A broker, as who uses its client library alone sees it."""

    def adapter(self, name: str) -> str:
        """The URL for a gateway whose destinations and queues begin with *name*."""

    async def prepare(self, name: str) -> None:
        """Have a durable queue that nobody consumes, and that gets what is published to *name*."""

    async def publish(self, name: str, count: int, sample: Sample | None = None) -> float:
        """Messages a second that the broker confirmed, `IN_FLIGHT` under way: the payload, or
        messages like *sample*."""

    async def sample(self, name: str) -> Sample:
        """A message out of that queue."""

    async def consume(self, name: str, count: int) -> float:
        """Messages a second out of that queue, each acknowledged."""

    async def fill(self, name: str, topics: Sequence[str], count: int) -> None:
        """Publish *count* messages, which *topics* get in turn, as fast as may be."""

    async def queues(self, name: str) -> int:
        """Return the number of queues of a gateway's *name*."""


class Stopwatch(Tally):
    """Counts what comes, and times it from the first tenth on: by then everything is under way."""

    def __init__(self) -> None:
        super().__init__()
        self.body = b""
        self.begin(0)

    def begin(self, wanted: int) -> None:
        """Begin a round of *wanted* messages."""
        self.count, self.wanted, self._began, self._ended = 0, wanted, 0.0, 0.0
        self.done.clear()

    def received(self, body: bytes) -> None:
        super().received(body)
        if self.count == self.wanted // 10:
            self._began = time.perf_counter()
        elif self.count == self.wanted:
            self._ended = time.perf_counter()
            self.body = body

    async def rate(self) -> float:
        """Wait for the end of the round; messages a second."""
        async with asyncio.timeout(SECONDS):
            await self.done.wait()
        return (self.wanted - self.wanted // 10) / (self._ended - self._began)


@dataclass(frozen=True)
class BareRabbitMQ:
    """pika, with its adapter for asyncio."""

    node: RabbitMQ
    prefetch: int

    def adapter(self, name: str) -> str:
        return f"{self.node.url}?name={name}&exchange={name}&prefetch={self.prefetch}"

    async def prepare(self, name: str) -> None:
        async with self._channel() as channel:
            queue = f"{name}.bare"
            await _ask(channel.exchange_declare, exchange=name, exchange_type="topic", durable=True)
            await _ask(channel.queue_declare, queue=queue, durable=True)
            await _ask(channel.queue_bind, queue=queue, exchange=name, routing_key="#")

    async def publish(self, name: str, count: int, sample: Sample | None = None) -> float:
        return await self._publish(name, [TOPIC], count, IN_FLIGHT, sample)

    async def fill(self, name: str, topics: Sequence[str], count: int) -> None:
        await self._publish(name, topics, count, BATCH)

    async def sample(self, name: str) -> Sample:
        async with self._channel() as channel, asyncio.timeout(SECONDS):
            found = asyncio.get_running_loop().create_future()

            def got(_channel: Any, _method: Any, properties: Any, body: bytes) -> None:
                found.set_result(Sample(properties.headers, body.decode()))

            channel.basic_get(f"{name}.bare", got, auto_ack=True)
            sample: Sample = await found
            return sample

    async def _publish(
        self,
        name: str,
        topics: Sequence[str],
        count: int,
        in_flight: int,
        sample: Sample | None = None,
    ) -> float:
        done = asyncio.Event()
        waiting: dict[int, None] = {}
        headers, body = (sample.headers, sample.body) if sample else (None, PAYLOAD)
        sent = 0

        def publish_more() -> None:
            nonlocal sent
            while len(waiting) < in_flight and sent < count:
                key = f"dragoman.adhoc.{topics[sent % len(topics)]}"
                sent += 1
                waiting[sent] = None
                properties = pika.BasicProperties(
                    "application/xml", headers=headers, delivery_mode=2, message_id=f"{name}-{sent}"
                )
                channel.basic_publish(name, key, body, properties)
            if not waiting:
                done.set()

        def answered(frame: Any) -> None:
            if not isinstance(frame.method, pika.spec.Basic.Ack):
                raise SystemExit("the broker refused a message")
            tag = frame.method.delivery_tag
            several = [each for each in waiting if each <= tag] if frame.method.multiple else [tag]
            for each in several:
                del waiting[each]
            publish_more()

        async with self._channel() as channel, asyncio.timeout(SECONDS):
            await _ask(channel.confirm_delivery, ack_nack_callback=answered)
            started = time.perf_counter()
            publish_more()
            await done.wait()
            return count / (time.perf_counter() - started)

    async def consume(self, name: str, count: int) -> float:
        watch = Stopwatch()
        watch.begin(count)

        def arrived(_channel: Any, method: Any, _properties: Any, body: bytes) -> None:
            channel.basic_ack(method.delivery_tag)
            watch.received(body)

        async with self._channel() as channel:
            await _ask(channel.basic_qos, prefetch_count=self.prefetch)
            await _ask(channel.basic_consume, queue=f"{name}.bare", on_message_callback=arrived)
            return await watch.rate()

    async def queues(self, name: str) -> int:
        names = await asyncio.to_thread(self.node.control, "list_queues", "name")
        return sum(each.startswith(f"{name}.") for each in names.split())

    @asynccontextmanager
    async def _channel(self) -> AsyncIterator[pika.channel.Channel]:
        """Open a channel as pika alone does, over its own transport."""
        loop = asyncio.get_running_loop()
        opened, closed = loop.create_future(), loop.create_future()
        connection = AsyncioConnection(
            pika.URLParameters(self.node.url),
            on_open_callback=opened.set_result,
            on_close_callback=lambda _connection, reason: closed.set_result(reason),
        )
        async with asyncio.timeout(SECONDS):
            await opened
            try:
                channel = loop.create_future()
                connection.channel(on_open_callback=channel.set_result)
                yield await channel
            finally:
                connection.close()
                await closed


async def _ask(method: Callable[..., Any], **arguments: Any) -> None:
    """Call a method of a channel, and wait for the broker's answer."""
    answer = asyncio.get_running_loop().create_future()
    method(callback=answer.set_result, **arguments)
    async with asyncio.timeout(SECONDS):
        await answer


@dataclass(frozen=True)
class BareActiveMQ:
    """stomp.py: one thread that sends, another that hears the broker."""

    broker: ActiveMQ
    prefetch: int

    def adapter(self, name: str) -> str:
        return f"{self.broker.url}?name={name}&root={name}&prefetch={self.prefetch}"

    async def prepare(self, name: str) -> None:
        with self._connection() as connection:
            connection.subscribe(_queue(name), "1", receipt="there")
            connection.unsubscribe("1")

    async def publish(self, name: str, count: int, sample: Sample | None = None) -> float:
        return await asyncio.to_thread(self._publish, name, count, sample)

    async def sample(self, name: str) -> Sample:
        return await asyncio.to_thread(self._sample, name)

    def _sample(self, name: str) -> Sample:
        frames: SimpleQueue[Any] = SimpleQueue()
        with self._connection() as connection:
            connection.set_listener("messages", _Messages(frames.put))
            connection.subscribe(_queue(name), "1", headers={"activemq.prefetchSize": "1"})
            try:
                frame = frames.get(timeout=SECONDS)
            except Empty:
                raise SystemExit("no message came") from None
        headers = frame.headers.items()
        return Sample(
            {each: value for each, value in headers if each.startswith(("cloudEvents_", "ws_"))},
            frame.body,
        )

    def _publish(self, name: str, count: int, sample: Sample | None) -> float:
        room = threading.Semaphore(IN_FLIGHT)
        with self._connection() as connection:
            connection.set_listener("receipts", _Receipts(room.release))
            started = time.perf_counter()
            for number in range(count):
                room.acquire(timeout=SECONDS)
                self._send(connection, name, TOPIC, number, sample, receipt=f"r{number}")
            for _ in range(IN_FLIGHT):
                room.acquire(timeout=SECONDS)
            return count / (time.perf_counter() - started)

    async def fill(self, name: str, topics: Sequence[str], count: int) -> None:
        await asyncio.to_thread(self._fill, name, topics, count)

    def _fill(self, name: str, topics: Sequence[str], count: int) -> None:
        with self._connection() as connection:
            for first in range(0, count, BATCH):
                transaction = connection.begin()
                for number in range(first, min(first + BATCH, count)):
                    topic = topics[number % len(topics)]
                    self._send(connection, name, topic, number, None, transaction=transaction)
                connection.commit(transaction)

    def _send(
        self,
        connection: stomp.Connection12,
        name: str,
        topic: str,
        number: int,
        sample: Sample | None,
        **headers: str,
    ) -> None:
        own, body = (sample.headers, sample.body) if sample else ({}, PAYLOAD)
        connection.send(
            f"/topic/VirtualTopic.{name}.adhoc.{topic}",
            body,
            "application/xml",
            {**own, "persistent": "true", "cloudEvents_id": f"{name}-{number}"},
            **headers,
        )

    async def consume(self, name: str, count: int) -> float:
        return await asyncio.to_thread(self._consume, name, count)

    def _consume(self, name: str, count: int) -> float:
        times: list[float] = []
        done = threading.Event()

        def arrived(frame: Any) -> None:
            connection.ack(frame.headers["ack"])
            times.append(time.perf_counter())
            if len(times) == count:
                done.set()

        with self._connection() as connection:
            connection.set_listener("messages", _Messages(arrived))
            prefetch = {"activemq.prefetchSize": str(self.prefetch)}
            connection.subscribe(_queue(name), "1", "client-individual", prefetch)
            if not done.wait(SECONDS):
                raise SystemExit(f"{len(times)} of {count} messages came")
        tenth = count // 10
        return (count - tenth) / (times[-1] - times[tenth - 1])

    async def queues(self, name: str) -> int:
        said = (self.broker.folder / "output.log").read_text()
        return len(set(re.findall(rf"adding destination: queue://Consumer\.{name}\.(\S+)", said)))

    @contextmanager
    def _connection(self) -> Iterator[stomp.Connection12]:
        connection = stomp.Connection12(
            [("127.0.0.1", self.broker.port)], auto_content_length=False
        )
        connection.connect(USER, PASSWORD, wait=True, with_connect_command=True)
        ended = threading.Event()
        connection.set_listener("end", _Receipts(lambda: None, ended.set))
        try:
            yield connection
        finally:
            connection.disconnect(receipt="end")
            ended.wait(SECONDS)


def _queue(name: str) -> str:
    return f"/queue/Consumer.bare.VirtualTopic.{name}.adhoc.{TOPIC}"


class _Receipts(stomp.ConnectionListener):  # type: ignore[misc]  # stomp.py has no types
    def __init__(self, receipt: Callable[[], None], end: Callable[[], None] | None = None) -> None:
        self._receipt, self._end = receipt, end

    def on_receipt(self, frame: Any) -> None:
        self._receipt()

    def on_disconnected(self) -> None:
        if self._end is not None:
            self._end()


class _Messages(stomp.ConnectionListener):  # type: ignore[misc]  # stomp.py has no types
    def __init__(self, message: Callable[[Any], None]) -> None:
        self.on_message = message


@contextmanager
def activemq_that_tells() -> Iterator[ActiveMQ]:
    """An ActiveMQ that says in its log which queues it makes: over STOMP it tells nobody."""
    with tempfile.TemporaryDirectory(prefix="dragoman-activemq-") as folder:
        broker = ActiveMQ(Path(folder))
        with (broker.folder / "log4j.properties").open("a") as logging:
            logging.write("log4j.logger.org.apache.activemq.broker.region.AbstractRegion=DEBUG\n")
        try:
            broker.start()
            yield broker
        finally:
            broker.stop(signal.SIGKILL)


def event(number: int) -> bytes:
    """`PAYLOAD` as a raw event of WS-Eventing on `TOPIC`."""
    return envelope(
        Version.WSE_2004_08,
        "<wsa:Action>urn:weather:Warning</wsa:Action>"
        f"<wsa:MessageID>urn:benchmark:{time.monotonic_ns()}:{number}</wsa:MessageID>"
        f'<n:Topic xmlns:n="{WSN_1_3}">{TOPIC}</n:Topic>',
        PAYLOAD,
    )


async def publish(running: Running, count: int) -> float:
    """Events a second that the gateway answered 202, `IN_FLIGHT` under way."""
    posters = [await connect(running) for _ in range(IN_FLIGHT)]
    numbers = iter(range(count))

    async def one(poster: Poster) -> None:
        for number in numbers:
            status, body = await poster.post(event(number))
            if status != 202:
                raise SystemExit(f"an event was refused: {status} {body[:300]!r}")

    started = time.perf_counter()
    async with asyncio.timeout(SECONDS):
        await asyncio.gather(*(one(poster) for poster in posters))
    elapsed = time.perf_counter() - started
    for poster in posters:
        poster.close()
    return count / elapsed


async def deliver(
    bare: Bare, name: str, running: Running, consumers: int, count: int
) -> tuple[float, bytes]:
    """Deliveries a second of a backlog of *count* to *consumers*, and what one of them got."""
    watch = Stopwatch()
    loop = asyncio.get_running_loop()
    poster = await connect(running)
    topics = [f"{TOPIC}-{consumers}-{number}" for number in range(consumers)]
    servers = []
    for topic in topics:
        server = await loop.create_server(lambda: Sink(watch), "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        request = subscribe_request(Version.WSE_2004_08, f"http://127.0.0.1:{port}/consumer")
        status, body = await poster.post(request.replace(b">storms<", f">{topic}<".encode()))
        if status != 200:
            raise SystemExit(f"Subscribe was refused: {status} {body[:300]!r}")
        servers.append(server)
    watch.begin(count)
    os.kill(running.pid, signal.SIGSTOP)
    try:
        await bare.fill(name, topics, count)
    finally:
        os.kill(running.pid, signal.SIGCONT)
    rate = await watch.rate()
    check_law(running)
    poster.close()
    for server in servers:
        server.close()
    return rate, watch.body


async def post(body: bytes, consumers: int, count: int) -> float:
    """Posts a second of the gateway's HTTP client alone, one in flight to each consumer."""
    sinks = Sinks(consumers)
    dialer = Dialer(AddressPolicy(loopback=True))
    transport = HttpTransport(dialer)
    headers = tuple(http_headers(Soap.V1_2, ""))
    pin(0)
    try:

        async def one(port: int) -> None:
            target = parse_target(f"http://127.0.0.1:{port}/consumer")
            for _ in range(count // consumers):
                await transport.send(Request(target, body, headers))

        started = time.perf_counter()
        async with asyncio.timeout(SECONDS):
            await asyncio.gather(*(one(port) for port in sinks.ports))
        return count / (time.perf_counter() - started)
    finally:
        pin(1)
        await transport.close()
        dialer.close()
        sinks.close()


async def post_by_library(body: bytes, consumers: int, count: int) -> float:
    """Posts a second of aiohttp's client, one in flight to each consumer."""
    sinks = Sinks(consumers)
    headers = dict(http_headers(Soap.V1_2, ""))
    pin(0)
    try:
        async with aiohttp.ClientSession() as session, asyncio.timeout(SECONDS):

            async def one(port: int) -> None:
                url = f"http://127.0.0.1:{port}/consumer"
                for _ in range(count // consumers):
                    async with session.post(url, data=body, headers=headers) as answer:
                        await answer.read()

            started = time.perf_counter()
            await asyncio.gather(*(one(port) for port in sinks.ports))
            return count / (time.perf_counter() - started)
    finally:
        pin(1)
        sinks.close()


@dataclass
class Figures:
    """Messages a second, one for each repetition."""

    bare_publish: list[float] = field(default_factory=list)
    like_publish: list[float] = field(default_factory=list)
    publish: list[float] = field(default_factory=list)
    bare_consume: list[float] = field(default_factory=list)
    post: dict[int, list[float]] = field(default_factory=lambda: {n: [] for n in CONSUMERS})
    library: dict[int, list[float]] = field(default_factory=lambda: {n: [] for n in CONSUMERS})
    deliver: dict[int, list[float]] = field(default_factory=lambda: {n: [] for n in CONSUMERS})

    def show(self, title: str) -> None:
        print(f"\n{title}: {OCTETS} octets, persistent")
        print(f"  published and confirmed, {IN_FLIGHT} in flight")
        print(f"    gateway              {spread(self.publish)}/s")
        for name, rates in (("the payload", self.bare_publish), ("the same", self.like_publish)):
            print(f"    bare, {name:15}{spread(rates)}/s")
            print(f"    ratio                {median(self.publish) / median(rates):.2f}")
        print(f"  bare consuming         {spread(self.bare_consume)}/s")
        for consumers in CONSUMERS:
            rate = median(self.deliver[consumers])
            print(f"  delivered to {consumers}, each in order")
            print(f"    gateway              {spread(self.deliver[consumers])}/s")
            for name, posts in (("aiohttp", self.library), ("own client", self.post)):
                limit = min(median(self.bare_consume), median(posts[consumers]))
                print(f"    bare {name:16}{spread(posts[consumers])}/s")
                print(f"    ratio to the slower  {rate / limit:.2f}")


async def repeat(bare: Bare, name: str, count: int, figures: Figures) -> None:
    """Measure everything once."""
    await bare.prepare(f"{name}-bare")
    figures.bare_publish.append(await bare.publish(f"{name}-bare", count))
    figures.bare_consume.append(await bare.consume(f"{name}-bare", count))
    with gateway(adapter=bare.adapter(f"{name}-in")) as running:
        # The gateway's own queues are for what is subscribed.
        await bare.prepare(f"{name}-in")
        await publish(running, IN_FLIGHT)
        figures.publish.append(await publish(running, count))
        check_law(running)
    sample = await bare.sample(f"{name}-in")
    await bare.prepare(f"{name}-like")
    figures.like_publish.append(await bare.publish(f"{name}-like", count, sample))
    for queue in ("in", "like"):  # A broker that is full takes no more.
        await bare.consume(f"{name}-{queue}", count)
    with gateway(adapter=bare.adapter(f"{name}-out")) as running:
        for consumers in CONSUMERS:
            rate, body = await deliver(bare, f"{name}-out", running, consumers, count)
            figures.deliver[consumers].append(rate)
            figures.post[consumers].append(await post(body, consumers, count))
            figures.library[consumers].append(await post_by_library(body, consumers, count))


async def count_queues(bare: Bare) -> tuple[int, int]:
    """Queues with one subscription, and with `SUBSCRIPTIONS` on one topic."""
    with gateway(adapter=bare.adapter("many")) as running:
        posters = [await connect(running) for _ in range(IN_FLIGHT)]
        ports = [50_000 + number % 9000 for number in range(SUBSCRIPTIONS)]
        await subscribe(posters[0], Version.WSE_2004_08, ports[:1])
        one = await bare.queues("many")
        await asyncio.gather(
            *(
                subscribe(poster, Version.WSE_2004_08, ports[1 + number :: IN_FLIGHT])
                for number, poster in enumerate(posters)
            )
        )
        many = await bare.queues("many")
        for poster in posters:
            poster.close()
    return one, many


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--messages", type=int, default=5000)
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--prefetch", type=int, default=64)
    parser.add_argument("--only", choices=("rabbitmq", "activemq"))
    options = parser.parse_args()
    with ExitStack() as stack:
        brokers: dict[str, Bare] = {}
        if options.only != "activemq":
            brokers["rabbitmq"] = BareRabbitMQ(
                stack.enter_context(rabbitmq_node()), options.prefetch
            )
        if options.only != "rabbitmq":
            brokers["activemq"] = BareActiveMQ(
                stack.enter_context(activemq_that_tells()), options.prefetch
            )
        pin(1)
        print(describe())
        print("load", *(f"{load:.1f}" for load in os.getloadavg()), "prefetch", options.prefetch)
        for title, bare in brokers.items():
            figures = Figures()
            for number in range(options.repetitions):
                await repeat(bare, f"run{number}", options.messages, figures)
            figures.show(title)
            one, many = await count_queues(bare)
            print(
                f"  queues                 {one} with 1 subscription, {many} with {SUBSCRIPTIONS:,}"
            )


if __name__ == "__main__":
    end_as_by_interrupt()
    uvloop.run(main())
