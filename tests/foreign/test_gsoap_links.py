"""A channel of the gateway linked to one that is made with gSOAP, in C++."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gateway.client.grid_events import MachineUtilizationEvent, Publisher
from mediation.grid_events import CHANNEL
from tests.rigs.consumers import Consumers
from tests.rigs.gateways import running
from tests.rigs.grid_events import lease
from tests.rigs.gsoap_grid import BINDING, grid_channel, gsoap_grid, needs_gsoap_grid

needs_gsoap_grid()

LAB = "/soap/channel/lab"


@pytest.fixture(scope="module", autouse=True)
def compiled() -> None:
    """No test of the module waits for the compiler."""
    gsoap_grid()


@pytest.fixture
async def consumers() -> AsyncIterator[Consumers]:
    async with Consumers() as made:
        yield made


@pytest.mark.slow
async def test_a_link_is_renewed_brings_events_and_is_cut(
    tmp_path: Path, consumers: Consumers
) -> None:
    async with running(tmp_path, channels=({"name": "lab"},)) as run, grid_channel() as channel:
        asked = {
            "url": channel.reference.location, "binding": BINDING, "channel": "lab",
            "example": {"eventType": "storm"}, "lease": 6,
        }  # fmt: skip
        made = await run.api("POST", "/links", json.dumps(asked).encode())
        assert made.status == 201, made.body
        called = {
            "location": f"{run.url}{LAB}", "binding": CHANNEL, "eventType": "storm",
            "leaseDuration": "6000",
        }  # fmt: skip
        for _ in range(2):  # It grants three seconds: the second call is the renewal.
            kind, told = await channel.called()
            assert kind == "subscribeLease" and called.items() <= told.items()
        listener = consumers.at("/")
        port = f"<endpoint><location>{listener.url}</location></endpoint>"
        assert (await run.post(lease(port=port), LAB)).status == 200
        async with Publisher(channel.reference) as publisher:
            await publisher.publish(
                MachineUtilizationEvent(event_type="storm.coast", cpu_utilization=0.5)
            )
        await listener.have(1)
        assert b"<cpuUtilization xsi:type='xsd:double'>0.5<" in listener.received[0].body
        id_ = json.loads(made.body)["id"]
        assert (await run.api("DELETE", f"/links/{id_}")).status == 204
        while (told := (await channel.called())[1]).get("leaseDuration") != "1":
            assert told.get("leaseDuration") in ("6000", None)
        await run.quiet()
