"""Deliveries of tenants that wait, and how many of them are beyond the quota ``backlog``.

A delivery waits from when an event has matched its subscription until its end: as a row of the
store, or in memory alone, where it is no longer than a moment. Rows for subscriptions that this
gateway delivers for are counted as they come and go, without a look at the store; those of
partitions that other gateways hold are what the store had at the last count. Only rows give way:

    excess       what waits for the tenant, less its quota
    of an owner  what it has beyond an equal part of the quota, the excess at most
    of an outbox what it has beyond an equal part of what is left to its owner

So who floods gives way, and neither another user of the tenant nor another subscription of his.
"""

import time
from collections import Counter
from collections.abc import Iterator

from sqlalchemy import Connection, text

from gateway.observing.samples import Sample, gauges
from gateway.security.principals import tenant_of
from gateway.security.tenant_quotas import Tenants
from gateway.store.engine import Store
from mediation.tenants import OWNER as TENANT

SELDOM = 20.0
"""As many times as a count takes there is until the next one."""
_ROWS = text(
    "SELECT subscriptions.owner, sum(waiting.number) FROM subscriptions JOIN ("
    "SELECT subscription, count(*) AS number FROM held GROUP BY subscription"
    ") AS waiting ON waiting.subscription = subscriptions.id "
    "WHERE subscriptions.owner LIKE :owners GROUP BY subscriptions.owner"
)


def rows_by_owner(connection: Connection) -> Counter[str]:
    """The rows that wait for each owner in a tenant."""
    found = connection.execute(_ROWS, {"owners": f"{TENANT}%"})
    return Counter({owner: int(number) for owner, number in found})


class _Waiting:
    """What waits for one tenant.

    Attributes:
        live: Deliveries in memory alone.
        here: Rows of each owner for which this gateway delivers.
        own: The same with those that other gateways deliver, without any that has none.
        outboxes: Outboxes here with rows, of each owner.
        leaving: Rows of each owner that are on their way to the dead letters.
    """

    __slots__ = ("here", "leaving", "live", "outboxes", "own", "rows")

    def __init__(self) -> None:
        self.live = 0
        self.rows = 0
        """The sum of *own*."""
        self.here: Counter[str] = Counter()
        self.own: Counter[str] = Counter()
        self.outboxes: Counter[str] = Counter()
        self.leaving: Counter[str] = Counter()

    def add(self, owner: str, number: int) -> None:
        """Count so many rows more of *owner*."""
        self.rows += number
        _add(self.own, owner, number)


class TenantBacklogs:
    """Counts what waits for each tenant but the default one."""

    def __init__(self, store: Store, tenants: Tenants) -> None:
        self._store = store
        self._tenants = tenants
        self._of: dict[str, _Waiting] = {}
        self._due = 0.0

    # What comes and goes.

    def count_live(self, tenant: str, number: int) -> None:
        """Count so many deliveries more in memory alone."""
        if tenant:
            self._waiting(tenant).live += number

    def count_rows(self, owner: str, before: int, now: int) -> None:
        """Note that an outbox of *owner* has *now* so many rows, and had others *before*."""
        tenant, before, now = tenant_of(owner), max(0, before), max(0, now)
        if tenant and before != now:
            waiting = self._waiting(tenant)
            _add(waiting.here, owner, now - before)
            _add(waiting.outboxes, owner, bool(now) - bool(before))
            waiting.add(owner, now - before)

    def _waiting(self, tenant: str) -> _Waiting:
        waiting = self._of.get(tenant)
        if waiting is None:
            waiting = self._of[tenant] = _Waiting()
        return waiting

    async def count_elsewhere(self) -> None:
        """Count the rows of which other gateways have the partitions, unless that was done just
        now, for what it takes.

        Raises:
            StoreUnavailable: The store cannot be read.
        """
        began = time.monotonic()
        if began < self._due or not any(True for _ in self._tenants):
            return
        before = {owner: n for one in self._of.values() for owner, n in one.here.items()}
        found = await self._store.submit(rows_by_owner)
        known = {owner for one in self._of.values() for owner in one.own}
        for owner in known | found.keys():
            waiting = self._waiting(tenant_of(owner))
            # What came or went meanwhile is among one of the two.
            here = max(waiting.here[owner], before.get(owner, 0))
            elsewhere = max(0, found[owner] - here)
            waiting.add(owner, waiting.here[owner] + elsewhere - waiting.own[owner])
        self._due = began + SELDOM * (time.monotonic() - began)

    # Its bounds.

    def of_tenant(self, tenant: str) -> int:
        """The deliveries that wait for *tenant*, which is not the default one."""
        waiting = self._of.get(tenant)
        return 0 if waiting is None else waiting.live + waiting.rows

    def over(self, owner: str, rows: int) -> int:
        """The rows that an outbox of *owner*, which has so many *rows*, has to give; 0 if the
        tenant is within its quota, or others have to."""
        tenant = tenant_of(owner)
        waiting = self._of.get(tenant) if tenant else None
        quotas = self._tenants.get(tenant) if tenant else None
        if waiting is None or quotas is None or quotas.quotas.backlog is None or not rows:
            return 0
        limit = quotas.quotas.backlog
        excess = waiting.live + waiting.rows - waiting.leaving.total() - limit
        if excess <= 0:
            return 0
        part = max(0, limit - waiting.live) // max(1, len(waiting.own))
        own, here = waiting.own[owner], waiting.here[owner]
        beyond = min(excess, own - waiting.leaving[owner] - part)
        if beyond <= 0:
            return 0
        # Of what others deliver, they let as large a part go.
        beyond = -(-beyond * here // own)
        left = (here - waiting.leaving[owner] - beyond) // max(1, waiting.outboxes[owner])
        return max(0, min(beyond, rows - left))

    def exceeding(self) -> set[str]:
        """Owners with rows here, in tenants that have more than their quotas."""
        return {
            owner
            for one in self._tenants
            if one.quotas.backlog is not None and self.of_tenant(one.name) > one.quotas.backlog
            for owner in self._waiting(one.name).here
        }

    def take(self, owner: str, number: int) -> None:
        """Note that so many rows of *owner* go to the dead letters now: until `gone` is called
        nobody is asked for these again."""
        self._waiting(tenant_of(owner)).leaving[owner] += number

    def gone(self, owner: str, taken: int, moved: int) -> None:
        """Note that of as many as were *taken* so many were *moved*, and are no rows any more."""
        if taken:
            tenant = tenant_of(owner)
            _add(self._waiting(tenant).leaving, owner, -taken)
            if moved and (quotas := self._tenants.get(tenant)) is not None:
                quotas.refused["backlog"] += min(taken, moved)

    def metrics(self) -> Iterator[Sample]:
        """Yield the deliveries that wait for each tenant."""
        tenants: dict[tuple[str, ...], float] = {
            (one.name,): self.of_tenant(one.name) for one in self._tenants
        }
        if tenants:
            text_ = "Deliveries that wait for a tenant's subscriptions."
            yield gauges("tenant_backlog", text_, ("tenant",), tenants)


def _add(counts: Counter[str], name: str, number: int) -> None:
    """Count *number* more of *name*; a name with none is not kept."""
    left = counts[name] + number
    if left > 0:
        counts[name] = left
    else:
        counts.pop(name, None)
