"""The rooms of a gateway: started in order, closed in the reverse order, and what they bring."""

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, cast

import pytest
from fastapi import APIRouter, Depends
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message

from filters import Reason, Refused
from gateway.http import ConnectionGate, HttpLimits, HttpSettings
from gateway.observing.samples import Sample, counter
from gateway.rooms import Room, Work
from gateway.routes import BoundRouter, Dependency, Routes
from gateway.security.identify import Identification
from gateway.security.networks import networks
from gateway.security.rights import Right
from gateway.server.application import Application, Serving
from gateway.server.peers import Listening
from gateway.server.state import RunState
from gateway.settings.settings import Settings
from gateway.soap.listeners import SoapTcpListeners
from gateway.web import make_app
from gateway.web.app import Site
from gateway.web.dependencies import Asking
from gateway.web.metrics import Metrics


class Recorded(Room):
    """A room that writes into *log* what is done with it; one that is broken does not start."""

    def __init__(self, name: str, log: list[str], *, broken: bool = False) -> None:
        self.name = name
        self.log = log
        self.broken = broken

    def works(self) -> Iterable[Work]:
        yield self._work

    async def _work(self) -> None:
        self.log.append(f"work {self.name}")
        await asyncio.Event().wait()

    async def start(self) -> None:
        if self.broken:
            raise Refused(Reason.UNAVAILABLE, "It is broken.")
        self.log.append(f"start {self.name}")

    def drain(self) -> None:
        self.log.append(f"drain {self.name}")

    async def linger(self) -> None:
        self.log.append(f"linger {self.name}")

    async def close(self) -> None:
        self.log.append(f"close {self.name}")


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
    assert log == [f"{what} {name}" for what in ("start", "work") for name in "abc"]
    log.clear()
    made.drain()
    await made.linger()
    assert log == [f"{what} {name}" for what in ("drain", "linger") for name in "cba"]
    log.clear()
    await made.stop()
    assert [line for line in log if line.startswith("close")] == ["close c", "close b", "close a"]


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
