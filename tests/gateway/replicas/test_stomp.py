"""Two gateways with one PostgreSQL and one ActiveMQ, whose one queue one of them holds."""

import json
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from mediation.names import WSE_2004_08 as WSE
from tests.rigs.activemq import ActiveMQ, activemq, needs_activemq
from tests.rigs.consumers import consumers
from tests.rigs.outage_traffic import SECONDS, judge
from tests.rigs.postgresql import PostgreSQL, needs_postgresql, postgresql_cluster
from tests.rigs.processes import GatewayProcess, gateway_process, publishing
from tests.rigs.stores import check_store
from tests.rigs.system_events import listen_to_system_events, next_system_event
from tests.rigs.waiting import until

needs_activemq()
needs_postgresql(allow_module_level=True)


@pytest.fixture(scope="module")
def broker() -> ActiveMQ:
    return activemq()


@pytest.fixture(scope="module")
def cluster() -> Iterator[PostgreSQL]:
    with postgresql_cluster() as one:
        yield one


async def holder(*those: GatewayProcess) -> GatewayProcess:
    """The one that holds the partition, once one does."""
    found: list[GatewayProcess] = []

    async def one_holds_it() -> bool:
        for one in those:
            state = json.loads((await one.request("GET", "/readyz")).body)
            if "0" in {str(partition) for partition in state["partitions"]}:
                found.append(one)
        return bool(found)

    await until(one_holds_it, SECONDS)
    return found[0]


@pytest.mark.nightly
async def test_the_holder_dies_in_traffic(
    broker: ActiveMQ, cluster: PostgreSQL, tmp_path: Path
) -> None:
    """The other takes over: nothing acknowledged is lost, and all stays in order."""
    name = f"replicas-{uuid.uuid4().hex[:8]}"
    store = cluster.url(cluster.make_database())
    environment = {
        "DRAGOMAN_ADAPTER": f"{broker.url}?name={name}&root={name}",
        "DRAGOMAN_STORE": store,
    }
    async with (
        consumers() as sinks,
        gateway_process(tmp_path / "a", environment) as first,
        gateway_process(tmp_path / "b", environment) as second,
    ):
        dying = await holder(first, second)
        staying = second if dying is first else first
        consumer = sinks.add(keep=False)
        await staying.subscribe(consumer.url)
        async with publishing(staying, 50.0) as publishers:
            await consumer.have(30, SECONDS)
            await dying.kill()
            assert await holder(staying) is staying
            await consumer.have(consumer.count + 50, SECONDS)
            await dying.start()
        await consumer.have_all([one for all in publishers for one in all.acknowledged])
        await staying.at_rest()
        judge(publishers, [consumer])
    check_store(store)


@pytest.mark.nightly  # PostgreSQL is started for this file alone: 6 s of processor time.
async def test_what_happens_at_one_that_delivers_nothing_is_told(
    broker: ActiveMQ, cluster: PostgreSQL, tmp_path: Path
) -> None:
    """The holder of the partition tells it, once."""
    name = f"replicas-{uuid.uuid4().hex[:8]}"
    store = cluster.url(cluster.make_database())
    environment = {
        "DRAGOMAN_ADAPTER": f"{broker.url}?name={name}&root={name}",
        "DRAGOMAN_STORE": store,
    }
    async with (
        consumers() as sinks,
        gateway_process(tmp_path / "a", environment) as first,
        gateway_process(tmp_path / "b", environment) as second,
    ):
        holding = await holder(first, second)
        idle = second if holding is first else first
        listener = sinks.add()
        await listen_to_system_events(idle, listener.url, holding)
        other = sinks.add()
        managers = [await one.subscribe(other.url) for one in (idle, holding)]
        for manager in managers:
            assert (await idle.ask(f'<e:Unsubscribe xmlns:e="{WSE}"/>', manager)).status == 200
        told = [await next_system_event(listener) for _ in range(4)]
        await holding.at_rest()
    assert sorted(told.count(one) for one in set(told)) == [1, 1, 1, 1]
    assert sorted(kind for kind, _ in told) == 2 * ["subscription/created"] + 2 * [
        "subscription/ended"
    ]
    assert listener.waiting == 0
    check_store(store)
