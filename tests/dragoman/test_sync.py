"""The clients without asyncio, in threads beside the gateway's loop."""

import asyncio
import inspect
import os
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from dragoman import client as asynchronous
from dragoman import sync
from dragoman.sync import GatewayError, UnsupportedOperation
from tests.rigs.gateways import Running, running
from tests.rigs.waiting import DEADLINE

CLASSES: list[Callable[..., sync.Client]] = [
    sync.WseClient, sync.WsnClient, sync.CloudEventsClient, sync.GridEventsClient,
    sync.WsManagementClient, sync.WsMessengerClient,
]  # fmt: skip


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[Running]:
    async with running(tmp_path) as run:
        yield run


@pytest.mark.parametrize("make", CLASSES)
async def test_what_is_published_is_heard(
    gateway: Running, make: Callable[..., sync.Client]
) -> None:
    def talk() -> list[str | None]:
        with make(gateway.url) as client, client.listen(topic="storms") as events:
            for speed in range(3):
                client.publish(f"<speed>{speed}</speed>", topic="storms")
            return [next(events).element.text for _ in range(3)]

    assert await asyncio.to_thread(talk) == ["0", "1", "2"]


async def test_iterating_ends_when_another_thread_closes_the_client(gateway: Running) -> None:
    heard = threading.Event()

    def iterate(client: sync.Client) -> int:
        count = 0
        for _ in client.listen(topic="storms", pull=True):
            count += 1
            heard.set()
        return count

    def publish(client: sync.Client) -> None:
        while not heard.is_set():
            client.publish("<a/>", topic="storms")
        client.close()

    client = sync.WsnClient(gateway.url)
    counted = asyncio.create_task(asyncio.to_thread(iterate, client))
    await asyncio.to_thread(publish, client)
    assert await counted >= 1
    assert len(gateway.gateway.subscriptions) == 0


async def test_threads_share_a_client(gateway: Running) -> None:
    def publish_in_threads() -> set[str]:
        with sync.WsnClient(gateway.url) as client, ThreadPoolExecutor(8) as pool:
            numbers = pool.map(lambda number: client.publish(f"<a>{number}</a>"), range(40))
            return set(numbers)

    assert len(await asyncio.to_thread(publish_in_threads)) == 40


async def test_other_methods_wait_too(gateway: Running) -> None:
    def use() -> None:
        client = sync.WsnClient(gateway.url)
        subscription = client.subscribe(topic="storms")
        client.publish("<a/>", topic="storms")
        assert len(client.pull(subscription)) == 1
        client.renew(subscription, timedelta(minutes=1))
        client.status(subscription)
        client.pause(subscription)
        client.resume(subscription)
        client.unsubscribe(subscription)
        client.close()
        with sync.WseClient(gateway.url, version="2011/03") as other:
            subscription = other.subscribe("http://127.0.0.1:59999/")
            with pytest.raises(UnsupportedOperation):
                other.pause(subscription)

    await asyncio.to_thread(use)


async def test_a_consumer_waits_too(gateway: Running) -> None:
    def use() -> list[str | None]:
        with sync.WsnClient(gateway.url) as client, sync.Consumer() as consumer:
            client.subscribe(consumer.address)
            client.publish("<a>1</a>")
            client.publish("<a>2</a>")
            return [consumer.receive().element.text, next(consumer).element.text]

    assert await asyncio.to_thread(use) == ["1", "2"]


run_in = asyncio.run_coroutine_threadsafe


class InterruptedWait:
    """The wait of a thread that Ctrl-C ends: while nothing comes, or when the result is there."""

    def __init__(
        self, work: Coroutine[Any, Any, Any], loop: asyncio.AbstractEventLoop, late: bool
    ) -> None:
        self._future = run_in(work, loop)
        self._begun = [run_in(asyncio.sleep(0), loop) for _ in range(3)]
        self._late = late
        self.cancel = self._future.cancel

    def result(self) -> None:
        for each in [self._future] if self._late else self._begun:
            each.result(DEADLINE)
        raise KeyboardInterrupt


@contextmanager
def interrupted(late: bool) -> Iterator[None]:
    """The waits in it end by Ctrl-C."""
    with pytest.MonkeyPatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(asyncio, "run_coroutine_threadsafe", partial(InterruptedWait, late=late))
        yield


@pytest.mark.parametrize("fetches", [False, True], ids=["server", "mailbox"])
@pytest.mark.parametrize("late", [False, True], ids=["nothing came", "an event came"])
async def test_ctrl_c_loses_no_event(gateway: Running, fetches: bool, late: bool) -> None:
    """As in a notebook, whose cell is run again."""
    mailbox = gateway.url if fetches else None

    def use() -> list[str | None]:
        with (
            sync.WsnClient(gateway.url) as client,
            sync.Consumer(mailbox=mailbox) as consumer,
            client.listen(topic="storms") as listening,
        ):
            client.subscribe(consumer.address, topic="storms")
            if late:
                client.publish("<a>1</a>", topic="storms")
            for waiting in (consumer, listening):
                with interrupted(late):
                    next(waiting)
            for number in (2,) if late else (1, 2):
                client.publish(f"<a>{number}</a>", topic="storms")
            return [next(one).element.text for one in (consumer, listening) for _ in range(2)]

    assert await asyncio.to_thread(use) == ["1", "2", "1", "2"]


def test_a_source_waits_too() -> None:
    with (
        sync.Source() as source,
        sync.WseClient(source.url) as client,
        client.listen(topic="storms") as events,
    ):
        assert len(source) == 1
        assert source.publish("<a>1</a>", topic="storms") == 1
        assert next(events).element.text == "1"
        source.delivered()


def test_each_asynchronous_method_has_its_counterpart() -> None:
    for name, method in inspect.getmembers(asynchronous.Client, inspect.isfunction):
        if not name.startswith("_"):
            counterpart = getattr(sync.Client, name)
            assert inspect.signature(counterpart) == inspect.signature(method)
            assert counterpart.__doc__ == method.__doc__


def test_errors_are_raised_to_who_called() -> None:
    with sync.WsnClient("http://127.0.0.1:1") as client:
        with pytest.raises(GatewayError, match="connection refused"):
            client.publish("<a/>")
        with pytest.raises(ValueError, match="line 1"):
            client.publish("<a>")


def test_a_fork_makes_its_own_client() -> None:
    client = sync.WsnClient("http://127.0.0.1:1")
    child = os.fork()
    if child == 0:
        code = 1
        try:
            client.publish("<a/>")
        except RuntimeError:
            try:
                sync.WsnClient("http://127.0.0.1:1").publish("<a/>")
            except GatewayError:
                code = 0
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    client.close()
