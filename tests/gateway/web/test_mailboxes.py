"""Mailboxes over JSON and Server-Sent Events, through a running gateway."""

import asyncio
import contextlib
import functools
import json
import os
import re
import shutil
import socket
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import gateway.server.composition.foundation
from gateway.http import HttpLimits
from gateway.web import mailbox_streams
from gateway.web.refusals import problem
from tests.rigs.envelopes import Speaker
from tests.rigs.gateways import Running, http_request, running
from tests.rigs.json_mailboxes import UNKNOWN, Box, call, numbers, put, streaming
from tests.rigs.processes import gateway_process
from tests.rigs.waiting import DEADLINE, until

SPEAKER = Speaker()
NOBODY = "/mailboxes/00000000-0000-4000-8000-000000000000"
ENDED = "Nothing is under this lease: it has ended, or all of it is acknowledged."
STRANGER = "127.0.0.2"


async def metric(run: Running, name: str) -> float:
    lines = (await run.request("GET", "/metrics")).body.decode().splitlines()
    return next(float(line.split()[1]) for line in lines if line.split()[0] == f"dragoman_{name}")


# JSON.


async def test_a_box_keeps_what_others_send_until_it_is_acknowledged(tmp_path: Path) -> None:
    async with running(tmp_path) as run:
        box = await Box.make(run)
        await box.put(1, 2, 3)
        assert (await box.size())["messages"] == 3
        batch = await box.receive(max=2, lease=60)
        assert batch["more"] is True
        first, second = batch["messages"]
        assert first["payload"].endswith("<f/>1</n>")
        assert first["envelope"].endswith("<n><f></f>1</n></s:Body></s:Envelope>")
        assert (first["message_id"], first["action"]) == ("urn:m:1", "urn:put")
        assert (first["takes"], first["further"], first["topic"]) == (1, [], None)
        assert 0 < first["id"] < second["id"] and batch["until"] > first["since"]
        lease = batch["lease"]
        assert await box.do("acknowledge", lease=lease, ids=[first["id"]]) == {"number": 1}
        assert await box.do("release", lease=lease) == {"number": 1}
        again = await box.receive()
        assert numbers(again["messages"]) == ["2", "3"]
        assert [one["takes"] for one in again["messages"]] == [2, 1]
        assert await box.do("acknowledge", lease=again["lease"]) == {"number": 2}
        assert (await box.size())["messages"] == 0
        assert await box.take() == []


async def test_a_box_that_is_subscribed(tmp_path: Path) -> None:
    async with running(tmp_path, adapter="embedded:") as run:
        namespaces = {"w": "urn:weather"}
        box = await Box.make(
            run, topic="storms", xpath="/w:speed > 100", namespaces=namespaces, expires=600
        )
        for speed in (90, 120, 150):
            payload = f'<speed xmlns="urn:weather">{speed}</speed>'
            await run.publish(payload, path="/soap/topic/storms")
            await run.publish(payload, path="/soap/topic/calm")
        batch = await box.receive(wait=5, max=1)
        [message] = batch["messages"]
        assert (message["topic"], numbers([message])) == ("storms", ["120"])
        await box.do("acknowledge", lease=batch["lease"])
        assert await box.take(wait=5) == ["150"]
        await run.quiet()
        assert await box.take() == []
        before = (await box.size())["expires"]
        assert (await box.do("renew", expires="PT2H"))["expires"] > before
        [listed] = (await call(run, "GET", "/api/v1/subscriptions"))["subscriptions"]
        assert listed["id"] == box.id
        await call(run, "DELETE", box.path, status=204)
        assert len(run.gateway.subscriptions) == len(run.gateway.mailboxes) == 0


async def test_whoever_reads_keeps_the_subscription_alive(tmp_path: Path) -> None:
    async with running(tmp_path) as run:
        box = await Box.make(run, topic="storms", expires=5)
        before = (await box.size())["expires"]
        assert await box.take() == []
        assert (await box.size())["expires"] > before
        plain = await Box.make(run)
        assert await plain.do("renew", status=409, expires=60) == problem(
            409, "No subscription was made with this mailbox."
        )


async def test_events_of_one_envelope_and_what_is_none(tmp_path: Path) -> None:
    message = (
        "<w:NotificationMessage><w:Topic Dialect='http://docs.oasis-open.org/wsn/t-1/"
        "TopicExpression/Simple'>{0}</w:Topic><w:Message><n>{0}</n></w:Message>"
        "</w:NotificationMessage>"
    )
    notify = (
        '<w:Notify xmlns:w="http://docs.oasis-open.org/wsn/b-2">'
        f"{message.format('a')}{message.format('b')}</w:Notify>"
    )
    fault = (
        '<s:Fault xmlns:s="http://www.w3.org/2003/05/soap-envelope"><s:Code><s:Value>s:Sender'
        '</s:Value></s:Code><s:Reason><s:Text xml:lang="en">No.</s:Text></s:Reason></s:Fault>'
    )
    async with running(tmp_path) as run:
        box = await Box.make(run)
        for body in (notify, fault):  # A message box keeps envelopes whole.
            answer = await run.ask(SPEAKER, body, f"/MsgBox/{box.key}")
            assert answer.status == 202, answer.body
        both, none = (await box.receive())["messages"]
        assert (both["topic"], numbers([both])) == ("a", ["a"])
        [further] = both["further"]
        assert (further["topic"], numbers([further])) == ("b", ["b"])
        assert (none["topic"], none["payload"], none["further"]) == (None, None, [])
        assert "No." in none["envelope"]


@pytest.mark.parametrize(
    ("wanted", "status"),
    [
        pytest.param({"topic": "a b"}, 400, id="no topic expression"),
        pytest.param({"xpath": "/a["}, 400, id="no XPath"),
        pytest.param({"xpath": "/w:a"}, 400, id="a prefix that is not declared"),
        pytest.param({"topic": "a", "expires": "tomorrow"}, 400, id="no expiration"),
        pytest.param({"topic": "a\0"}, 422, id="no character of XML"),
        pytest.param({"topic": "a", "expires": -1}, 422, id="an expiration in the past"),
        pytest.param({"topic": "a", "namespaces": {"x y": "urn:x"}}, 422, id="no prefix"),
        pytest.param({"topic": "a", "namespaces": {'x="" y': "u"}}, 422, id="a forged prefix"),
        pytest.param({"topic": ""}, 422, id="an empty topic"),
        pytest.param({"topic": "a" * 10_000}, 422, id="a long topic"),
        pytest.param({"topics": "a"}, 422, id="an unknown name"),
        pytest.param({"expires": 60}, 422, id="an expiration of nothing"),
        pytest.param([], 422, id="no object"),
    ],
)
async def test_boxes_that_nobody_gets(tmp_path: Path, wanted: object, status: int) -> None:
    async with running(tmp_path) as run:
        await call(run, "POST", "/mailboxes", wanted, status=status)
        assert len(run.gateway.mailboxes) == len(run.gateway.subscriptions) == 0


async def test_no_web_page_elsewhere_can_make_boxes(tmp_path: Path) -> None:
    """Browsers send JSON to another origin only where that allows it, which we never do."""
    async with running(tmp_path) as run:
        for type_ in ("text/plain", "application/x-www-form-urlencoded"):
            answer = await run.request("POST", "/mailboxes", b"{}", content_type=type_)
            assert answer.status == 415
        answer = await run.request(
            "OPTIONS",
            "/mailboxes",
            origin="http://evil.example",
            access_control_request_method="POST",
        )
        assert answer.status == 405
        assert "access-control-allow-origin" not in answer.headers
        assert len(run.gateway.mailboxes) == 0


@pytest.mark.parametrize(
    ("operation", "body"),
    [
        ("receive", {"max": 0}),
        ("receive", {"max": 257}),
        ("receive", {"wait": -1}),
        ("receive", {"wait": 301}),
        ("receive", {"lease": 0.5}),
        ("receive", {"lease": 3601}),
        ("acknowledge", {}),
        ("acknowledge", {"lease": ""}),
        ("acknowledge", {"lease": "x", "ids": []}),
        ("acknowledge", {"lease": "x", "ids": [2**63]}),
        ("acknowledge", {"lease": "x", "ids": [-1]}),
        ("release", {"lease": "x", "ids": [1] * 257}),
        ("extend", {"lease": "x", "seconds": 1e9}),
    ],
)
async def test_numbers_have_bounds(tmp_path: Path, operation: str, body: dict[str, object]) -> None:
    async with running(tmp_path) as run:
        box = await Box.make(run)
        await box.put(1)
        await box.do(operation, status=422, **body)
        assert await box.take() == ["1"]


async def test_nobody_is_told_whether_there_was_a_box(tmp_path: Path) -> None:
    async with running(tmp_path) as run:
        gone = await Box.make(run)
        await call(run, "DELETE", gone.path, status=204)
        for path in (NOBODY, gone.path, "/mailboxes/x", "/mailboxes/%00"):
            said = [
                await call(run, "GET", path, status=404),
                await call(run, "DELETE", path, status=404),
                await call(run, "GET", f"{path}/events", status=404),
                await call(run, "POST", f"{path}/receive", {}, status=404),
                await call(run, "POST", f"{path}/renew", {}, status=404),
            ]
            for operation in ("acknowledge", "release", "extend"):
                body = {"lease": "x"}
                said.append(await call(run, "POST", f"{path}/{operation}", body, status=404))
            assert all(one == UNKNOWN for one in said), said
        entry = await run.subscribe(SPEAKER, SPEAKER.wse_subscribe("http://c.example.org/"))
        key = entry.rpartition("/")[2]
        assert await call(run, "GET", f"/mailboxes/{key}", status=404) == UNKNOWN


async def test_a_lease_that_has_ended(tmp_path: Path) -> None:
    async with running(tmp_path) as run:
        box = await Box.make(run)
        await box.put(1)
        late = await box.receive(lease=1)
        again = await box.receive(wait=8, lease=60)
        assert [one["takes"] for one in again["messages"]] == [2]
        for operation in ("acknowledge", "release", "extend"):
            assert (await box.do(operation, status=409, lease=late["lease"]))["detail"] == ENDED
        assert await box.do("extend", lease=again["lease"], seconds=600) == {"number": 1}
        assert await box.do("acknowledge", lease=again["lease"]) == {"number": 1}


async def test_two_receivers_share_a_box(tmp_path: Path) -> None:
    async with running(tmp_path) as run:
        box = await Box.make(run)

        async def receiver() -> list[str]:
            got: list[str] = []
            while taken := await box.take(max=3, wait=1):
                got += taken
            return got

        receivers = [asyncio.create_task(receiver()) for _ in range(2)]
        await box.put(*range(20))
        got = await asyncio.gather(*receivers)
        assert sorted(map(int, got[0] + got[1])) == list(range(20))
        for one in got:
            assert one == sorted(one, key=int)


async def taken(box: Box, count: int) -> list[str]:
    """So many messages, in the order in which they come."""
    got: list[str] = []
    async with asyncio.timeout(DEADLINE):
        while len(got) < count:
            got += await box.take(wait=6)
    return got


def linger(sock: socket.socket) -> None:
    """Let it break the connection when it is closed."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def asking(box: Box, *, buffer: int | None = None, **body: object) -> socket.socket:
    """A connection that has asked to receive."""
    sock = socket.socket()
    if buffer is not None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
    sock.connect(("127.0.0.1", box.run.port))
    headers = {"Content-Type": "application/json"}
    octets = json.dumps(body).encode()
    sock.sendall(http_request(box.run.port, "POST", f"{box.path}/receive", octets, headers))
    return sock


@pytest.mark.parametrize("breaks", [False, True], ids=["closes", "breaks"])
async def test_a_receiver_that_is_killed_while_it_waits(tmp_path: Path, breaks: bool) -> None:
    async with running(tmp_path) as run:
        box = await Box.make(run)
        sock = asking(box, wait=300, lease=3600)
        await run.until(lambda: len(run.gateway.mailboxes.waiting) == 1)
        if breaks:
            linger(sock)
        sock.close()
        await run.until(lambda: len(run.gateway.mailboxes.waiting) == 0)
        await box.put(1)
        batch = await box.receive(wait=5)
        assert [one["takes"] for one in batch["messages"]] == [1]


async def test_a_receiver_that_is_killed_while_it_is_answered(tmp_path: Path) -> None:
    async with running(tmp_path) as run:
        box = await Box.make(run)
        for number in range(8):
            await put(run, box.path, number, 500_000)
        sock = asking(box, buffer=4096, lease=3600)

        async def is_used() -> bool:
            size = await box.size()
            return bool(size["used"] != size["created"])

        await until(is_used)
        linger(sock)
        sock.close()
        assert sorted(await taken(box, 8)) == list("01234567")


async def test_strangers_have_quotas(tmp_path: Path) -> None:
    async with running(tmp_path, trusted=(), max_mailboxes_per_owner=2) as run:
        for _ in range(2):
            await Box.make(run, source=STRANGER)
        said = await call(run, "POST", "/mailboxes", {}, status=403, source=STRANGER)
        assert said == problem(403, "There are too many mailboxes.", "quota")
        body = {"topic": "storms"}
        await call(run, "POST", "/mailboxes", body, status=403, source=STRANGER)
        assert len(run.gateway.subscriptions) == 0
        too_long = {"topic": "storms", "expires": "P2D"}
        said = await call(run, "POST", "/mailboxes", too_long, status=400)
        assert said["reason"] == "expiry-too-long"
        await Box.make(run)


async def test_strangers_make_boxes_at_a_rate(tmp_path: Path) -> None:
    async with running(tmp_path, trusted=()) as run:
        answers = [
            await run.request(
                "POST", "/mailboxes", b"{}", source=STRANGER, content_type="application/json"
            )
            for _ in range(40)
        ]
        statuses = [answer.status for answer in answers]
        assert statuses[:20] == [201] * 20 and 429 in statuses
        assert int(answers[statuses.index(429)].headers["retry-after"]) >= 1
        await Box.make(run)


async def test_an_overflow_is_seen_and_can_be_undone(tmp_path: Path) -> None:
    async with running(tmp_path, adapter="embedded:", mailbox_messages=3) as run:
        plain = await Box.make(run)
        subscribed = await Box.make(run, topic="storms")
        for number in range(5):
            await plain.put(number)
            await run.publish(f"<n>{number}</n>", path="/soap/topic/storms")
        await run.quiet()
        for box in (plain, subscribed):
            size = await box.size()
            assert (size["messages"], size["dropped"]) == (3, 2)
            shown = await call(run, "GET", f"/api/v1/mailboxes/{box.id}")
            assert (shown["messages"], shown["dropped"]) == (3, 2)
        assert await metric(run, "mailboxes") == 2
        assert await metric(run, "mailbox_messages") == 6
        assert await metric(run, "mailbox_bytes") > 0
        assert await metric(run, "mailbox_dropped_total") == 4
        assert await metric(run, "mailbox_stored_total") == 5
        letters = (await call(run, "GET", "/api/v1/deadletters"))["dead_letters"]
        assert [one["reason"] for one in letters] == ["mailbox-overflow"] * 4
        waiting = []
        for box in (plain, subscribed):
            assert await box.take() == ["2", "3", "4"]
            waiting.append(asyncio.create_task(box.receive(wait=8, max=1)))
        await run.until(lambda: len(run.gateway.mailboxes.waiting) == 2)
        again = await call(run, "POST", "/api/v1/deadletters/redrive", {"all": True})
        assert again == {"number": 4, "reasons": {"mailbox-overflow": 4}, "next": None}
        for box, batch in zip((plain, subscribed), await asyncio.gather(*waiting), strict=True):
            assert numbers(batch["messages"]) == ["0"]
            assert await box.take() == ["1"]
        assert (await call(run, "GET", "/api/v1/deadletters"))["dead_letters"] == []


async def test_a_gateway_that_stops_sends_everybody_away(tmp_path: Path) -> None:
    async with running(tmp_path) as run:
        box = await Box.make(run)
        waiting = asyncio.create_task(box.receive(wait=60))
        async with streaming(box) as stream:
            await run.until(lambda: len(run.gateway.mailboxes.waiting) == 2)
            run.gateway.application.drain()
            assert (await waiting)["messages"] == []
            assert await stream.next() is None
        assert (await call(run, "GET", box.path, status=503))["reason"] == "unavailable"
        await call(run, "POST", "/mailboxes", {}, status=503)
        await call(run, "GET", f"{box.path}/events", status=503)


# Server-Sent Events.


async def test_a_stream(tmp_path: Path) -> None:
    async with running(tmp_path) as run:
        box = await Box.make(run)
        await box.put(1, 2)
        async with streaming(box) as stream:
            assert (stream.status, stream.retry) == (200, None)
            assert stream.headers["content-type"] == "text/event-stream; charset=utf-8"
            assert stream.headers["cache-control"] == "no-store"
            assert "access-control-allow-origin" not in stream.headers
            assert await stream.take(2) == ["1", "2"]
            assert stream.retry == 2000
            await box.put(3)
            event = await stream.next()
            assert event is not None and event.type == "message"
            message = json.loads(event.data)
            assert event.id == str(message["id"])
            assert (message["message_id"], numbers([message])) == ("urn:m:3", ["3"])
            assert message["envelope"].startswith("<s:Envelope")
        await empty(box)


async def empty(box: Box) -> None:
    """Return when nothing waits in *box*."""

    async def is_empty() -> bool:
        return not (await box.size())["messages"]

    await until(is_empty)


async def test_an_idle_stream_lives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Longer than any deadline of the connection."""
    limits = HttpLimits(head_time=0.3, body_time=0.3, write_time=0.3)
    monkeypatch.setattr(gateway.server.composition.foundation, "limits_of", lambda _: limits)
    monkeypatch.setattr(mailbox_streams, "HEARTBEAT", 0.2)
    async with running(tmp_path) as run:
        box = await Box.make(run, topic="storms", expires=5)
        before = (await box.size())["expires"]
        async with streaming(box) as stream:
            next_ = asyncio.create_task(stream.next())
            await run.until(lambda: stream.comments >= 8)
            await run.publish("<n>1</n>", path="/soap/topic/storms")
            event = await next_
            assert event is not None and event.number == "1"
            assert (await box.size())["expires"] > before


async def test_a_reader_comes_again(tmp_path: Path) -> None:
    async with running(tmp_path) as run:
        box = await Box.make(run)
        await box.put(1, 2, 3)
        async with streaming(box) as stream:
            event = await stream.next()
            assert event is not None and event.number == "1"
            first = event.id
            assert await stream.take(2) == ["2", "3"]
            await empty(box)
            stream.reset()
        await box.put(4)
        async with streaming(box, last_event_id=first) as stream:
            assert await stream.take(3) == ["2", "3", "4"]
            last = stream.last_id
            await empty(box)
        async with streaming(box, query=f"?last_event_id={first}") as stream:
            assert await stream.take(3) == ["2", "3", "4"]
            await empty(box)
        await box.put(5)
        async with streaming(box, last_event_id=last, query=f"?last_event_id={first}") as stream:
            assert await stream.take(1) == ["5"]
            await empty(box)
        await box.put(6)
        for nonsense in ("x", "-1", "9" * 30, "²"):
            async with streaming(
                box, query=f"?last_event_id={'%C2%B2' if nonsense == '²' else nonsense}"
            ):
                pass
        async with streaming(box) as stream:
            assert await stream.take(1) == ["6"]


async def test_a_stream_that_breaks_loses_nothing(tmp_path: Path) -> None:
    """What was written to a peer that never took it in is the oldest again."""
    async with running(tmp_path) as run:
        box = await Box.make(run)
        for number in range(10):
            await put(run, box.path, number, 300_000)
        got: list[str] = []
        for _ in range(5):
            sock = socket.socket()
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            linger(sock)
            sock.connect(("127.0.0.1", run.port))
            sock.sendall(http_request(run.port, "GET", f"{box.path}/events", b"", {}))
            sock.setblocking(False)
            async with asyncio.timeout(DEADLINE):
                assert await asyncio.get_running_loop().sock_recv(sock, 1)
            sock.close()
        async with streaming(box, limit=2**24) as stream:
            got += await stream.take(10)
        assert got == list("0123456789")


async def test_a_reader_that_does_not_read_is_cut_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = HttpLimits(write_time=0.5)
    monkeypatch.setattr(gateway.server.composition.foundation, "limits_of", lambda _: limits)
    monkeypatch.setattr(mailbox_streams, "TAKEN_IN", 0.5)
    async with running(tmp_path) as run:
        box = await Box.make(run)
        for number in range(8):
            await put(run, box.path, number, 500_000)
        with contextlib.closing(socket.socket()) as sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            sock.connect(("127.0.0.1", run.port))
            sock.sendall(http_request(run.port, "GET", f"{box.path}/events", b"", {}))
            await run.until(lambda: run.gateway.serving.gate.connections > 0)
            await run.until(lambda: run.gateway.serving.gate.connections == 0)
        assert await taken(box, 8) == list("01234567")


async def test_a_new_stream_takes_over(tmp_path: Path) -> None:
    async with running(tmp_path) as run:
        box = await Box.make(run)
        async with streaming(box) as old, streaming(box) as new:
            event = await old.next()
            assert event is not None and event.type == "replaced"
            assert old.retry is not None and old.retry > 3600_000
            assert await old.next() is None
            await box.put(1, 2)
            assert await new.take(2) == ["1", "2"]


async def test_streams_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mailbox_streams, "STREAMS", 1)
    async with running(tmp_path) as run:
        one, other = await Box.make(run), await Box.make(run)
        async with streaming(one):
            async with streaming(other) as refused:
                assert refused.status == 503
            async with streaming(one) as again:
                assert again.status == 200
                await one.put(1)
                assert await again.take(1) == ["1"]
        async with asyncio.timeout(DEADLINE):
            status = 503
            while status == 503:
                async with streaming(other) as stream:
                    status = stream.status
        assert status == 200


async def test_whoever_has_the_most_streams_makes_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mailbox_streams, "STREAMS", 2)
    async with running(tmp_path, trusted=()) as run:
        sources = ("127.0.0.1", "127.0.0.1", "127.0.0.1", "127.0.0.2")
        boxes = [await Box.make(run, source=source) for source in sources]
        async with streaming(boxes[0]) as first, streaming(boxes[1]) as second:
            async with streaming(boxes[2]) as refused:
                assert refused.status == 503
            async with streaming(boxes[3]) as other:
                assert other.status == 200
                assert await first.next() is None
                await boxes[1].put(1)
                assert await second.take(1) == ["1"]


async def test_a_box_that_is_deleted_ends_its_stream(tmp_path: Path) -> None:
    async with running(tmp_path) as run:
        box = await Box.make(run)
        async with streaming(box) as stream:
            await run.until(lambda: len(run.gateway.mailboxes.waiting) == 1)
            await call(run, "DELETE", f"/api/v1/mailboxes/{box.id}", status=204)
            assert await stream.next() is None


EVENT_SOURCE = """
const source = new EventSource(process.argv[1]);
source.onmessage = (event) => console.log(JSON.parse(event.data).message_id);
setInterval(() => {}, 1000);
"""


@functools.cache
def node() -> tuple[str, ...]:
    """How Node.js with an EventSource is started; nothing where there is none."""
    command = (shutil.which("node") or "false", "--experimental-eventsource", "--no-warnings", "-e")
    probe = subprocess.run((*command, "EventSource"), capture_output=True, check=False, timeout=30)
    return () if probe.returncode else command


async def test_an_event_source_of_others(tmp_path: Path) -> None:
    """That of Node.js, as in browsers; its connection breaks twice."""
    if not node():
        pytest.skip("there is no Node.js with an EventSource")
    async with running(tmp_path) as run:
        box = await Box.make(run)
        reader = await asyncio.create_subprocess_exec(
            *node(), EVENT_SOURCE, f"{box.address}/events", stdout=asyncio.subprocess.PIPE
        )
        assert reader.stdout is not None
        got = []
        try:
            for round_ in range(3):
                await box.put(*range(3 * round_, 3 * round_ + 3))
                for _ in range(3):
                    line = await asyncio.wait_for(reader.stdout.readline(), 3 * DEADLINE)
                    got.append(line.decode().strip())
                for connection in list(run.gateway.serving.gate._sides):
                    connection.evict()
        finally:
            reader.kill()
            await reader.wait()
        assert got == [f"urn:m:{number}" for number in range(9)]


# Operators.


async def test_administration(tmp_path: Path) -> None:
    async with running(tmp_path) as run:
        boxes = [await Box.make(run) for _ in range(4)]
        boxes.append(await Box.make(run, topic="storms"))
        await boxes[0].put(1)
        seen: list[Any] = []
        after: str | None = ""
        while after is not None:
            page = await call(run, "GET", f"/api/v1/mailboxes?limit=2&after={after}")
            assert len(page["mailboxes"]) <= 2
            seen += page["mailboxes"]
            after = page["next"]
        assert [one["id"] for one in seen] == sorted(box.id for box in boxes)
        assert not any(box.key in json.dumps(seen) for box in boxes)
        assert sorted(one["kind"] for one in seen) == ["mailbox"] * 4 + ["subscription"]
        shown = await call(run, "GET", f"/api/v1/mailboxes/{boxes[0].id}")
        assert shown in seen
        assert (shown["messages"], shown["owner"]) == (1, "anonymous:127.0.0.1")
        for box in boxes:
            await call(run, "DELETE", f"/api/v1/mailboxes/{box.id}", status=204)
            await call(run, "DELETE", f"/api/v1/mailboxes/{box.id}", status=404)
        assert len(run.gateway.mailboxes) == len(run.gateway.subscriptions) == 0
        for id_ in (boxes[0].id, boxes[0].key, "x", "%00"):
            await call(run, "GET", f"/api/v1/mailboxes/{id_}", status=404)
        described = await call(run, "GET", "/openapi.json")
        assert {"/mailboxes", "/mailboxes/{key}/events"} <= described["paths"].keys()


@pytest.mark.nightly
async def test_in_postgresql(tmp_path: Path, postgresql_url: str) -> None:
    """All doors of this page, in the store that several gateways may share."""
    async with running(tmp_path, store=postgresql_url, mailbox_messages=4) as run:
        box = await Box.make(run)
        await box.put(1, 2, 3)
        async with streaming(box) as stream:
            assert await stream.take(1) == ["1"]
            first = stream.last_id
            assert await stream.take(2) == ["2", "3"]
            await empty(box)
        async with streaming(box, last_event_id=first) as stream:
            assert await stream.take(2) == ["2", "3"]
            await empty(box)
        await box.put(*range(4, 10))
        [listed] = (await call(run, "GET", "/api/v1/mailboxes?limit=1"))["mailboxes"]
        assert (listed["id"], listed["messages"], listed["dropped"]) == (box.id, 4, 2)
        assert await metric(run, "mailbox_messages") == 4
        again = await call(run, "POST", "/api/v1/deadletters/redrive", {"all": True})
        assert again["number"] == 2
        assert await taken(box, 6) == ["6", "7", "8", "9", "4", "5"]
        await call(run, "DELETE", box.path, status=204)
        assert (await call(run, "GET", "/api/v1/mailboxes"))["mailboxes"] == []


# What is killed.


async def test_a_gateway_that_is_killed_between_receive_and_acknowledge(tmp_path: Path) -> None:
    async with gateway_process(tmp_path / "data") as process:
        box = await Box.make(process)
        await box.put(1, 2, 3)
        batch = await box.receive(max=2, lease=5)
        held = await box.receive(max=1, lease=60)
        await process.kill()
        await process.start()
        # A lease outlives the process that gave it.
        assert await box.do("acknowledge", lease=held["lease"]) == {"number": 1}
        again = await box.receive(wait=60)
        assert numbers(again["messages"]) == ["1", "2"]
        assert [one["takes"] for one in again["messages"]] == [2, 2]
        assert [one["id"] for one in again["messages"]] == [one["id"] for one in batch["messages"]]
        await box.do("acknowledge", lease=again["lease"])
        assert (await box.size())["messages"] == 0


@pytest.mark.nightly
async def test_a_gateway_that_is_killed_while_it_streams(tmp_path: Path) -> None:
    """Who comes again with the id of the last event gets each message once, in order."""
    async with gateway_process(tmp_path / "data") as process:
        box = await Box.make(process)
        got: list[str] = []
        last = ""
        for round_ in range(3):
            texts = [str(10 * round_ + number) for number in range(10)]
            await box.put(*texts)
            async with streaming(box, last_event_id=last) as stream:
                got += await stream.take(5)
                last = stream.last_id
                await process.kill()
            await process.start()
        async with streaming(box, last_event_id=last) as stream:
            got += await stream.take(15)
        assert got == [str(number) for number in range(30)]


# What docs/mailboxes.md shows.


@pytest.mark.parametrize(
    ("language", "interpreter", "programs"),
    [("sh", ("bash", "-eu"), ("curl", "jq")), ("python", (sys.executable, "-"), ())],
)
async def test_documentation(
    tmp_path: Path, language: str, interpreter: tuple[str, ...], programs: tuple[str, ...]
) -> None:
    missing = [program for program in programs if shutil.which(program) is None]
    if missing:
        pytest.skip(f"there is no {', '.join(missing)}")
    page = (Path(__file__).parents[3] / "docs/mailboxes.md").read_text()
    example = re.findall(rf"```{language}\n(.*?)```", page, re.DOTALL)[0]
    async with running(tmp_path, adapter="embedded:") as run:
        assert "127.0.0.1:8080" in example
        program = await asyncio.create_subprocess_exec(
            *interpreter,
            cwd=tmp_path,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])},
        )
        script = example.replace("127.0.0.1:8080", f"127.0.0.1:{run.port}").encode()
        async with asyncio.timeout(3 * DEADLINE):
            printed, _ = await program.communicate(script)
        assert program.returncode == 0
        assert b"<speed" in printed and b">120</speed>" in printed
        if language == "sh":
            assert b"1 storms <speed" in printed
            assert b'{"number":1}' in printed and b'"messages":0' in printed
        assert len(run.gateway.mailboxes) == len(run.gateway.subscriptions) == 0


async def test_a_mailbox_of_everything(tmp_path: Path) -> None:
    """Topics with a namespace and without, and what has none."""
    async with running(tmp_path) as run:
        made = await run.request(
            "POST", "/mailboxes", b'{"all": true}', content_type="application/json"
        )
        assert made.status == 201, made.body
        key = json.loads(made.body)["key"]
        for path in ("/soap/topic/storms", "/soap/topic/%7Burn:w%7Dstorms", "/soap"):
            await run.publish("<a/>", path=path)
        body = b'{"max": 10, "wait": 20}'
        got: list[Any] = []
        while len(got) < 3:
            answer = await run.request(
                "POST", f"/mailboxes/{key}/receive", body, content_type="application/json"
            )
            got += json.loads(answer.body)["messages"]
        assert {one["topic"] for one in got} >= {"storms", "{urn:w}storms"}
        for odd in (b'{"all": true, "topic": "a"}', b'{"all": 1}'):
            refused = await run.request("POST", "/mailboxes", odd, content_type="application/json")
            assert refused.status == 422
