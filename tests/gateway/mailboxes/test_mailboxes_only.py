"""``serve --mailboxes-only``: a mailbox service outside the firewall, brokers and consumers within
theirs."""

import asyncio
import contextlib
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.gateway.server.test_kill import more_acknowledged
from tests.rigs.envelopes import S11, WSNT, Speaker
from tests.rigs.json_mailboxes import Box, call
from tests.rigs.processes import GatewayProcess, Publisher, gateway_process
from tests.rigs.programs import run

ONLY = {"DRAGOMAN_MAILBOXES_ONLY": "true"}
SOON = ",".join(["0.3"] * 200)
SPEAKER = Speaker()


@asynccontextmanager
async def fixed_address(service: GatewayProcess) -> AsyncIterator[int]:
    """A port that leads to *service*, wherever it listens since its last start."""

    async def pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.CancelledError):
            while octets := await reader.read(65536):
                writer.write(octets)
                await writer.drain()
        writer.close()

    async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", service.port)
        except OSError:
            writer.transport.abort()
            return
        await asyncio.gather(pipe(reader, inner_writer), pipe(inner_reader, writer))

    server = await asyncio.start_server(forward, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


async def drained(box: Box) -> list[str]:
    """The numbers of the events in *box*, in its order."""
    got: list[str] = []
    while True:
        batch = await box.receive(max=256)
        if not batch["messages"]:
            return got
        got += [
            found
            for message in batch["messages"]
            for found in re.findall("<n>([^<]+)</n>", message["payload"])
        ]
        await box.do("acknowledge", lease=batch["lease"])


async def test_it_offers_nothing_else(tmp_path: Path) -> None:
    async with gateway_process(tmp_path / "data", ONLY) as service:
        ready = await service.request("GET", "/readyz")
        assert ready.status == 200
        assert json.loads(ready.body)["adapter"] == "memory"
        assert not (tmp_path / "data" / "journal.db").exists()
        speakers = (SPEAKER, Speaker(S11))
        for speaker in speakers:
            consumer = "http://consumer.example.org/"
            for body in (
                speaker.wsn_subscribe(consumer),
                speaker.wse_subscribe(consumer),
                "<event/>",
                f'<w:GetCurrentMessage xmlns:w="{WSNT}"><w:Topic Dialect="http://docs.oasis-open.'
                f'org/wsn/t-1/TopicExpression/Simple">a</w:Topic></w:GetCurrentMessage>',
            ):
                answer = await service.request(
                    "POST", "/soap", speaker.envelope(body), content_type=speaker.type
                )
                assert answer.status in (400, 500), answer.body
                assert answer.fault.text == "Only mailboxes are offered here."
        said = await call(service, "POST", "/mailboxes", {"topic": "a"}, status=400)
        assert said["detail"] == "Only mailboxes are offered here."
        made = await service.ask(f'<w:CreatePullPoint xmlns:w="{WSNT}"/>')
        assert made.status == 200
        box = await Box.make(service)
        await box.put(1, 2)
        assert await box.take() == ["1", "2"]
        metrics = await service.request("GET", "/metrics")
        lines = metrics.body.decode().splitlines()
        assert "dragoman_mailboxes 2.0" in lines
        assert "dragoman_mailbox_stored_total 2.0" in lines
        assert "dragoman_accepted_total 0.0" in lines
        assert "dragoman_subscriptions 0.0" in lines


def test_it_wants_no_broker(tmp_path: Path) -> None:
    adapter = "amqp://broker.example.org/"
    refused = run("serve", "--mailboxes-only", "--adapter", adapter, cwd=tmp_path)
    assert refused.returncode == 1
    assert refused.stderr == (
        "dragoman: --adapter: nothing is published where mailboxes_only is set; leave it out\n"
    )


async def test_a_broker_within_and_a_consumer_that_nobody_reaches(tmp_path: Path) -> None:
    """A gateway beside its broker delivers into a box outside, whose service is killed meanwhile;
    the consumer fetches every event, in its order."""
    within = {"DRAGOMAN_RETRY_DELAYS": SOON}
    async with (
        gateway_process(tmp_path / "outside", ONLY) as outside,
        gateway_process(tmp_path / "inside", within) as inside,
        fixed_address(outside) as port,
    ):
        box = await Box.make(outside)
        await inside.subscribe(f"http://127.0.0.1:{port}{box.path}")
        publisher = Publisher(inside, path="/soap/topic/storms")
        got: list[str] = []
        for _ in range(3):
            for _ in range(10):
                assert await publisher.publish() == 202
            await outside.kill()
            for _ in range(10):
                assert await publisher.publish() == 202
            await outside.start()
            got += await drained(box)
        publisher.close()
        await inside.at_rest()
        got += await drained(box)
        # What was kept when the service was killed, but not answered, may come again.
        assert list(dict.fromkeys(got)) == publisher.acknowledged
        letters = await call(inside, "GET", "/api/v1/deadletters")
        assert letters["dead_letters"] == []


async def test_what_it_answered_202_to_is_there(tmp_path: Path) -> None:
    """Senders that do not try again, and kill -9 in their midst."""
    async with gateway_process(tmp_path / "data", ONLY) as service:
        box = await Box.make(service)
        got: list[str] = []
        senders: list[Publisher] = []
        for round_ in range(3):
            async with publishing_into(service, box, round_) as some:
                senders += some
                await more_acknowledged(some, 40)
                await service.kill()
            await service.start()
        got += await drained(box)
        for sender in senders:
            own = [number for number in got if number in set(sender.attempted)]
            assert [number for number in own if number in set(sender.acknowledged)] == (
                sender.acknowledged
            )
            assert own == sorted(own, key=sender.attempted.index)
        assert len(got) == len(set(got))
        assert sum(len(sender.acknowledged) for sender in senders) >= 120


@asynccontextmanager
async def publishing_into(
    service: GatewayProcess, box: Box, round_: int
) -> AsyncIterator[list[Publisher]]:
    """Senders of numbered events into *box*."""
    senders = [Publisher(service, f"{name}{round_}-", path=box.path) for name in "ab"]
    tasks = [asyncio.create_task(one.run(100)) for one in senders]
    try:
        yield senders
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for one in senders:
            one.close()
