"""Failing consumers of all gateways that use one store."""

from gateway.store import Store
from gateway.web.failing_consumers import FailingConsumers, FailingHost, merge
from gateway.web.shared_failures import SharedFailures
from tests.rigs.stores import on_each_store

SICK = FailingHost("http://a:1", "http://a:1/*", 2, 5, "one", 3, "refused", 100.0, 160.0)


def gateway(
    store: Store, name: str, *hosts: FailingHost, hidden: int = 0, shared: bool = True
) -> SharedFailures:
    """One at which subscriptions to *hosts* fail, and to so many that are not named."""
    subscriptions = sum(one.subscriptions for one in hosts) + hidden

    async def look() -> FailingConsumers:
        return FailingConsumers(subscriptions, len(hosts) + hidden, hosts)

    return SharedFailures(store, look, name, shared=shared)


@on_each_store
async def test_what_each_wrote_is_told_by_all(store: Store) -> None:
    later = FailingHost("http://a:1", "http://a:1/*", 1, 1, "two", 9, "timed out", 200.0, None)
    other = FailingHost("http://b:1", "http://b:1/*", 7, 0, "three", 1, None, None, None)
    here = gateway(store, "here", SICK)
    there = gateway(store, "there", later, other, hidden=3)
    assert await here.of_others() == []
    for one in (here, there, there):
        await one.write()
    together = merge([await here.own(), *await here.of_others()])
    assert (together.subscriptions, together.hosts) == (11, 5)
    worst, both = together.first
    assert worst == other
    assert (both.subscriptions, both.waiting) == (2, 6)
    assert (both.subscription, both.last_error) == ("two", "timed out")
    assert merge([together], most=1).first == [other]
    assert await gateway(store, "alone", shared=False).of_others() == []
