"""HTTP as clients and consumers of twenty years ago speak it, at a gateway that runs."""

import asyncio
import contextlib
import gzip
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.rigs.envelopes import S11, Speaker
from tests.rigs.gateways import Running, running
from tests.rigs.scripted_peers import consuming, read_request
from tests.rigs.waiting import DEADLINE

SPEAKER = Speaker(S11)
CONSUMER = "http://10.0.0.1:9000/consumer"


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[Running]:
    async with running(tmp_path / "data", egress_allow=["10.0.0.1"]) as run:
        yield run


@dataclass
class Said:
    """Everything that was answered until the gateway closed."""

    octets: bytes

    @property
    def status(self) -> int:
        return int(self.octets.split(b" ", 2)[1])

    @property
    def headers(self) -> dict[str, str]:
        head = self.octets.partition(b"\r\n\r\n")[0].decode("latin-1")
        pairs = (line.partition(": ") for line in head.split("\r\n")[1:])
        return {name.lower(): value for name, _, value in pairs}

    @property
    def body(self) -> bytes:
        return self.octets.partition(b"\r\n\r\n")[2]


def subscribe(number: int = 1) -> bytes:
    return SPEAKER.envelope(SPEAKER.wse_subscribe(CONSUMER), message_id=f"urn:uuid:{number}")


def head(*fields: str, version: str = "1.0", target: str = "/soap") -> bytes:
    return "\r\n".join([f"POST {target} HTTP/{version}", *fields, "", ""]).encode("latin-1")


async def talk(gateway: Running, *pieces: bytes) -> Said:
    """Send *pieces*; our side stays open, so that it is the gateway that ends the answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
    try:
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
        return Said(await asyncio.wait_for(reader.read(), DEADLINE))
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


def chunked(body: bytes, size: int = 100) -> bytes:
    chunks = [body[start : start + size] for start in range(0, len(body), size)]
    return b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in [*chunks, b""])


XML = "Content-Type: text/xml; charset=UTF-8"


class TestHttp10:
    @pytest.mark.parametrize("connection", ["", "Connection: keep-alive", "Connection: close"])
    @pytest.mark.parametrize("host", [True, False], ids=["Host", "no Host"])
    async def test_a_request(self, gateway: Running, connection: str, host: bool) -> None:
        """The answer has a length, and ends with the connection as its client expects."""
        body = subscribe()
        fields = [XML, f"Content-Length: {len(body)}", connection]
        if host:
            fields.append(f"Host: 127.0.0.1:{gateway.port}")
        said = await talk(gateway, head(*filter(None, fields)), body)
        assert said.status == 200, said.octets
        assert said.headers["content-length"] == str(len(said.body))
        assert said.headers["connection"] == "close"
        assert "transfer-encoding" not in said.headers
        assert f"http://127.0.0.1:{gateway.port}/".encode() in said.body

    async def test_a_fault(self, gateway: Running) -> None:
        body = SPEAKER.envelope(SPEAKER.wse_subscribe("nowhere"), message_id="urn:uuid:1")
        said = await talk(gateway, head(XML, f"Content-Length: {len(body)}"), body)
        assert said.status == 500
        assert said.headers["content-length"] == str(len(said.body))
        assert b"Fault" in said.body

    async def test_an_event_is_accepted(self, gateway: Running) -> None:
        body = SPEAKER.envelope("<event/>", message_id="urn:uuid:1")
        said = await talk(gateway, head(XML, f"Content-Length: {len(body)}"), body)
        assert (said.status, said.body) == (202, b"")
        assert said.headers["content-length"] == "0"

    async def test_no_interim_answer(self, gateway: Running) -> None:
        """RFC 9110, "Expect": from HTTP/1.0 it means nothing."""
        body = subscribe()
        fields = (XML, f"Content-Length: {len(body)}", "Expect: 100-continue")
        said = await talk(gateway, head(*fields), body)
        assert said.octets.startswith(b"HTTP/1.1 200 ")

    @pytest.mark.parametrize(
        ("fields", "status"),
        [
            pytest.param((XML,), 500, id="no length, which is nothing"),
            pytest.param((XML, "Transfer-Encoding: chunked"), 400, id="chunks"),
            pytest.param((XML, "Content-Length: 9999999"), 413, id="too long"),
        ],
    )
    async def test_what_is_refused(
        self, gateway: Running, fields: tuple[str, ...], status: int
    ) -> None:
        assert (await talk(gateway, head(*fields))).status == status


class TestHttp11:
    @pytest.mark.parametrize("framing", ["length", "chunks", "chunks of one octet"])
    @pytest.mark.parametrize("coding", ["", "gzip", "x-gzip"])
    async def test_framing(self, gateway: Running, framing: str, coding: str) -> None:
        body = subscribe()
        fields = [XML, f"Host: 127.0.0.1:{gateway.port}", "Connection: close"]
        if coding:
            body = gzip.compress(body)
            fields.append(f"Content-Encoding: {coding}")
        if framing == "length":
            fields.append(f"Content-Length: {len(body)}")
        else:
            fields.append("Transfer-Encoding: chunked")
            body = chunked(body, 100 if framing == "chunks" else 1)
        said = await talk(gateway, head(*fields, version="1.1"), body)
        assert said.status == 200, said.octets
        assert said.headers["content-length"] == str(len(said.body))

    @pytest.mark.parametrize("version", ["1.0", "1.1"])
    @pytest.mark.parametrize(
        "action",
        [
            pytest.param(None, id="missing"),
            pytest.param("", id="empty"),
            pytest.param('""', id="empty in quotes"),
            pytest.param('"urn:anonOutInOp"', id="of a client that sets none"),
            pytest.param("http://schemas.xmlsoap.org/ws/2004/08/eventing/Subscribe", id="bare"),
            pytest.param('"http://schemas.xmlsoap.org/ws/2004/08/eventing/Subscribe"', id="quoted"),
        ],
    )
    async def test_a_soap_action(self, gateway: Running, version: str, action: str | None) -> None:
        body = subscribe()
        fields = [XML, f"Content-Length: {len(body)}", f"Host: 127.0.0.1:{gateway.port}"]
        fields += ["Connection: close"] if action is None else [
            "Connection: close", f"SOAPAction: {action}"
        ]  # fmt: skip
        said = await talk(gateway, head(*fields, version=version), body)
        assert said.status == 200, said.octets

    async def test_a_bomb_is_bounded(self, gateway: Running) -> None:
        bomb = gzip.compress(b"<a>" + b" " * (64 << 20))
        fields = (
            XML, f"Content-Length: {len(bomb)}", "Content-Encoding: gzip",
            f"Host: 127.0.0.1:{gateway.port}", "Connection: close",
        )  # fmt: skip
        assert (await talk(gateway, head(*fields, version="1.1"), bomb)).status == 413

    async def test_the_body_comes_after_100(self, gateway: Running) -> None:
        body = subscribe()
        fields = (
            XML, f"Content-Length: {len(body)}", "Expect: 100-Continue",
            f"Host: 127.0.0.1:{gateway.port}", "Connection: close",
        )  # fmt: skip
        reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
        writer.write(head(*fields, version="1.1"))
        interim = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), DEADLINE)
        assert interim == b"HTTP/1.1 100 Continue\r\n\r\n"
        writer.write(body)
        said = Said(await asyncio.wait_for(reader.read(), DEADLINE))
        writer.close()
        await writer.wait_closed()
        assert said.status == 200

    @pytest.mark.parametrize(
        ("fields", "target", "status"),
        [
            pytest.param((XML, "Content-Length: 9999999"), "/soap", 413, id="too long"),
            pytest.param(("Content-Type: image/png", "Content-Length: 4"), "/soap", 415, id="type"),
            pytest.param(
                (XML, "Content-Length: 4", "Content-Encoding: br"), "/soap", 415, id="coding"
            ),
            pytest.param((XML, "Content-Length: 4"), "/nowhere", 404, id="path"),
        ],
    )
    async def test_a_head_that_is_refused_asks_for_no_body(
        self, gateway: Running, fields: tuple[str, ...], target: str, status: int
    ) -> None:
        said = await talk(
            gateway,
            head(
                *fields,
                "Expect: 100-continue",
                f"Host: 127.0.0.1:{gateway.port}",
                "Connection: close",
                version="1.1",
                target=target,
            ),
        )
        assert said.octets.startswith(b"HTTP/1.1 %d " % status), said.octets


class TestConsumers:
    """Rows of ``consumers``, from the settings to the wire."""

    @pytest.mark.parametrize(
        ("row", "line"),
        [
            pytest.param({"http": "1.0"}, b"POST /c HTTP/1.0\r\n", id="HTTP/1.0"),
            pytest.param({}, b"POST /c HTTP/1.1\r\n", id="HTTP/1.1"),
        ],
    )
    async def test_the_version(self, tmp_path: Path, row: dict[str, Any], line: bytes) -> None:
        arrived: asyncio.Queue[bytes] = asyncio.Queue()

        async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            arrived.put_nowait(await read_request(reader))
            writer.write(b"HTTP/1.0 200 OK\r\nContent-Type: text/xml\r\n\r\n")

        rows = [{"address": "*", "max_message": 10}, {"address": "127.0.0.1", **row}]
        async with (
            consuming(handler) as consumer,
            running(tmp_path / "data", consumers=rows) as run,
        ):
            await run.subscribe(SPEAKER, SPEAKER.wse_subscribe(consumer.url("/c")))
            await run.publish("<event>17</event>", speaker=SPEAKER)
            octets = await asyncio.wait_for(arrived.get(), DEADLINE)
            assert octets.startswith(line)
            assert b"Transfer-Encoding" not in octets and b">17</event>" in octets
            await run.quiet()

    async def test_a_message_too_large_is_a_dead_letter(self, tmp_path: Path) -> None:
        arrived: asyncio.Queue[bytes] = asyncio.Queue()

        async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while True:
                arrived.put_nowait(await read_request(reader))
                writer.write(b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n")

        rows = [{"address": "127.0.0.1", "max_message": 4000}]
        async with (
            consuming(handler) as consumer,
            running(tmp_path / "data", consumers=rows) as run,
        ):
            await run.subscribe(SPEAKER, SPEAKER.wse_subscribe(consumer.url("/c")))
            await run.publish(f"<event>{'x' * 5000}</event>", speaker=SPEAKER)
            await run.publish("<event>17</event>", speaker=SPEAKER)
            assert b">17</event>" in await asyncio.wait_for(arrived.get(), DEADLINE)
            await run.quiet()
            answer = await run.api("GET", "/deadletters")
            [letter] = json.loads(answer.body)["dead_letters"]
            assert (letter["reason"], letter["attempts"]) == ("too-large", 1)
            assert arrived.empty()
