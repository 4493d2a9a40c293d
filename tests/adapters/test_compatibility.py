"""Adapters that were written for an earlier Dragoman, as their authors have them."""

import asyncio
import importlib
from collections.abc import AsyncIterator
from datetime import UTC, datetime

import pytest

from adapters import (
    AdapterState,
    Interest,
    XPathFilterAdapter,
    capabilities_of,
)
from adapters.compatibility import FORMER_MODULES
from adapters.loading import RestartingAdapter
from adapters.memory import MemoryAdapter, MemoryDelivery
from adapters.protocol import Adapter, Capabilities
from filters import EVERYTHING, Expression, Filter, FilterError, Reason
from tests.rigs.adapters import SECONDS, STORM, storm

DIALECT = "urn:test:severity"


class Older(MemoryAdapter):
    """One that has all the former powers: found by their names, not said as capabilities."""

    def __init__(self) -> None:
        super().__init__(prefetch=16)
        self.capabilities = Capabilities(False, True, 1, (DIALECT,), 16)
        self.asked: list[str] = []
        self.state = AdapterState(True, datetime.now(UTC), reconnects=7)
        self._severities: dict[Interest, bytes] = {}

    def share(self) -> None:
        self.asked.append("share")

    async def adopt(self, interest: Interest) -> None:
        self.asked.append("adopt")
        await self.want(interest)

    def take(self, partition: int) -> None:
        self.asked.append(f"take {partition}")

    async def release(self, partition: int) -> None:
        self.asked.append(f"release {partition}")

    async def want(self, interest: Interest) -> None:
        if interest.expression is None or interest.expression.dialect != DIALECT:
            await super().want(interest)
        elif not interest.expression.text.isdecimal():
            raise FilterError(Reason.FILTER_INVALID, "a severity is a number")
        else:
            self._severities[interest] = f"<n>{interest.expression.text}</n>".encode()

    async def deliveries(self) -> AsyncIterator[MemoryDelivery]:
        async for delivery in super().deliveries():
            yield OlderDelivery(delivery, None)
            for interest, number in self._severities.items():
                if delivery.notification.payload == number:
                    yield OlderDelivery(delivery, interest)


class OlderDelivery(MemoryDelivery):
    def __init__(self, delivery: MemoryDelivery, interest: Interest | None) -> None:
        super().__init__(delivery._adapter, delivery.notification)
        self.interest = interest
        self.arrived = 1.5


async def test_the_powers_of_an_older_adapter_are_found() -> None:
    adapter = Older()
    capabilities = capabilities_of(adapter)
    assert capabilities == adapter.capabilities
    assert capabilities.reporting is not None and capabilities.reporting() is adapter.state
    sharing = capabilities.sharing
    assert sharing is not None
    sharing.share()
    await adapter.start([])
    await sharing.adopt(STORM)
    sharing.take(0)
    await sharing.release(0)
    await adapter.publish([storm()])
    async with asyncio.timeout(SECONDS):
        delivery = await anext(adapter.deliveries())
    assert sharing.arrived(delivery) == 1.5
    assert adapter.asked == ["share", "adopt", "take 0", "release 0"]


async def test_a_filter_in_the_dialect_of_an_older_adapter() -> None:
    outer = XPathFilterAdapter(Older())
    assert outer.state is not None and outer.state.reconnects == 7
    await outer.start({"all": EVERYTHING})
    severe = Filter(others=(Expression("9", DIALECT),))
    await outer.add("severe", severe)
    await outer.publish([storm(9)])
    deliveries = outer.deliveries()
    async with asyncio.timeout(SECONDS):
        keys = [(await anext(deliveries)).keys for _ in range(2)]
    assert [*map(list, keys)] == [["all"], ["severe"]]
    await outer.close()


async def test_an_older_adapter_is_shared_after_it_was_started_anew() -> None:
    made: list[Older] = []

    def make() -> Adapter:
        made.append(Older())
        return made[-1]

    adapter = RestartingAdapter(make)
    sharing = adapter.capabilities.sharing
    assert sharing is adapter
    sharing.share()
    sharing.take(0)
    await adapter.start([])
    assert made[0].asked == ["share"]
    assert adapter.state is made[0].state
    await adapter.close()


def test_an_attribute_of_that_name_is_no_state() -> None:
    class Busy(MemoryAdapter):
        state = "busy"

    assert XPathFilterAdapter(Busy()).state is None
    assert capabilities_of(MemoryAdapter()).reporting is None


@pytest.mark.parametrize(("former", "now"), FORMER_MODULES.items())
def test_former_modules_are_found(former: str, now: str) -> None:
    assert importlib.import_module(former) is importlib.import_module(now)


def test_former_names_in_them_are_found() -> None:
    from adapters.broker import connection_state, reconnecting, topology_changes

    assert reconnecting.Keeper is reconnecting.Reconnector
    assert reconnecting.Again is reconnecting.Reconnect
    assert connection_state.Link is connection_state.ConnectionState
    assert topology_changes.Changing is topology_changes.TopologyChanges
