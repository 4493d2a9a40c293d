"""A wait for a message that is cancelled, by a time limit, say, loses nothing, and ends nothing: each
consumer of programs that is iterated."""

import ast
import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

import dragoman
import gateway.client
from gateway.client import Consumer, GatewayError, PulledMailbox
from gateway.client.calling import Caller
from gateway.client.consumer import Headers, ReceivedMessage, read_message
from gateway.client.discovery.search_results import SearchResults
from gateway.client.discovery.topic_search import Search
from gateway.client.sequence_consumer import SequenceConsumer
from gateway.client.soap_tcp import SoapTcpCaller, SoapTcpConsumer
from mediation.client import Ended, Received
from mediation.model.versions import Soap
from tests.rigs.gateways import Running, running
from tests.rigs.waiting import DEADLINE, cancel_wait, until

EVENT = """
<s:Envelope xmlns:s="http://www.w3.org/2003/05/soap-envelope"
    xmlns:a="http://www.w3.org/2005/08/addressing">
  <s:Header><a:To>{}</a:To></s:Header><s:Body><n>{}</n></s:Body>
</s:Envelope>"""
PARTS = (dragoman, gateway.client)
CONSUMERS = {
    "http": Consumer,
    "sequences": SequenceConsumer,
    "soap.tcp": SoapTcpConsumer,
    "mailbox": PulledMailbox,
}


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Running]:
    async with running(tmp_path) as run:
        yield run


def payloads(messages: Sequence[ReceivedMessage]) -> list[str]:
    return [one.payload.decode() for message in messages for one in message.notifications]


async def send(address: str, number: int) -> None:
    octets = EVENT.format(address, number).encode()
    if address.startswith("soap.tcp"):
        caller = SoapTcpCaller()
        await caller.call(address, Soap.V1_2, octets, one_way=True)
        caller.close()
        return
    headers = {"Content-Type": "application/soap+xml"}
    async with (
        aiohttp.ClientSession() as http,
        http.post(address, data=octets, headers=headers) as answer,
    ):
        assert answer.status == 202


def made(kind: Callable[..., Any], broker: Running, **how: Any) -> AbstractAsyncContextManager[Any]:
    consumer: AbstractAsyncContextManager[Any]
    consumer = kind(broker.url, **how) if kind is PulledMailbox else kind(**how)
    return consumer


@pytest.mark.parametrize("kind", CONSUMERS.values(), ids=CONSUMERS)
async def test_a_cancelled_wait_ends_no_iteration(
    kind: Callable[..., Any], broker: Running
) -> None:
    async with asyncio.timeout(DEADLINE), made(kind, broker) as consumer:
        messages = aiter(consumer)
        for number in range(2):
            await cancel_wait(anext(messages))
            await send(consumer.address, number)
            assert payloads([await anext(messages)]) == [f"<n>{number}</n>"]


async def following(mailbox: PulledMailbox) -> ReceivedMessage:
    """The next message of a new iteration."""
    message: ReceivedMessage = await anext(aiter(mailbox))
    return message


class Slow:
    """Reads messages, each when it may."""

    def __init__(self) -> None:
        self.reading = 0
        self.may = asyncio.Event()

    async def __call__(self, headers: Headers, octets: bytes) -> tuple[Received, ...] | Ended:
        self.reading += 1
        await self.may.wait()
        return read_message(headers, octets)


async def test_what_comes_to_a_mailbox_after_a_cancelled_wait_comes_in_order(
    broker: Running,
) -> None:
    """The gateway may not know yet that nobody waits: what it hands out then would come later."""
    mailboxes = broker.gateway.mailboxes
    async with asyncio.timeout(DEADLINE), PulledMailbox(broker.url) as mailbox:
        for first in (0, 2):
            waiting = asyncio.ensure_future(following(mailbox))
            await until(lambda: len(mailboxes.waiting) == 1)
            waiting.cancel()
            await asyncio.wait((waiting,))
            assert await mailbox.receive(1, 0.0) == [], "who has no time does not wait for it"
            for number in (first, first + 1):
                await send(mailbox.address, number)
            seen = payloads([await following(mailbox) for _ in range(2)])
            assert seen == [f"<n>{first}</n>", f"<n>{first + 1}</n>"]
        await cancel_wait(following(mailbox))
    await until(lambda: not mailboxes.waiting)


async def test_a_mailbox_that_is_gone_is_told_to_who_waits_next(broker: Running) -> None:
    async with asyncio.timeout(DEADLINE), PulledMailbox(broker.url) as mailbox:
        waiting = asyncio.ensure_future(following(mailbox))
        await until(lambda: len(broker.gateway.mailboxes.waiting) == 1)
        waiting.cancel()
        await asyncio.wait((waiting,))
        async with Caller() as caller:
            await caller.call("DELETE", mailbox.address)
        with pytest.raises(GatewayError, match="the mailbox is lost"):
            await following(mailbox)


@pytest.mark.parametrize("takes", ["one", "several"])
async def test_a_mailbox_whose_reader_is_cancelled_while_it_reads_hands_all_out(
    broker: Running, takes: str
) -> None:
    """What it has taken is acknowledged by its next question, unread or not."""
    read = Slow()
    async with asyncio.timeout(DEADLINE), PulledMailbox(broker.url, read=read) as mailbox:
        for number in range(3):
            await send(mailbox.address, number)
        waiting: asyncio.Future[Any] = asyncio.ensure_future(
            following(mailbox) if takes == "one" else mailbox.receive(10, 1.0)
        )
        await until(lambda: read.reading == 1)
        waiting.cancel()
        await asyncio.wait((waiting,))
        read.may.set()
        seen = payloads([await following(mailbox) for _ in range(3)])
        assert seen == [f"<n>{number}</n>" for number in range(3)]


async def test_a_mailbox_whose_reader_fails_hands_out_what_it_failed_at(broker: Running) -> None:
    failures = [RuntimeError("cannot schedule new futures after shutdown")]

    async def read(headers: Headers, octets: bytes) -> tuple[Received, ...] | Ended:
        if failures:
            raise failures.pop()
        return read_message(headers, octets)

    async with asyncio.timeout(DEADLINE), PulledMailbox(broker.url, read=read) as mailbox:
        await send(mailbox.address, 0)
        with pytest.raises(RuntimeError, match="after shutdown"):
            await following(mailbox)
        assert payloads([await following(mailbox)]) == ["<n>0</n>"]


async def test_an_iteration_of_a_mailbox_goes_on_where_another_was_left(broker: Running) -> None:
    """A whole answer of the gateway is acknowledged at once: not before all of it was seen."""
    seen: list[ReceivedMessage] = []
    async with asyncio.timeout(DEADLINE), PulledMailbox(broker.url) as mailbox:
        for number in range(10):
            await send(mailbox.address, number)
        for _ in range(4):
            async for message in mailbox:
                seen.append(message)
                break
        seen += await mailbox.receive(3, 0.0)
        assert await kept(broker, mailbox) == 10, "none is acknowledged"
        async for message in mailbox:
            seen.append(message)
            if len(seen) == 10:
                break
        assert payloads(seen) == [f"<n>{number}</n>" for number in range(10)]
        assert await mailbox.receive(1, 0.0) == []
        assert await kept(broker, mailbox) == 0


async def test_two_tasks_share_a_mailbox(broker: Running) -> None:
    """The second one acknowledges nothing that the first is still at."""
    read = Slow()
    async with asyncio.timeout(DEADLINE), PulledMailbox(broker.url, read=read) as mailbox:
        for number in range(4):
            await send(mailbox.address, number)
        tasks = [asyncio.ensure_future(following(mailbox)) for _ in range(4)]
        await until(lambda: read.reading == 1)
        read.may.set()
        assert sorted(payloads(await asyncio.gather(*tasks))) == [f"<n>{n}</n>" for n in range(4)]


async def kept(broker: Running, mailbox: PulledMailbox) -> int:
    """How many messages are not acknowledged."""
    mailboxes = broker.gateway.mailboxes
    found = await mailboxes.find(mailbox.address.rpartition("/")[2])
    return (await mailboxes.size(found)).messages


async def test_a_cancelled_wait_ends_no_search() -> None:
    """Topics as they are found: later ones come."""
    come = asyncio.Event()

    async def found() -> Any:
        await come.wait()
        yield "north"
        yield "south"

    answers: Any = found()
    search = Search(answers, SearchResults(None))  # type: ignore[arg-type] # It verifies nothing.
    await cancel_wait(anext(search))
    await cancel_wait(anext(search))
    come.set()
    topics: list[Any] = [one async for one in search]
    assert topics == ["north", "south"]


async def test_a_search_is_closed_after_a_cancelled_wait() -> None:
    closed = []

    async def found() -> Any:
        try:
            await asyncio.Event().wait()
            yield
        finally:
            closed.append(True)

    search = Search(found(), SearchResults(None))  # type: ignore[arg-type] # It verifies nothing.
    await cancel_wait(anext(search))
    assert not closed
    await search.aclose()
    assert closed


def sources(part: Any) -> list[Path]:
    return sorted(Path(part.__file__).parent.rglob("*.py"))


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.__name__)
def test_no_iterator_is_a_generator_that_is_kept(part: Any) -> None:
    """A cancelled wait within a generator closes it. Where it is the ``__aiter__`` of an object that
    is iterated again, or an attribute, later waits end at once, without a word."""
    for path in sources(part):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            kept = isinstance(node, ast.AsyncFunctionDef) and node.name == "__aiter__"
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Attribute):
                called = node.value.func if isinstance(node.value, ast.Call) else None
                kept = isinstance(called, ast.Name) and called.id == "aiter"
            assert not kept, f"{path}:{getattr(node, 'lineno', 0)}"
