"""What is counted of backlogs, and asked to give way, while dispatchers come and go."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from gateway.security.tenant_quotas import Quotas, Tenants
from gateway.store import Store
from gateway.store.owner_bytes import OwnerBytes
from gateway.store.tenant_backlogs import TenantBacklogs
from tests.rigs.consumers import Consumers, hang, status
from tests.rigs.dispatching import engine
from tests.rigs.waiting import until

ADA = "tenant:acme:user:ada"


@pytest.mark.parametrize("lets_go", ["stop", "abandon", "end"])
async def test_rows_of_which_a_dispatcher_lets_go(tmp_path: Path, lets_go: str) -> None:
    """Another gateway may have its partition then, and counts them."""
    tenants = Tenants()
    tenants.use({"acme": Quotas(backlog=6)})
    backlogs = TenantBacklogs(Store("memory:"), tenants)
    options: dict[str, Any] = {"tenant_backlogs": backlogs}
    async with Consumers() as sinks:
        sinks.at("/a").behaviour = status(503)
        async with engine(tmp_path, **options) as one:
            entry = await one.subscribe(sinks.url("a"), owner=ADA)
            one.publish(*range(20))
            await until(lambda: backlogs.of_tenant("acme") == 6)
            await one.settled()
            assert backlogs.of_tenant("acme") == 6
            if lets_go == "end":
                await one.end(entry)
            elif lets_go == "stop":
                await one.dispatcher.stop(0.1)
            else:
                one.dispatcher.abandon()
            assert backlogs.of_tenant("acme") == 0
        again = TenantBacklogs(Store("memory:"), tenants)
        async with engine(tmp_path, tenant_backlogs=again):
            assert again.of_tenant("acme") == (0 if lets_go == "end" else 6)


async def test_what_is_all_under_way_is_not_asked_again_and_again(tmp_path: Path) -> None:
    """Of an owner that keeps too much: none of it can be given up until an attempt ends."""
    owners: list[OwnerBytes] = []

    class Late(OwnerBytes):
        def over(self, owner: str) -> int:
            return owners[0].over(owner) if owners else 0

    async with Consumers() as sinks:
        sink = sinks.at("/a")
        sink.behaviour = hang
        late = Late(Store("memory:"), trusts=lambda _: False)
        async with engine(tmp_path, owner_bytes=late) as one:
            entry = await one.subscribe(sinks.url("a"), ordered=False)
            one.publish(*range(6), filling=100)
            await one.settled()
            outbox = one.dispatcher.outboxes[entry]
            assert outbox.held == len(outbox.in_flight) == 6
            owners.append(OwnerBytes(one.store, trusts=lambda _: False, most=1))
            await owners[0].count()
            assert owners[0].over(entry.subscription.owner) > 0
            before = one.store.commits
            one.dispatcher.backlog.bound(outbox)
            await asyncio.sleep(0.5)
            assert one.store.commits - before < 20
            assert outbox.held == len(outbox.in_flight) == 6
            owners.clear()
