"""The subscription at the parent: what it brings, when it is renewed, where it may lead."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from gateway.channels.parent import ParentLink
from gateway.egress import AddressPolicy
from gateway.server.application import Application
from mediation.grid_events import channel_reference, port_of
from tests.rigs.consumers import Consumers
from tests.rigs.gateways import Running, running
from tests.rigs.grid_events import handle, lease
from tests.rigs.waiting import until


@contextlib.asynccontextmanager
async def linked(child: Running, parent: Running, **options: Any) -> AsyncIterator[ParentLink]:
    gateway: Application = child.gateway
    own = port_of(channel_reference(f"{child.url}/soap"))
    link = ParentLink(gateway.transport, gateway.policy, gateway.parsing, own, **options)
    link.follow(channel_reference(f"{parent.url}/soap"))
    working = asyncio.create_task(link.run())
    try:
        yield link
    finally:
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)


async def test_events_come_down_and_not_up(tmp_path: Path) -> None:
    async with (
        asyncio.timeout(50),
        Consumers() as consumers,
        running(tmp_path / "a") as above,
        running(tmp_path / "b") as below,
        linked(below, above) as link,
        # A loop of two: what came from below does not return there.
        linked(above, below) as back,
    ):
        await until(lambda: link.outcomes["granted"] > 0 and back.outcomes["granted"] > 0)
        listeners = [consumers.at("/above"), consumers.at("/below")]
        for gateway, listener in zip((above, below), listeners, strict=True):
            port = f"<endpoint><location>{listener.url}</location></endpoint>"
            answer = await gateway.post(lease(port=port))
            assert answer.status == 200, answer.body
        for gateway, number in ((above, "1"), (below, "2"), (above, "3")):
            answer = await gateway.post(handle(f"<eventType>a</eventType><seqNo>{number}</seqNo>"))
            assert answer.status == 200, answer.body
        for listener in listeners:
            await listener.have(3)
        await above.quiet()
        await below.quiet()
        assert [listener.count for listener in listeners] == [3, 3]


async def test_the_lease_is_renewed_without_a_double(tmp_path: Path) -> None:
    async with (
        asyncio.timeout(50),
        running(tmp_path / "a") as above,
        running(tmp_path / "b") as below,
        linked(below, above, lease=0.1) as link,
    ):
        await until(lambda: link.outcomes["granted"] > 1)
        assert len(above.gateway.subscriptions) == 1


async def test_no_address_inside_is_asked(tmp_path: Path) -> None:
    async with asyncio.timeout(50), running(tmp_path / "a") as above:
        own = port_of(channel_reference("http://child.example/soap"))
        gateway = above.gateway
        link = ParentLink(gateway.transport, AddressPolicy(), gateway.parsing, own)
        link.follow(channel_reference(f"{above.url}/soap"))
        working = asyncio.create_task(link.run())
        await until(lambda: link.outcomes["failed"] > 0)
        working.cancel()
        assert not link.outcomes["granted"] and not len(gateway.subscriptions)
