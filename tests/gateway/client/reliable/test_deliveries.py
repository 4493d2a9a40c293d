"""Functions of programs that are called in a transaction."""

import asyncio
import inspect
import threading

import pytest

from gateway.client.application_calls import Calls, FunctionExit


def test_an_event_loop_that_hangs_holds_no_transaction_for_ever() -> None:
    """What it did not begin in time it does not do later: the transaction is rolled back."""
    release, began = threading.Event(), threading.Event()
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    async def function(argument: object) -> None:
        began.set()

    calls = Calls(loop, seconds=0.05, grace=0.05)
    calls.call(function, None)
    assert began.is_set()
    began.clear()
    loop.call_soon_threadsafe(release.wait, 30)
    with pytest.raises(TimeoutError):
        calls.call(function, None)
    release.set()
    asyncio.run_coroutine_threadsafe(asyncio.sleep(0), loop).result(30)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(30)
    loop.close()
    assert not began.is_set()


def test_a_coroutine_that_takes_too_long_is_ended() -> None:
    async def function(argument: object) -> None:
        await asyncio.Event().wait()

    async def call() -> None:
        calls = Calls(asyncio.get_running_loop(), seconds=0.05)
        with pytest.raises(TimeoutError):
            await asyncio.to_thread(calls.call, function, None)

    asyncio.run(asyncio.wait_for(call(), 30))


@pytest.mark.parametrize("closed", [True, False])
def test_a_coroutine_without_an_event_loop_fails_and_is_closed(closed: bool) -> None:
    loop = asyncio.new_event_loop()
    loop.close()
    called = []

    async def function(argument: object) -> None:
        raise AssertionError

    def begun(argument: object) -> object:
        called.append(function(argument))
        return called[0]

    with pytest.raises(RuntimeError, match="loop"):
        Calls(fallback=lambda: loop if closed else None).call(begun, None)
    assert inspect.getcoroutinestate(called[0]) == inspect.CORO_CLOSED


@pytest.mark.parametrize("raised", [asyncio.CancelledError, SystemExit, GeneratorExit])
def test_what_is_no_exception_is_one_to_who_called(raised: type[BaseException]) -> None:
    def function(argument: object) -> None:
        raise raised("in a function")

    async def later(argument: object) -> None:
        function(argument)

    async def call() -> None:
        loop = asyncio.get_running_loop()  # Of ours: it goes on.
        calls = Calls(fallback=lambda: loop)
        with pytest.raises(FunctionExit, match=raised.__name__) as told:
            calls.call(function, None)
        assert isinstance(told.value.__cause__, raised)
        with pytest.raises(FunctionExit, match=raised.__name__):
            await asyncio.to_thread(calls.call, later, None)

    asyncio.run(asyncio.wait_for(call(), 30))
