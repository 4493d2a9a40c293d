"""A connection that is kept: it ends when it is closed, whatever its library does."""

import asyncio
from collections.abc import Callable

import pytest

from adapters.broker import reconnecting
from adapters.broker.reconnecting import Lost, Reconnect, Reconnector
from tests.rigs.waiting import until


class Line:
    """A connection of a library that swallows so many cancellations."""

    def __init__(self, swallows: float = 0, error: type[Exception] | None = None) -> None:
        self.swallows = swallows
        self.error = error
        self.closed = 0
        self.ended = asyncio.Event()

    async def close(self, seconds: float) -> None:
        self.closed += 1

    async def serve(self, _connection: "Line", ready: Callable[[], None]) -> None:
        ready()
        while not self.ended.is_set():
            try:
                await self.ended.wait()
            except asyncio.CancelledError:
                if self.error is not None:
                    raise self.error("it was cancelled") from None
                if self.swallows <= 0:
                    raise
                self.swallows -= 1

    def kept(self) -> Reconnector["Line"]:
        async def open_line() -> Line:
            self.opened += 1
            return self

        self.opened = 0
        return Reconnector("test", "all", open_line, self.serve)


@pytest.mark.parametrize(
    ("swallows", "error"),
    [
        pytest.param(0, None, id="sound"),
        pytest.param(1, None, id="swallows one"),
        pytest.param(3, None, id="swallows three"),
        pytest.param(0, Lost, id="is lost by it"),
        pytest.param(0, Reconnect, id="wants another connection"),
        pytest.param(0, LookupError, id="makes an error of it"),
    ],
)
async def test_what_is_closed_ends(
    swallows: int, error: type[Exception] | None, caplog: pytest.LogCaptureFixture
) -> None:
    line = Line(swallows, error)
    kept = line.kept()
    kept.start()
    await until(kept.tried.is_set)
    await kept.close()
    assert (line.opened, line.closed) == (1, 1)
    assert kept._task is not None and kept._task.done()
    assert "adapter.close_stuck" not in caplog.text


async def test_what_does_not_end_is_told(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reconnecting, "CLOSING", 0.1)
    monkeypatch.setattr(reconnecting, "CANCELLED_EACH", 0.02)
    line = Line(swallows=10**9)
    kept = line.kept()
    kept.start()
    await until(kept.tried.is_set)
    await kept.close()
    [told] = [each for each in caplog.records if each.message == "adapter.close_stuck"]
    assert (vars(told)["adapter"], vars(told)["connection"]) == ("test", "all")
    line.ended.set()
    assert kept._task is not None
    await asyncio.wait([kept._task])
    assert line.opened == 1, "and no other connection is opened when it ends after all"
