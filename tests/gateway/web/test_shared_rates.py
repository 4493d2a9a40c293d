"""Rates of all gateways that use one store."""

from gateway.observing.rates import Counters, Rates
from gateway.store import Store
from gateway.web.shared_rates import SharedRates
from tests.rigs.stores import on_each_store


def gateway(store: Store, name: str, accepted: int, *, shared: bool = True) -> SharedRates:
    """One that accepted so many within ten seconds."""
    readings = iter([Counters(0, 0, 0, 0), Counters(accepted, 0, 0, 0)])
    clock = iter([1000.0, 1010.0])
    rates = Rates(lambda: next(readings), (), clock=lambda: next(clock))
    rates.look()
    return SharedRates(store, rates, name, shared=shared)


@on_each_store
async def test_what_each_wrote_adds_up(store: Store) -> None:
    here, there = gateway(store, "here", 10), gateway(store, "there", 30)
    assert [one.accepted for one in await here.last_hour()] == [1.0]
    await there.write()
    await here.write()
    await there.write()  # Again: it is not counted twice.
    assert [one.accepted for one in await here.last_hour()] == [4.0]
    alone = gateway(store, "alone", 20, shared=False)
    assert [one.accepted for one in await alone.last_hour()] == [2.0]
