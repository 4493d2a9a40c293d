"""Functions of a program that raise what is no `Exception`: it is a failure of theirs, and nothing
of ours ends by it."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import pytest

from gateway.client.application_calls import FunctionExit
from gateway.client.reliable import Delivery, Receiver, ReliableClient, StorageUnavailable, workers
from gateway.client.reliable.transaction_threads import Pool
from gateway.client.reliable.workers import Workers
from tests.gateway.client.reliable.test_queued import ORDER, SOON
from tests.rigs.receivers import served
from tests.rigs.waiting import DEADLINE, wait_until


class Panic(BaseException):
    """As modules in Rust raise."""


EXITS = [asyncio.CancelledError, SystemExit, GeneratorExit, KeyboardInterrupt, Panic]
RAISED = pytest.mark.parametrize("raised", EXITS)


class Failing:
    """A function of a program: it raises something the first time it is called."""

    def __init__(self, raised: type[BaseException]) -> None:
        self._raised = [raised]
        self.calls = 0
        self.done = 0

    def __call__(self, *told: object) -> Any:
        self.calls += 1
        if self._raised:
            raise self._raised.pop()("its first time")
        self.done += 1

    async def later(self, *told: object) -> None:
        await asyncio.sleep(0)
        self(*told)


def quiet(*told: object) -> None:
    """A function that takes whatever there is."""


def answers(*told: object) -> bytes:
    return b"<taken/>"


Register = Callable[[Receiver, ReliableClient, Failing], None]


def as_service(receiver: Receiver, client: ReliableClient, failing: Failing) -> None:
    receiver.service("/orders", failing)


def as_service_that_answers(receiver: Receiver, client: ReliableClient, failing: Failing) -> None:
    """A request on its connection may be given to its function at once."""
    receiver.service("/orders", failing)
    client.callbacks("orders")


def as_reply(receiver: Receiver, client: ReliableClient, failing: Failing) -> None:
    receiver.service("/orders", answers)
    client.callbacks("orders", on_message=failing)


def as_coroutine_of_reply(receiver: Receiver, client: ReliableClient, failing: Failing) -> None:
    receiver.service("/orders", answers)
    client.callbacks("orders", on_message=failing.later)


def as_end(receiver: Receiver, client: ReliableClient, failing: Failing) -> None:
    receiver.service("/orders", answers)
    client.callbacks("orders", on_complete=failing)


@RAISED
@pytest.mark.parametrize(
    "register",
    [as_service, as_service_that_answers, as_reply, as_coroutine_of_reply, as_end],
)
def test_it_is_called_again(
    monkeypatch: pytest.MonkeyPatch, register: Register, raised: type[BaseException]
) -> None:
    monkeypatch.setattr(workers, "DELAY", 0.05)
    failing = Failing(raised)
    receiver = Receiver("memory:", policy=SOON, on_notice=quiet)
    client = ReliableClient("memory:", policy=SOON, on_notice=quiet)
    register(receiver, client, failing)
    with served(receiver) as url, client:
        if register is as_service:
            client.send(f"{url}/orders", b"<o/>", action=ORDER)
        else:
            client.request(f"{url}/orders", b"<o/>", action=ORDER, callbacks="orders", last=True)
        wait_until(lambda: failing.done == 1, says=lambda: failing.calls)
        assert client._workers.running
        assert receiver._workers.running
    assert failing.calls == 2


@RAISED
def test_who_is_told_of_failures_holds_up_nothing(
    monkeypatch: pytest.MonkeyPatch, raised: type[BaseException]
) -> None:
    monkeypatch.setattr(workers, "DELAY", 0.05)
    taking, told = Failing(ValueError), Failing(raised)
    receiver = Receiver("memory:", policy=SOON, on_notice=told)
    receiver.service("/orders", taking)
    with served(receiver) as url, ReliableClient("memory:", policy=SOON) as client:
        client.send(f"{url}/orders", b"<o/>", action=ORDER)
        wait_until(lambda: taking.done == 1, says=lambda: taking.calls)
        assert told.calls == 1
        assert receiver._workers.running


@RAISED
async def test_a_pool_tells_its_task_in_words(raised: type[BaseException]) -> None:
    """Raised in the task it would end the event loop, or pass for the task's own cancellation."""
    pool, failing = Pool(1, "test"), Failing(raised)
    async with asyncio.timeout(DEADLINE):
        with pytest.raises(FunctionExit, match=raised.__name__) as told:
            await pool.run(failing)
        assert isinstance(told.value.__cause__, raised)
        await pool.run(failing)
    await asyncio.to_thread(pool.close, DEADLINE)


def end(workers: Workers) -> None:
    """Have the thread of *workers* end by itself."""

    async def leave() -> None:
        raise SystemExit("a defect")

    thread = workers._thread
    assert thread is not None
    workers.submit(leave())
    thread.join(DEADLINE)
    assert not thread.is_alive()


def test_workers_that_ended_say_so_and_start_again(caplog: pytest.LogCaptureFixture) -> None:
    taken: list[bytes] = []
    receiver = Receiver("memory:", policy=SOON)

    def take(message: Delivery) -> None:
        taken.append(message.body)

    receiver.service("/orders", take)
    client = ReliableClient("memory:", policy=SOON)
    with served(receiver) as url, client:
        with caplog.at_level(logging.CRITICAL):
            end(client._workers)
            end(receiver._workers)
        assert [one.name for one in caplog.records] == ["dragoman.reliable"] * 2
        assert "until a new start" in caplog.text
        assert not client._workers.running
        with pytest.raises(StorageUnavailable):
            client._workers.submit(asyncio.sleep(0))
        client.send(f"{url}/orders", b"<o/>", action=ORDER)
        assert client.waiting() == 1
        client.start()
        assert client.drain(DEADLINE)
        wait_until(lambda: taken == [b"<o/>"])
        end(client._workers)  # To close what has ended is no error.
    assert not client._workers.running
