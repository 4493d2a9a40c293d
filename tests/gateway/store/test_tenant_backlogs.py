"""What waits for tenants: counted as it comes and goes, and who gives way beyond the quota."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.security.tenant_quotas import Quotas, Tenants
from gateway.store import HeldRow, Store, waiting_deliveries
from gateway.store.tenant_backlogs import TenantBacklogs, rows_by_owner
from tests.gateway.store.test_owner_bytes import with_subscription
from tests.rigs.dispatching import notification
from tests.rigs.stores import on_each_store

ADA, BOB, EVE = "tenant:acme:user:ada", "tenant:acme:user:bob", "tenant:umbrella:user:eve"


def backlogs(store: Store, **limits: int | None) -> tuple[TenantBacklogs, Tenants]:
    tenants = Tenants()
    tenants.use({name: Quotas(backlog=limit) for name, limit in limits.items()})
    return TenantBacklogs(store, tenants), tenants


@given(
    rows=st.lists(st.tuples(st.sampled_from("abcd"), st.integers(0, 40)), min_size=1, max_size=12),
    live=st.integers(0, 30),
    limit=st.integers(0, 120),
)
def test_who_gives_way(rows: list[tuple[str, int]], live: int, limit: int) -> None:
    """Rows go until the tenant is within its quota or has none; no outbox gives more than the
    excess, and none that has no more than an equal part of an equal part."""
    found, tenants = backlogs(Store("memory:"), acme=limit)
    found.count_live("acme", live)
    outboxes = [(f"tenant:acme:user:{name}", number) for name, number in rows]
    for owner, number in outboxes:
        found.count_rows(owner, 0, number)
    left = dict(enumerate(number for _, number in outboxes))
    owners = Counter(owner for owner, number in outboxes if number)
    part = max(0, limit - live) // max(1, len(owners))
    shed = 0
    while gives := {
        n: over for n, (owner, _) in enumerate(outboxes) if (over := found.over(owner, left[n]))
    }:
        n, over = max(gives.items(), key=lambda one: one[1])
        owner = outboxes[n][0]
        assert over <= min(left[n], sum(left.values()) + live - limit)
        assert left[n] > part // owners[owner] - 1, "it had its part, and no more"
        found.take(owner, over)
        found.count_rows(owner, left[n], left[n] - over)
        found.gone(owner, over, over)
        left[n] -= over
        shed += over
    there = sum(number for _, number in outboxes)
    assert there - shed == max(0, min(there, limit - live))
    assert found.of_tenant("acme") == live + there - shed
    [acme] = tenants
    assert acme.refused["backlog"] == shed
    assert found.exceeding() == set() or live > limit


def test_what_is_leaving_is_asked_for_once() -> None:
    found, _ = backlogs(Store("memory:"), acme=10)
    found.count_rows(ADA, 0, 8)
    found.count_rows(ADA, 0, 8)
    assert found.over(ADA, 8) == 3
    found.take(ADA, 3)
    assert found.over(ADA, 8) == 3
    found.take(ADA, 3)
    assert found.over(ADA, 8) == 0
    for _ in range(2):
        found.count_rows(ADA, 8, 5)
        found.gone(ADA, 3, 3)
    assert found.over(ADA, 5) == 0


@pytest.mark.parametrize("owner", ["user:ada", "anonymous:192.0.2.1", EVE])
def test_who_has_no_such_quota(owner: str) -> None:
    found, _ = backlogs(Store("memory:"), acme=1, umbrella=None)
    found.count_rows(owner, 0, 1000)
    found.count_rows(ADA, 0, 1)
    assert found.over(owner, 1000) == found.over(ADA, 1) == 0
    assert found.exceeding() == set()
    assert found.of_tenant("umbrella") == (1000 if owner == EVE else 0)


@on_each_store
async def test_what_other_gateways_deliver_counts(store: Store) -> None:
    """Of rows that two gateways have, each lets as large a part go as it has itself."""
    await with_subscription(store, ADA, "a")
    await with_subscription(store, "user:ada", "b")
    events = [notification(str(n)) for n in range(30)]
    work = [(event, HeldRow(one, n, 1, 0.0)) for n, event in enumerate(events) for one in "ab"]
    await store.submit(lambda c: waiting_deliveries.hold(c, work))
    assert await store.submit(rows_by_owner) == {ADA: 30}
    found, _ = backlogs(store, acme=15)
    found.count_rows(ADA, 0, 10)
    assert found.of_tenant("acme") == 10
    for _ in range(2):
        await found.count_elsewhere()
        assert found.of_tenant("acme") == 30
        assert found.over(ADA, 10) == 5
    found.count_rows(ADA, 10, 0)
    assert (found.of_tenant("acme"), found.over(ADA, 0)) == (20, 0)
