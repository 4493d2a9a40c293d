"""An inbox in programs of others: FastAPI, WSGI; what strangers send it."""

import asyncio
import io
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, make_server

import pytest
import uvicorn
from fastapi import FastAPI
from sqlalchemy import Engine
from sqlalchemy.orm import Session

from gateway.client.outbox import Inbox, Message, Outbox
from gateway.client.outbox.web import MAX_BYTES
from tests.rigs.outbox import engine_of, items, taken
from tests.rigs.ports import free_ports
from tests.rigs.waiting import until, wait_until


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    with engine_of("sqlite", tmp_path) as found:
        yield found


def inbox_of(engine: Engine) -> Inbox:
    inbox = Inbox(engine)

    @inbox.on("orders")
    def take(message: Message) -> None:
        message.session.execute(taken.insert().values(item=message.xml().text))

    return inbox


def publish(outbox: Outbox, engine: Engine) -> None:
    with Session(engine) as session, session.begin():
        outbox.publish("orders", "<item>tea</item>", session)


async def test_it_is_mounted_in_fastapi(engine: Engine) -> None:
    inbox = inbox_of(engine)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with inbox:
            yield

    app = FastAPI(lifespan=lifespan)
    app.mount("/inbox", inbox)
    (port,) = free_ports(1)
    server = uvicorn.Server(uvicorn.Config(app, port=port, log_level="error"))
    serving = asyncio.create_task(server.serve())
    async with Outbox(engine, f"http://127.0.0.1:{port}/inbox/") as outbox:
        await asyncio.to_thread(publish, outbox, engine)
        await until(lambda: items(engine) == ["tea"])
    server.should_exit = True
    await serving


def test_it_is_an_application_of_wsgi(engine: Engine) -> None:
    class Quiet(WSGIRequestHandler):
        def log_message(self, *_: Any) -> None:
            pass

    inbox = inbox_of(engine)
    with make_server("127.0.0.1", 0, inbox.wsgi, handler_class=Quiet) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        with inbox, Outbox(engine, f"http://127.0.0.1:{server.server_port}/") as outbox:
            publish(outbox, engine)
            wait_until(lambda: items(engine) == ["tea"])
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("method", "length", "status"),
    [
        ("GET", "0", "405"), ("OPTIONS", "0", "200"), ("POST", "x", "413"),
        ("POST", str(MAX_BYTES + 1), "413"), ("POST", "9" * 30, "413"), ("POST", "0", "400"),
    ],
)  # fmt: skip
def test_strangers_get_an_answer(method: str, length: str, status: str, engine: Engine) -> None:
    said: list[str] = []
    environ = {
        "REQUEST_METHOD": method, "CONTENT_LENGTH": length, "wsgi.input": io.BytesIO(),
        "CONTENT_TYPE": "application/cloudevents+json",
    }  # fmt: skip
    inbox_of(engine).wsgi(environ, lambda status, headers: said.append(status))
    assert said[0].startswith(status)
