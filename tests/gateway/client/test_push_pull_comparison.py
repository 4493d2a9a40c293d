"""Push compared with pull at a gateway in this process."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest

from gateway.client import Client, Consumer, PulledMailbox, RenewedSubscription, subscribed
from gateway.client.delivery_checks import CheckState, DeliveryChecks
from gateway.client.push_pull_comparison import Comparison
from mediation.client import SPECS
from mediation.model.versions import Version
from tests.rigs.gateways import Running, running
from tests.rigs.waiting import DEADLINE

BLOCKED = "127.0.0.9"
ROW = {"address": BLOCKED, "via": "http://127.0.0.1:1"}
"""What is sent to this address is forwarded to where nobody listens."""


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[Running]:
    async with running(tmp_path, consumers=[ROW]) as run:
        yield run


class Compared:
    """A subscription that is compared; *said* is told of each change."""

    def __init__(
        self, gateway: Running, client: Client, consumer: Consumer, mailboxes: str
    ) -> None:
        self.checks = DeliveryChecks(gateway.url, consumer.address, grace=0.2)
        self.changes: asyncio.Queue[tuple[CheckState, str]] = asyncio.Queue()
        self._client = client
        mailbox = partial(PulledMailbox, mailboxes)
        self.comparison = Comparison(
            self.checks, mailbox, self._subscribe, self._changed, quiet=0.01
        )

    def _subscribe(
        self, address: str
    ) -> "contextlib.AbstractAsyncContextManager[RenewedSubscription]":
        return subscribed(self._client, address, topic="storms")

    def _changed(self) -> None:
        way = self.checks.rows(asyncio.get_running_loop().time())[3]
        self.changes.put_nowait((way.state, way.text))

    async def change(self) -> tuple[CheckState, str]:
        return await asyncio.wait_for(self.changes.get(), DEADLINE)


@contextlib.asynccontextmanager
async def compared(
    gateway: Running, host: str, version: Version = Version.WSN_1_3, *, mailboxes: str = ""
) -> AsyncIterator[tuple[Compared, Client, Consumer]]:
    async with (
        Client(gateway.url, version) as client,
        Consumer(host) as consumer,
        subscribed(client, consumer.address, topic="storms"),
    ):
        one = Compared(gateway, client, consumer, mailboxes or gateway.url)
        comparing = asyncio.create_task(one.comparison.run())
        try:
            yield one, client, consumer
        finally:
            comparing.cancel()
            await asyncio.gather(comparing, return_exceptions=True)


@pytest.mark.parametrize("version", list(SPECS), ids=lambda version: version.value)
async def test_push_is_blocked(gateway: Running, version: Version) -> None:
    async with compared(gateway, BLOCKED, version) as (one, client, consumer):
        assert (await one.change())[1].startswith("nothing is sent; looking")
        await client.publish(b"<a/>", topic="storms")
        assert (await one.change())[1] == "a message could be fetched; is it sent, too?"
        state, text = await one.change()
        assert state is CheckState.FAILED and consumer.address in text
    assert len(gateway.gateway.subscriptions.entries) == 0
    assert (await gateway.api("GET", "/mailboxes")).body.count(b'"id"') == 0


async def test_push_comes(gateway: Running) -> None:
    async with compared(gateway, "127.0.0.1") as (one, client, consumer):
        await one.change()
        one.comparison.received()
        one.checks.received()
        await client.publish(b"<a/>", topic="storms")
        await asyncio.wait_for(consumer.receive(), DEADLINE)
        assert one.changes.empty()


async def test_nothing_can_be_fetched(gateway: Running) -> None:
    async with compared(gateway, "127.0.0.1", mailboxes="http://127.0.0.1:1") as (one, _, _):
        state, text = await one.change()
        assert state is CheckState.OPEN
        assert text.startswith("nothing can be fetched to compare: cannot reach")
