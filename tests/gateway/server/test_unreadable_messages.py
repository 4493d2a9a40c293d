"""Native messages that cannot be read, between others that can: they stop nobody."""

import asyncio
import contextlib
import json
import shutil
import socket
import struct
import subprocess
import uuid
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import pika
import pytest
from pika import data as pika_data

from adapters.rabbitmq import consuming as rabbitmq_consuming
from adapters.stomp import connection as stomp_connection
from adapters.stomp.frames import FrameTransport
from tests.rigs.activemq import activemq, needs_activemq
from tests.rigs.brokers import PASSWORD, USER, needs_rabbitmq, rabbitmq
from tests.rigs.consumers import consumers
from tests.rigs.envelopes import Speaker
from tests.rigs.gateways import Running, running
from tests.rigs.outage_traffic import SECONDS
from tests.rigs.waiting import until

MOST = 2**20
"""Bytes of a body here, so that one beyond is quickly made."""
BEYOND = b"<n>beyond</n>" + b" " * MOST
SPEAKER = Speaker()


def number(text: object) -> bytes:
    return f"<n>{text}</n>".encode()


class Stomp:
    """Publishes octets that no library of STOMP would."""

    unreadable: ClassVar = {
        "headers": b"".join(b"h%d:%s\n" % (n, b"x" * 9000) for n in range(150)),
        "body": b"",
    }
    odd: ClassVar = {
        "nul-in-a-header": b"colour:a\0b\n",
        "nul-in-a-name": b"co\0lour:ab\n",
        "nul-in-the-text": b"amq-msg-type:text\n",
        "no-escape": b"a:x\\ty\n",
        "no-utf-8": b"a:\xff\xfe\n",
        "twice": b"a:1\na:2\nack:1\nsubscription:1\nmessage-id:1\n",
        "many": b"".join(b"h%d:x\n" % n for n in range(900)),
    }

    def __init__(self, name: str) -> None:
        self._topic = f"/topic/VirtualTopic.{name}.adhoc.storms"
        self._number = 0
        self._socket = socket.create_connection(("127.0.0.1", activemq().port), SECONDS)
        self._socket.sendall(
            f"CONNECT\naccept-version:1.2\nhost:/\nlogin:{USER}\npasscode:{PASSWORD}\n\n\0".encode()
        )
        self._read_up_to("CONNECTED")

    def _read_up_to(self, word: str) -> None:
        came = ""
        while f"{word}\n" not in came:
            read = self._socket.recv(4096).decode(errors="replace")
            assert read and "ERROR" not in came, came
            came += read

    def publish(self, body: bytes, kind: str = "") -> None:
        self._number += 1
        headers = self.unreadable.get(kind) or self.odd.get(kind, b"")
        self._socket.sendall(
            f"SEND\ndestination:{self._topic}\nreceipt:r{self._number}\n".encode()
            + b"content-length:%d\n" % len(body)
            + headers
            + b"\n"
            + body
            + b"\0"
        )
        self._read_up_to(f"receipt-id:r{self._number}")

    def close(self) -> None:
        self._socket.close()


class Amqp:
    """Publishes headers that pika would not write."""

    unreadable: ClassVar = {"body": b""}
    odd: ClassVar = {
        "beyond-the-year-9999": struct.pack(">cQ", b"T", 1_700_000_000_000),
        "tables-in-tables": b"",
        "arrays-in-arrays": b"",
    }

    def __init__(self, name: str) -> None:
        self._exchange = name
        self._connection = pika.BlockingConnection(pika.URLParameters(rabbitmq().url))
        self._channel = self._connection.channel()
        for kind, nest in (("tables-in-tables", _table), ("arrays-in-arrays", _array)):
            value = b"V"
            for _ in range(4000):
                value = nest(value)
            self.odd[kind] = value

    def publish(self, body: bytes, kind: str = "") -> None:
        value = self.odd.get(kind)
        encode = pika_data.encode_value

        def as_is(pieces: list[bytes], each: Any) -> Any:
            if value is None or each is not value:
                return encode(pieces, each)
            pieces.append(value)
            return len(value)

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(pika_data, "encode_value", as_is)
            self._channel.basic_publish(
                self._exchange,
                "dragoman.adhoc.storms",
                body,
                pika.BasicProperties(
                    headers={"odd": value} if value else None,
                    message_id=f"{kind}-{uuid.uuid4()}" if kind else None,
                    delivery_mode=2,
                ),
            )

    def close(self) -> None:
        self._connection.close()


def _table(value: bytes) -> bytes:
    inner = b"\x01a" + value
    return b"F" + struct.pack(">I", len(inner)) + inner


def _array(value: bytes) -> bytes:
    return b"A" + struct.pack(">I", len(value)) + value


@pytest.fixture(params=["activemq", "rabbitmq"])
def system(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The URL of a gateway of its own, and what publishes to it."""
    name = f"test-{uuid.uuid4().hex[:12]}"
    if request.param == "activemq":
        needs_activemq()
        monkeypatch.setattr(
            stomp_connection, "FrameTransport", partial(FrameTransport, max_body=MOST)
        )
        yield f"{activemq().url}?name={name}&root={name}", partial(Stomp, name)
    else:
        needs_rabbitmq()
        monkeypatch.setattr(rabbitmq_consuming, "MAX_BODY", MOST)
        yield f"{rabbitmq().url}?name={name}&exchange={name}", partial(Amqp, name)


async def dead_letters(run: Running) -> list[dict[str, Any]]:
    answer = await run.api("GET", "/deadletters")
    found: list[dict[str, Any]] = json.loads(answer.body)["dead_letters"]
    return found


@pytest.mark.slow
async def test_one_that_cannot_be_read_stops_nobody(system: Any, tmp_path: Path) -> None:
    """Good ones around one of each kind arrive, and an operator finds those that do not."""
    url, publisher = system
    async with consumers() as sinks:
        consumer = sinks.add()
        async with running(tmp_path, adapter=url) as run:
            await run.subscribe(SPEAKER, SPEAKER.wsn_subscribe(consumer.url))
            with contextlib.closing(await asyncio.to_thread(publisher)) as native:
                good = list(await asyncio.to_thread(publish_all, native))
            await consumer.have_all(good)

            async def laid_there() -> bool:
                return len(await dead_letters(run)) == len(native.unreadable)

            await until(laid_there, SECONDS)
            before = await dead_letters(run)
            metrics = (await run.admin("GET", "/metrics")).body.decode()
            assert f"dragoman_unreadable_total {len(native.unreadable)}.0" in metrics
            ready = json.loads((await run.admin("GET", "/readyz")).body)["broker"]
            assert ready["connected"] and ready["stopped_by"] == ""
            assert "dragoman_adapter_reconnects_total 0.0" in metrics
        assert {each["reason"] for each in before} == {"unreadable"}
        assert {each["subscription"] for each in before} == {""}
        assert sorted(each["failure"].split(" exceed")[0] for each in before) == sorted(
            {"headers": "its headers", "body": "its body"}[kind] for kind in native.unreadable
        )
        assert all("it came from " in each["failure"] for each in before)
        many = len(consumer.received)
        async with running(tmp_path, adapter=url) as run:
            with contextlib.closing(await asyncio.to_thread(publisher)) as native:
                await asyncio.to_thread(native.publish, number("last"))
            await consumer.have_all([*good, "last"])
            assert len(consumer.received) == many + 1
            assert await dead_letters(run) == before


def publish_all(native: Any) -> Iterator[str]:
    """Publish good ones around one of each kind; the texts of those that arrive."""
    count = 0
    for kind in [*native.unreadable, *native.odd]:
        for _ in range(3):
            count += 1
            native.publish(number(count))
            yield str(count)
        if kind in native.unreadable:
            native.publish(BEYOND if kind == "body" else number(kind), kind)
        else:
            body = number(kind)
            native.publish(body.replace(b"<n>", b"<n a='\0'>") if "text" in kind else body, kind)
            if "text" not in kind:
                yield kind
    native.publish(number("end"))
    yield "end"


PROGRAM = """
import javax.jms.*;

public class Odd {
    public static void main(String[] words) throws Exception {
        Connection connection = new org.apache.activemq.ActiveMQConnectionFactory(
            "tcp://127.0.0.1:" + words[0]).createConnection(words[1], words[2]);
        Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        MessageProducer producer = session.createProducer(session.createTopic(words[3]));
        for (int number = 4; number < words.length; number += 2) {
            TextMessage message = session.createTextMessage("<n>" + (number / 2) + "</n>");
            if (!words[number].isEmpty())
                message.setObjectProperty(words[number].replace("|", "\\n"), words[number + 1]);
            producer.send(message);
        }
        connection.close();
    }
}
"""
PROPERTIES = [
    *([("", "")] * 3),
    *[("content-length", length) for length in ("2", "99999", "999999999", "many")],
    ("", ""),
    ("a||b", "1"),
    ("a:b", ""),
    ("subscription", "none"),
    *([("", "")] * 3),
]
UNREADABLE = {"2", "99999", "999999999", "1"}


@pytest.mark.slow
async def test_properties_of_jms_that_are_headers_of_stomp(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ActiveMQ hands on a ``content-length`` that a program made up, and names with line ends."""
    needs_activemq()
    if shutil.which("javac") is None:
        pytest.skip("needs javac: not installed (openjdk-17-jdk-headless)")
    monkeypatch.setattr(stomp_connection, "STALLED", 0.3)
    name, broker = f"test-{uuid.uuid4().hex[:12]}", activemq()
    (tmp_path / "Odd.java").write_text(PROGRAM)
    words = ["java", "-cp", "/usr/share/activemq/lib/*", str(tmp_path / "Odd.java")]
    words += [str(broker.jms_port), USER, PASSWORD, f"VirtualTopic.{name}.adhoc.storms"]
    words += [word for pair in PROPERTIES for word in pair]
    async with (
        consumers() as sinks,
        running(tmp_path / "data", adapter=f"{broker.url}?name={name}&root={name}") as run,
    ):
        consumer = sinks.add()
        await run.subscribe(SPEAKER, SPEAKER.wsn_subscribe(consumer.url))
        done = await asyncio.to_thread(
            subprocess.run, words, capture_output=True, timeout=2 * SECONDS, check=False
        )
        assert done.returncode == 0, done.stderr.decode()
        good = {str(n) for n, (_, value) in enumerate(PROPERTIES, 2) if value not in UNREADABLE}
        await consumer.have_all(good)

        async def laid_there() -> bool:
            return len(await dead_letters(run)) >= len(PROPERTIES) - len(good)

        await until(laid_there, SECONDS)
        found = [each["failure"] for each in await dead_letters(run)]
        assert len(found) == len(PROPERTIES) - len(good), found
        assert sum("content-length" in each for each in found) == 3
