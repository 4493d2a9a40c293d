"""Bytes that owners keep in the store: in mailboxes, held deliveries, sequences and dead letters.

They are counted in the store, again and again, so that they are right after a restart and for all
gateways that share it; what is taken in between is added here. No trusted owner is bound. A
stranger has a number of bytes, and all strangers together have half of the disk: so they never
fill it up to the reserve that is for everybody (`gateway.store.disk_reserve`).
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from sqlalchemy import Connection, text

from filters import Reason, Refused
from gateway.observing.samples import Sample, gauge, gauges
from gateway.security.principals import tenant_of
from gateway.security.tenant_quotas import TenantQuotaExceeded, Tenants
from gateway.store.disk_reserve import size_and_free
from gateway.store.engine import Store

MOST = 2**30
"""Bytes of one stranger."""
ROOM = 64 * 2**10
"""Bytes for which there must be room to begin anything that keeps messages."""
ON_A_SERVER = 16 * 2**30
"""Bytes of all strangers on a server, whose disk is not known."""
SELDOM = 20.0
"""As many times as a count takes there is until the next one."""
# Each reads rows without their messages, or an index alone.
_KEPT = text(
    "SELECT owner, sum(octets) FROM ("
    "SELECT mailboxes.owner AS owner, waiting.octets AS octets FROM mailboxes JOIN ("
    "SELECT mailbox, sum(octets) AS octets FROM mailbox_messages GROUP BY mailbox"
    ") AS waiting ON waiting.mailbox = mailboxes.key "
    "UNION ALL "
    "SELECT subscriptions.owner, waiting.octets FROM subscriptions JOIN ("
    "SELECT subscription, sum(octets) AS octets FROM held GROUP BY subscription"
    ") AS waiting ON waiting.subscription = subscriptions.id "
    "UNION ALL SELECT owner, octets FROM sequences WHERE octets > 0 "
    "UNION ALL SELECT owner, octets FROM dead_letter_totals WHERE owner <> ''"
    ") AS kept GROUP BY owner"
)


_TOO_MUCH = (
    "Too many bytes are kept for you in mailboxes, undelivered messages, sequences and dead "
    "letters: fetch or end some of that first."
)


class BytesExceeded(Refused):
    """An owner keeps more than he may."""

    def __init__(self, text: str = _TOO_MUCH) -> None:
        super().__init__(Reason.QUOTA, text)


def kept(connection: Connection) -> Counter[str]:
    """The bytes that each owner keeps."""
    found = connection.execute(_KEPT)
    return Counter({owner: int(octets) for owner, octets in found if octets > 0})


class OwnerBytes:
    """Bounds what strangers keep.

    Args:
        trusts: Returns whether an owner is trusted.
        most: Bytes of one stranger.
        in_all: Bytes of all strangers; None for half of the disk that they could have.
        tenants: Those whose owners keep no more together than their quotas say.
    """

    def __init__(
        self,
        store: Store,
        *,
        trusts: Callable[[str], bool],
        most: int = MOST,
        in_all: int | None = None,
        tenants: Tenants | None = None,
    ) -> None:
        self._tenants = tenants or Tenants()
        self._store = store
        self._trusts = trusts
        self._most = most
        self._in_all = in_all
        self._kept: Counter[str] = Counter()
        """Bytes of each stranger."""
        self._of_tenants: Counter[str] = Counter()
        """Bytes of all owners of each tenant but the default one."""
        self._sum = 0
        self._may = in_all or 0
        """Bytes of all strangers, as of the last count."""
        self._counted = False
        self._due = 0.0

    async def count_again(self) -> bool:
        """Count, unless that was done just now, for what it takes. Returns whether it was due.

        Raises:
            StoreUnavailable: The store cannot be read.
        """
        began = time.monotonic()
        if began < self._due:
            return False
        await self.count()
        self._due = began + SELDOM * (time.monotonic() - began)
        return True

    async def count(self) -> None:
        """Count what the store has.

        Raises:
            StoreUnavailable: It cannot be read.
        """
        found = await self._store.submit(kept)
        self._kept = Counter({o: octets for o, octets in found.items() if not self._trusts(o)})
        self._sum = self._kept.total()
        self._of_tenants.clear()
        for owner, octets in self._kept.items():
            if tenant := tenant_of(owner):
                self._of_tenants[tenant] += octets
        self._may = self._allowed()
        self._counted = True

    def _allowed(self) -> int:
        if self._in_all is not None:
            return self._in_all
        folder = self._store.folder
        if folder is None:
            return ON_A_SERVER
        return (_free(folder) + self._store.free_inside + self._sum) // 2

    def over(self, owner: str) -> int:
        """The bytes that *owner* keeps beyond the limit; 0 if there are none. Of what its tenant
        keeps beyond its own, that is as large a part as it keeps."""
        if not self._counted or owner not in self._kept or self._trusts(owner):
            return 0
        own = self._kept[owner]
        return max(0, own - self._share(), self._over_in_tenant(tenant_of(owner), own))

    def _over_in_tenant(self, tenant: str, own: int) -> int:
        quotas = self._tenants.get(tenant) if tenant else None
        if quotas is None or quotas.quotas.disk is None or not own:
            return 0
        there = self._of_tenants[tenant]
        return -(-own * (there - quotas.quotas.disk) // there)

    def _share(self, more: int = 0) -> int:
        """The bytes that one stranger may keep. Where all of them, with *more*, would keep too
        much, those give way who keep most."""
        if self._sum + more <= self._may:
            return self._most
        return min(self._most, self._may // max(1, len(self._kept)))

    def exceeding(self) -> list[tuple[str, int]]:
        """Owners that have more than they may, and how much more."""
        return [(owner, over) for owner in list(self._kept) if (over := self.over(owner))]

    def check(self, owner: str) -> None:
        """Refuse what would have more kept for *owner*, where there is no room for it.

        Raises:
            BytesExceeded: There is none.
        """
        self.take(owner, ROOM)
        self.freed(owner, ROOM)

    def take(self, owner: str, octets: int) -> None:
        """Count so many bytes more for *owner*.

        Raises:
            BytesExceeded, TenantQuotaExceeded: They are too many; nothing is counted.
        """
        if not self._counted or self._trusts(owner):
            return
        if self._kept[owner] + octets > self._share(octets):
            raise BytesExceeded
        if tenant := tenant_of(owner):
            self._check_disk(tenant, octets)
            self._of_tenants[tenant] += octets
        self._kept[owner] += octets
        self._sum += octets

    def _check_disk(self, tenant: str, octets: int) -> None:
        quotas = self._tenants.get(tenant)
        if quotas is not None:
            try:
                quotas.check_disk(self._of_tenants[tenant] + octets)
            except TenantQuotaExceeded as exceeded:
                raise BytesExceeded(exceeded.text) from None

    def freed(self, owner: str, octets: int) -> None:
        """Count so many bytes less for *owner*."""
        if owner in self._kept:
            octets = min(octets, self._kept[owner])
            self._kept[owner] -= octets
            self._sum -= octets
            if tenant := tenant_of(owner):
                self._of_tenants[tenant] -= octets

    def of_tenant(self, tenant: str) -> int:
        """The bytes that are kept for the owners in *tenant*, which is not the default one."""
        return self._of_tenants[tenant]

    def metrics(self) -> Iterator[Sample]:
        """Yield the bytes that are kept for strangers, and their limit."""
        yield gauge("strangers_bytes", "Bytes that are kept for strangers.", self._sum)
        tenants: dict[tuple[str, ...], float] = {
            (one.name,): self._of_tenants[one.name] for one in self._tenants
        }
        if tenants:
            yield gauges("tenant_bytes", "Bytes that are kept for a tenant.", ("tenant",), tenants)
        yield gauge("strangers_bytes_limit", "Bytes that may be kept for strangers.", self._may)


def _free(folder: Path) -> int:
    try:
        return size_and_free(folder)[1]
    except OSError:
        return 0
