"""Measures queued transactions: messages a second through sequences, beside plain HTTP.

Question: how many one-way messages a second arrive through 32 sequences, to each of which a task
(or a thread) sends, each message stored, sent, stored, given to a function and acknowledged; beside
posts of the same envelopes by the same HTTP client to the same server in the same run, 32 at a
time? Plain posts are read by nobody, and answered with nothing; others are read, as any SOAP
service reads what it gets, and answered with an envelope, which the client reads.
What does each part of a message take? What do 10,000 open, idle sequences weigh? And how many
messages are there with PostgreSQL where each side commits a row of another database with each
message, in two phases (an eighth as many messages)?

    .venv/bin/python -m benchmarks.reliable [--messages 2000] [--postgresql URL]

Client and server are a process each, on a core each.
"""

import argparse
import asyncio
import http.client
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from statistics import median

import psycopg
from sqlalchemy import create_engine

from benchmarks.machine import describe, pin, spread
from gateway.client.calling import Caller
from gateway.client.reliable import (
    Delivery,
    Policy,
    Receiver,
    ReliableClient,
)
from gateway.client.signals import end_as_by_interrupt
from gateway.reliability.stores.participants import PsycopgConnections
from gateway.reliability.stores.two_phase import TwoPhaseStore
from mediation.model.messages import EndpointReference
from mediation.model.versions import Soap, Wsa
from mediation.reliable_messaging import read_message
from mediation.reliable_messaging.application import write_application_message
from mediation.soap.envelopes import http_headers

CORES = sorted(os.sched_getaffinity(0))
SEQUENCES = 32
IDLE = 10_000
TWO_PHASE = "two-phase"
INSERT = "INSERT INTO rows (text) VALUES ('tea')"
ACTION = "urn:example:orders/Order"
BODY = b'<order xmlns="urn:example:orders">' + b"x" * 500 + b"</order>"
ANSWER = write_application_message(
    Soap.V1_2,
    Wsa.V2005_08,
    action=f"{ACTION}Response",
    body=b'<taken xmlns="urn:example:orders"/>',
    to=EndpointReference(Wsa.V2005_08.anonymous, Wsa.V2005_08),
    message_id="urn:example:2",
    relates_to="urn:example:1",
)
POLICY = Policy(interval=30.0)
"""Nothing is lost here, so that nothing is to be sent twice."""


def opened(store: str) -> str | TwoPhaseStore:
    """What a client or a receiver is given: *store* is the URL of one, or, with a blank between
    them, that of one and that of a database of PostgreSQL that takes part."""
    url, _, data = store.partition(" ")
    return TwoPhaseStore(url, [PsycopgConnections("data", data)]) if data else url


def serve(store: str) -> None:
    """The server's process: a receiver, and a place that answers 202 to anything."""
    import socket

    import uvicorn

    def take(each: Delivery) -> None:
        if " " in store:
            each.enlist("data").execute(INSERT)

    receiver = Receiver(opened(store), policy=POLICY)
    receiver.service("/orders", take)

    async def app(scope, receive, send):  # type: ignore[no-untyped-def]
        if scope.get("path") not in ("/plain", "/read"):
            await receiver(scope, receive, send)
            return
        message = await receive()
        body = message["body"]
        while message.get("more_body"):
            message = await receive()
            body += message["body"]
        status, answer, headers = 202, b"", []
        if scope["path"] == "/read":
            read_message(body)
            status, answer = 200, ANSWER
            headers = [(b"content-type", b"application/soap+xml; charset=utf-8")]
        headers.append((b"content-length", str(len(answer)).encode()))
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": answer})

    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)
    uvicorn.Server(uvicorn.Config(app, log_config=None, ws="none")).run([listener])


@contextmanager
def server(store: str) -> Iterator[str]:
    """Run it; yields its URL."""
    command = [sys.executable, "-m", "benchmarks.reliable", "--serve", store]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    os.sched_setaffinity(process.pid, {CORES[0]})
    try:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}"
    finally:
        process.terminate()
        process.wait(30)


@contextmanager
def stores(kind: str, folder: str, url: str) -> Iterator[tuple[str, str]]:
    """The stores of both sides, as `opened` takes them."""
    if kind not in ("postgresql", TWO_PHASE):
        yield (
            ("memory:", "memory:")
            if kind == "memory"
            else (f"sqlite:///{folder}/client.db", f"sqlite:///{folder}/server.db")
        )
        return
    admin = create_engine(
        url.replace("postgresql:", "postgresql+psycopg:"), isolation_level="AUTOCOMMIT"
    )
    sides = [f"reliable_{os.getpid()}_{side}" for side in ("client", "server")]
    data = [f"{side}_data" for side in sides] if kind == TWO_PHASE else []
    names = [*sides, *data]
    with admin.connect() as connection:
        for name in names:
            connection.exec_driver_sql(f"CREATE DATABASE {name}")
    try:
        one, other, *others = (
            admin.url.set(database=name, drivername="postgresql").render_as_string(
                hide_password=False
            )
            for name in names
        )
        for each in others:
            with psycopg.connect(each) as made:
                made.execute("CREATE TABLE rows (id bigserial PRIMARY KEY, text text)")
        yield (f"{one} {others[0]}", f"{other} {others[1]}") if others else (one, other)
    finally:
        with admin.connect() as connection:
            for name in names:
                connection.exec_driver_sql(f"DROP DATABASE {name} WITH (FORCE)")
        admin.dispose()


async def posts(url: str, messages: int, *, read: bool) -> float:
    """Posts a second: plain ones, or such as are read by both sides."""
    place = f"{url}/read" if read else f"{url}/plain"
    to = EndpointReference(place, Wsa.V2005_08)
    envelope = write_application_message(
        Soap.V1_2, Wsa.V2005_08, action=ACTION, body=BODY, to=to, message_id="urn:example:1"
    )
    headers = dict(http_headers(Soap.V1_2, ACTION))
    left = iter(range(messages))

    async def post(caller: Caller) -> None:
        for _ in left:
            answer = await caller.call("POST", place, body=envelope, headers=headers)
            assert answer.status == (200 if read else 202)
            if read:
                read_message(answer.body)

    async with Caller() as caller:
        started = time.perf_counter()
        await asyncio.gather(*(post(caller) for _ in range(SEQUENCES)))
        return messages / (time.perf_counter() - started)


def through_sequences(
    url: str, store: str, messages: int, *, threads: bool = False
) -> tuple[float, float]:
    """Messages a second from the first that is stored to the last that is acknowledged, and of
    these seconds the ones that storing took.

    Args:
        threads: Threads send, not tasks.
    """
    client = ReliableClient(opened(store), policy=POLICY)
    target = f"{url}/orders"

    def send(key: int) -> None:
        for _ in range(key, messages, SEQUENCES):
            client.send(target, BODY, action=ACTION, key=str(key))

    async def send_async(key: int) -> None:
        for _ in range(key, messages, SEQUENCES):
            if " " not in store:
                await client.send_async(target, BODY, action=ACTION, key=str(key))
                continue
            async with client.transaction() as tx:
                tx.enlist("data").execute(INSERT)
                tx.send(target, BODY, action=ACTION, key=str(key))

    async def send_all() -> None:
        await asyncio.gather(*(send_async(key) for key in range(SEQUENCES)))

    with client:
        for key in range(SEQUENCES):  # The sequences are there before the clock runs.
            client.send(target, BODY, action=ACTION, key=str(key))
        assert client.drain(120)
        started = time.perf_counter()
        if threads:
            with ThreadPoolExecutor(SEQUENCES) as pool:
                for sent in [pool.submit(send, key) for key in range(SEQUENCES)]:
                    sent.result(300)
        else:
            asyncio.run(send_all())
        stored = time.perf_counter()
        assert client.drain(300)
        ended = time.perf_counter()
    return messages / (ended - started), stored - started


def parts(url: str, store: str, messages: int) -> dict[str, float]:
    """Milliseconds of each part of a message, one after the other."""
    took: dict[str, float] = {}

    @contextmanager
    def part(name: str) -> Iterator[None]:
        started = time.perf_counter()
        yield
        took[name] = took.get(name, 0.0) + (time.perf_counter() - started) * 1000 / messages

    to = EndpointReference(f"{url}/orders", Wsa.V2005_08)
    with part("create"):
        for number in range(messages):
            write_application_message(
                Soap.V1_2,
                Wsa.V2005_08,
                action=ACTION,
                body=BODY,
                to=to,
                message_id=f"urn:example:{number}",
            )
    client = ReliableClient(opened(store), policy=POLICY)  # It is not started: that is done here.
    with part("store"):
        for _ in range(messages):
            client.send(f"{url}/orders", BODY, action=ACTION)
    endpoint = client._endpoint
    connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=60)
    while client.waiting():
        with part("choose"):
            found = endpoint.due(time.time())
        for outgoing in found:
            with part("send"):
                headers = dict(outgoing.http_headers)
                connection.request("POST", "/orders", outgoing.envelope, headers)
                answer = connection.getresponse().read()
            with part("acknowledge"):
                endpoint.sent(outgoing, time.time(), delivered=True, answer=answer)
    connection.close()
    client.close()
    return took


def idle(store: str) -> float:
    """What *IDLE* open sequences weigh in the process of the client, in MiB."""

    def resident() -> float:
        return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 2**20

    client = ReliableClient(store, policy=POLICY)
    before = resident()
    for start in range(0, IDLE, 100):
        with client.transaction() as tx:
            for key in range(start, start + 100):
                tx.send("http://127.0.0.1:9/", b"<a/>", action=ACTION, key=str(key))
    weighed = resident() - before
    client.close()
    return weighed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--messages", type=int, default=2000)
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument(
        "--postgresql",
        help="URL of a server, whose user may create databases; with max_prepared_transactions of "
        "64 and max_connections of 200, for two phases",
    )
    parser.add_argument("--stores", nargs="+", default=None)
    parser.add_argument("--threads", action="store_true", help="threads send, not tasks")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options.serve)
        return
    pin(1)
    print(describe())
    databases = ["postgresql", TWO_PHASE] if options.postgresql else []
    for kind in options.stores or ["memory", "sqlite", *databases]:
        messages = options.messages // 8 if kind == TWO_PHASE else options.messages
        plain: list[float] = []
        read: list[float] = []
        rates: list[float] = []
        stored: list[float] = []
        each: dict[str, float] = {}
        for _ in range(options.repetitions):
            with (
                tempfile.TemporaryDirectory(dir=".", prefix=".benchmark-") as folder,
                stores(kind, folder, options.postgresql or "") as (here, there),
                server(there) as url,
            ):
                plain.append(asyncio.run(posts(url, options.messages, read=False)))
                read.append(asyncio.run(posts(url, options.messages, read=True)))
                rate, seconds = through_sequences(url, here, messages, threads=options.threads)
                rates.append(rate)
                stored.append(messages / seconds)
                each = parts(url, here, min(messages, 1000))
        print(f"\n{kind}: {SEQUENCES} sequences, {messages} messages")
        print(f"  through sequences  {spread(rates)} messages/s")
        print(f"  plain posts        {spread(plain)} posts/s")
        print(f"  posts that are read {spread(read)} posts/s")
        for name, others in (("plain posts", plain), ("posts that are read", read)):
            ratios = [one / other for one, other in zip(rates, others, strict=True)]
            shown = f"{median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
            print(f"  ratio to {name:20} {shown}")
        print(f"  stored             {spread(stored)} messages/s, while sending")
        shown = ", ".join(f"{name} {took:.2f}" for name, took in each.items())
        print(f"  one after the other, ms each: {shown}")
    with tempfile.TemporaryDirectory(dir=".", prefix=".benchmark-") as folder:
        for kind in ("memory", "sqlite"):
            store = "memory:" if kind == "memory" else f"sqlite:///{folder}/idle.db"
            print(f"\n{IDLE:,} idle sequences, {kind}: {idle(store):.0f} MiB")


if __name__ == "__main__":
    end_as_by_interrupt()
    main()
