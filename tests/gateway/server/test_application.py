"""The rooms of a gateway: started in order, closed in the reverse order, and what they bring."""

import asyncio
import contextlib
from collections.abc import Collection, Iterable
from functools import partial
from pathlib import Path
from typing import Annotated, cast

import pytest
from fastapi import APIRouter, Depends
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message
from structlog.testing import capture_logs

from filters import Reason, Refused
from gateway.http import ConnectionGate, HttpLimits, HttpSettings
from gateway.observing.samples import Sample, counter
from gateway.rooms import Room, Work
from gateway.routes import BoundRouter, Dependency, Routes
from gateway.security.identify import Identification
from gateway.security.networks import networks
from gateway.security.rights import Right
from gateway.server import process
from gateway.server.application import Application, Serving
from gateway.server.peers import Listening
from gateway.server.state import RunState
from gateway.settings.settings import Settings
from gateway.soap.listeners import SoapTcpListeners
from gateway.web import make_app
from gateway.web.app import Site
from gateway.web.dependencies import Asking
from gateway.web.metrics import Metrics
from tests.rigs.waiting import DEADLINE


class Recorded(Room):
    """A room that writes into *log* what is done with it; one that is broken does not start, and
    *fails* in the steps of a stop that are named there."""

    def __init__(
        self, name: str, log: list[str], *, broken: bool = False, fails: Collection[str] = ()
    ) -> None:
        self.name = name
        self.log = log
        self.broken = broken
        self.fails = fails

    def works(self) -> Iterable[Work]:
        yield partial(self._work, "work")

    def works_until_closed(self) -> Iterable[Work]:
        yield partial(self._work, "support")

    async def _work(self, what: str) -> None:
        self.log.append(f"{what} {self.name}")
        try:
            await asyncio.Event().wait()
        finally:
            self.log.append(f"end {what} {self.name}")

    async def start(self) -> None:
        if self.broken:
            raise Refused(Reason.UNAVAILABLE, "It is broken.")
        self._step("start")

    def drain(self) -> None:
        self._step("drain")

    async def linger(self) -> None:
        self._step("linger")

    async def close(self) -> None:
        self._step("close")

    def _step(self, step: str) -> None:
        self.log.append(f"{step} {self.name}")
        if step in self.fails:
            raise OSError(f"{self.name} cannot {step}")


def site(*rooms: Room) -> Site:
    async def counted() -> Iterable[Sample]:
        return ()

    asking = Asking(HttpSettings(), Identification(networks(())), lambda: False)
    metrics = Metrics([room.metrics for room in rooms], counted)
    return Site(rooms, asking, lambda: {"ready": True, "subscriptions": 0}, metrics)


def application(data: Path, *rooms: Room) -> Application:
    limits, gate = HttpLimits(), ConnectionGate(HttpLimits(), networks(()))
    listeners = cast(SoapTcpListeners, None)  # No port of SOAP.TCP is listened on.
    serving = Serving(limits, gate, gate, listeners, site(*rooms))
    return Application(Settings(data=data), Listening(("127.0.0.1", 0)), RunState(), rooms, serving)


async def test_rooms_start_in_order_and_close_in_the_reverse_order(tmp_path: Path) -> None:
    log: list[str] = []
    made = application(tmp_path, *(Recorded(name, log) for name in "abc"))
    await made.start()
    await asyncio.sleep(0)
    assert log == [
        "start a", "start b", "start c",
        "work a", "support a", "work b", "support b", "work c", "support c",
    ]  # fmt: skip
    log.clear()
    made.drain()
    await made.linger()
    assert log == [f"{what} {name}" for what in ("drain", "linger") for name in "cba"]
    log.clear()
    await made.stop()
    assert [line for line in log if not line.startswith("drain")] == [
        "end work a", "end work b", "end work c",
        "end support c", "close c", "end support b", "close b", "end support a", "close a",
    ]  # fmt: skip


STEPS = ("drain", "linger", "close")


@pytest.mark.parametrize("step", STEPS)
async def test_a_room_that_fails_keeps_no_other_one_open(tmp_path: Path, step: str) -> None:
    log: list[str] = []
    made = application(
        tmp_path,
        Recorded("a", log),
        Recorded("b", log, fails=[step]),
        Recorded("c", log, fails=[step]),
    )
    await made.start()
    with capture_logs() as logs:
        made.drain()
        await made.linger()
        with pytest.raises(OSError, match=f"c cannot {step}"):
            await made.stop()
    for one in STEPS:
        assert [line for line in dict.fromkeys(log) if line.startswith(one)] == [
            f"{one} {name}" for name in "cba"
        ]
    told = [one for one in logs if one["event"] == "dragoman.room-not-stopped"]
    assert {(one["room"], one["step"]) for one in told} == {("Recorded", step)}
    assert not made.failed.is_set()


async def test_why_it_does_not_start_is_told_before_what_cannot_be_closed_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log: list[str] = []
    rooms = Recorded("a", log, fails=["close"]), Recorded("b", log, broken=True)

    async def build(_settings: Settings, _listening: Listening) -> Application:
        return application(tmp_path, *rooms)

    monkeypatch.setattr(process, "build", build)
    with (
        contextlib.closing(process.listen("127.0.0.1", 0)) as listener,
        pytest.raises(Refused, match="broken"),
    ):
        await process.serve(Settings(data=tmp_path), listener, stop=asyncio.Event())
    assert "close a" in log


async def test_a_server_that_failed_keeps_no_room_open(tmp_path: Path) -> None:
    log: list[str] = []
    made = application(tmp_path, Recorded("a", log))
    await made.start()

    async def fail() -> None:
        raise OSError("it cannot serve")

    serving = [asyncio.create_task(fail())]
    with pytest.raises(OSError, match="it cannot serve"):
        await process._stop(made, [], serving, asyncio.Event())
    assert log[-1] == "close a"


class Cancelled(Room):
    """A room whose work waits for something that somebody else cancels."""

    def __init__(self) -> None:
        self.awaited = asyncio.get_running_loop().create_future()

    def works(self) -> Iterable[Work]:
        yield self._work

    async def _work(self) -> None:
        await self.awaited


async def test_a_work_that_nobody_cancelled_has_failed(tmp_path: Path) -> None:
    """Such a task counts as cancelled, as those do that a stop ends; but nobody does its work any
    more."""
    room = Cancelled()
    made = application(tmp_path, room)
    await made.start()
    await asyncio.sleep(0)
    room.awaited.cancel()
    async with asyncio.timeout(DEADLINE):
        await made.failed.wait()
    await made.stop()


async def test_rooms_that_started_are_closed_when_a_later_one_does_not(tmp_path: Path) -> None:
    log: list[str] = []
    rooms = Recorded("a", log), Recorded("b", log), Recorded("c", log, broken=True)
    made = application(tmp_path, *rooms, Recorded("d", log))
    with pytest.raises(Refused, match="broken"):
        await made.start()
    await made.stop()
    assert [line for line in log if not line.startswith("drain")] == [
        "start a", "start b", "close b", "close a",
    ]  # fmt: skip


class Shown:
    """The number of pages that were shown."""

    number = 0


SHOWN = Dependency[Shown]()
router = APIRouter()


@router.get("/pages")
async def show(shown: Annotated[Shown, Depends(SHOWN)]) -> int:
    shown.number += 1
    return shown.number


class Pages(Room):
    """A room with a page of its own and one that works with a part, and a metric."""

    def __init__(self) -> None:
        self.shown = Shown()

    def administration_routes(self) -> Routes:
        yield Route("/plain", self._show)
        yield BoundRouter(router, SHOWN.of(self.shown), Right.READ)

    def metrics(self) -> Iterable[Sample]:
        yield counter("pages", "Pages that were shown.", self.shown.number)

    async def _show(self, _: Request) -> PlainTextResponse:
        return PlainTextResponse("plain")


async def get(app: ASGIApp, path: str) -> tuple[int, bytes]:
    answer: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        answer.append(message)

    scope = {
        "type": "http", "http_version": "1.1", "method": "GET", "scheme": "http", "path": path,
        "root_path": "", "query_string": b"", "headers": [(b"host", b"127.0.0.1")],
        "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 80),
    }  # fmt: skip
    await app(scope, receive, send)
    return answer[0]["status"], answer[1]["body"]


async def test_a_room_brings_its_pages_and_its_metrics() -> None:
    """Each application has those of its own rooms, though both have the same router."""
    apps = [make_app(site(Pages()), public=True, administration=True) for _ in range(2)]
    assert await get(apps[0], "/plain") == (200, b"plain")
    assert [await get(apps[0], "/pages") for _ in range(2)] == [(200, b"1"), (200, b"2")]
    assert await get(apps[1], "/pages") == (200, b"1")
    status, metrics = await get(apps[0], "/metrics")
    assert status == 200
    assert b"dragoman_pages_total 2.0" in metrics


async def test_the_public_listener_has_no_pages_of_operators() -> None:
    app = make_app(site(Pages()), public=True, administration=False)
    assert (await get(app, "/plain"))[0] == 404
    assert (await get(app, "/pages"))[0] == 404
