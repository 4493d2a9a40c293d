"""Publishing in a sequence, as programs and ``dragoman publish --reliable`` do."""

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from gateway.client import GatewayError
from gateway.client.sequences import SequencePublisher
from mediation.client import SPECS
from mediation.model.versions import Version
from mediation.reliable_messaging import Rm
from tests.rigs.consumers import Consumer, consumers
from tests.rigs.envelopes import Speaker
from tests.rigs.gateways import Running, read_http, running
from tests.rigs.programs import RunningGateway
from tests.rigs.programs import run as run_program
from tests.rigs.reliable_publishers import numbers_in

SPEAKER = Speaker()
SPOKEN = [version for version, spec in SPECS.items() if spec.wsa in Rm.V1_1.rules.wsa]


def event(number: int) -> bytes:
    return f'<e:event xmlns:e="urn:example">{number}</e:event>'.encode()


@asynccontextmanager
async def a_gateway(data: Path, **settings: object) -> AsyncIterator[tuple[Running, Consumer]]:
    chosen = {"wsrm": "offered", "adapter": "embedded:", **settings}
    async with consumers() as some, running(data, **chosen) as run:
        consumer = some.add()
        await run.subscribe(SPEAKER, SPEAKER.wsn_subscribe(consumer.url))
        yield run, consumer


@asynccontextmanager
async def losing(run: Running, lost: set[int]) -> AsyncIterator[str]:
    """The URL of a relay that loses answers: those with these numbers, from 1 on."""
    count = 0

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal count
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = next(
                    int(line.split(b":")[1])
                    for line in head.lower().splitlines()
                    if line.startswith(b"content-length")
                )
                body = await reader.readexactly(length)
                back, out = await asyncio.open_connection("127.0.0.1", run.port)
                out.write(head + body)
                first, headers, answer = await read_http(back)
                out.close()
                count += 1
                if count in lost:
                    return
                kind = headers.get("content-type", "text/plain")
                writer.write(
                    f"{first}\r\nContent-Type: {kind}\r\nContent-Length: {len(answer)}\r\n\r\n".encode()
                    + answer
                )
        except (asyncio.IncompleteReadError, OSError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(relay, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


@asynccontextmanager
async def proxied(run: Running, pages: list[tuple[int, str]]) -> AsyncIterator[str]:
    """The URL of a proxy that answers with pages of its own, then forwards."""

    async def handle(request: web.Request) -> web.Response:
        body = await request.read()
        if pages:
            status, page = pages.pop(0)
            return web.Response(status=status, text=page, content_type="text/html")
        headers = {"Content-Type": request.headers["Content-Type"]}
        async with session.post(f"{run.url}{request.path}", data=body, headers=headers) as answer:
            return web.Response(
                status=answer.status, body=await answer.read(), content_type=answer.content_type
            )

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handle)
    async with aiohttp.ClientSession() as session, TestServer(app) as server:
        yield str(server.make_url("/"))


async def numbers(run: Running, consumer: Consumer, wanted: int) -> list[int]:
    await run.until(lambda: len(consumer.received) >= wanted)
    await run.quiet()
    return numbers_in(receipt.body for receipt in consumer.received)


@pytest.mark.parametrize("rm", Rm)
@pytest.mark.parametrize("version", SPOKEN, ids=lambda version: version.value)
async def test_publish(tmp_path: Path, version: Version, rm: Rm) -> None:
    async with a_gateway(tmp_path) as (run, consumer):
        async with SequencePublisher(run.url, version, rm=rm) as publisher:
            for number in (1, 2, 3):
                await publisher.publish(event(number), topic="storms")
            await publisher.finish()
        assert await numbers(run, consumer, 3) == [1, 2, 3]
        assert run.gateway.sequences is not None
        [state] = await run.gateway.sequences.listed()
        assert state.sequence.ended_at is not None
        assert state.sequence.complete


async def test_answers_are_lost(tmp_path: Path) -> None:
    """Of CreateSequence, of events once and twice, and of the end."""
    async with a_gateway(tmp_path) as (run, consumer), losing(run, {1, 3, 4, 6, 8}) as url:
        async with SequencePublisher(url) as publisher:
            for number in (1, 2, 3):
                await publisher.publish(event(number))
            await publisher.finish()
        assert await numbers(run, consumer, 3) == [1, 2, 3]


@pytest.mark.parametrize("page", ["<html><body>Bad Gateway</body></html>", ""])
async def test_a_proxy_whose_gateway_is_away(tmp_path: Path, page: str) -> None:
    """Its pages are waited out: for CreateSequence, and for an event."""
    pages = [(502, page), (504, page)]
    async with a_gateway(tmp_path) as (run, consumer), proxied(run, pages) as url:
        async with SequencePublisher(url) as publisher:
            await publisher.publish(event(1))
            assert not pages
            pages += [(502, page), (502, page)]
            await publisher.publish(event(2))
            assert not pages
            await publisher.finish()
        assert await numbers(run, consumer, 2) == [1, 2]


async def test_a_proxy_whose_gateway_stays_away(tmp_path: Path) -> None:
    pages = [(502, "<html/>")] * 1000
    async with (
        a_gateway(tmp_path) as (run, _),
        proxied(run, pages) as url,
        SequencePublisher(url, patience=1.0) as publisher,
    ):
        with pytest.raises(GatewayError, match="within 1 seconds: 502 Bad Gateway"):
            await publisher.publish(event(1))


async def test_a_page_of_somebody_else(tmp_path: Path) -> None:
    pages = [(404, "<html/>")]
    async with (
        a_gateway(tmp_path) as (run, _),
        proxied(run, pages) as url,
        SequencePublisher(url) as publisher,
    ):
        with pytest.raises(GatewayError, match="404"):
            await publisher.publish(event(1))


async def test_an_event_that_is_refused(tmp_path: Path) -> None:
    """It has had its turn: the next one is refused for itself, not for want of the first."""
    async with (
        a_gateway(tmp_path, requires_registration=True) as (run, _),
        SequencePublisher(run.url) as publisher,
    ):
        for number in (1, 2):
            with pytest.raises(GatewayError, match="regist"):
                await publisher.publish(event(number))
        await publisher.finish()
        assert run.gateway.sequences is not None
        [state] = await run.gateway.sequences.listed()
        assert (state.delivered, state.sequence.complete) == (2, True)


async def test_a_gateway_that_takes_no_sequences(tmp_path: Path) -> None:
    async with (
        a_gateway(tmp_path, wsrm="off") as (run, _),
        SequencePublisher(run.url) as publisher,
    ):
        with pytest.raises(GatewayError, match="--wsrm offered"):
            await publisher.publish(event(1))


async def test_nobody_answers() -> None:
    async with SequencePublisher("http://127.0.0.1:9", patience=1.0) as publisher:
        with pytest.raises(GatewayError, match="within 1 seconds: cannot reach"):
            await publisher.publish(event(1))


@pytest.mark.slow
def test_the_command(tmp_path: Path) -> None:
    (tmp_path / "one.xml").write_bytes(event(1))
    arguments = ("--adapter", "embedded:", "--data", "own", "--wsrm", "required")
    with RunningGateway(*arguments, cwd=tmp_path) as gateway:
        options = ("--gateway", gateway.url, "--topic", "storms")
        refused = run_program("publish", "one.xml", *options, cwd=tmp_path)
        assert refused.returncode != 0
        assert "requires the use of WSRM" in refused.stderr
        done = run_program("publish", "--reliable", "one.xml", "one.xml", *options, cwd=tmp_path)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout == "published one.xml to storms\n" * 2
        for words, said in (
            (("--spec", "cloudevents"), "is not sent in sequences"),
            (("--spec", "wsn-1.2"), "is not sent in sequences"),
        ):
            odd = run_program("publish", "--reliable", "one.xml", *options, *words, cwd=tmp_path)
            assert odd.returncode != 0
            assert said in odd.stderr
        listed = run_program("sequences", "list", "--gateway", gateway.url, cwd=tmp_path)
        assert listed.stdout.splitlines()[1].split()[1:3] == ["in", "ended"]
        assert gateway.stop(signal.SIGTERM) == 0
