"""Quotas of tenants: how much all users of one may ask for together, and keep.

A rate is of each gateway; what is counted are the rows of the store, for all gateways together, but
for subscriptions, which every gateway knows.
"""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields

from filters import Reason, Refused
from gateway.token_bucket import TokenBucket

MESSAGES_AT_ONCE, BYTES_AT_ONCE = 1000.0, 64 * 2.0**20
"""What is admitted at once at least, whatever the rate: a batch of events, and a large one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quotas:
    """What a tenant may have; None is any number.

    Attributes:
        messages: Events that are published, a second.
        bytes: Bytes of them, a second.
        disk: Bytes that are kept: in mailboxes, undelivered, in sequences, in dead letters.
        backlog: Deliveries that wait for the subscriptions of its users.
    """

    subscriptions: int | None = None
    mailboxes: int | None = None
    messages: float | None = None
    bytes: float | None = None
    disk: int | None = None
    backlog: int | None = None


class TenantQuotaExceeded(Refused):
    """A tenant asks for more than its quotas."""

    def __init__(
        self, quota: str, reason: Reason, text: str, retry_after: float | None = None
    ) -> None:
        super().__init__(reason, text)
        self.quota = quota
        self.retry_after = retry_after


class TenantQuotas:
    """The quotas of the tenant *name*, with what its users used of its rates; it goes on to count
    where the *former* ones of that tenant ended."""

    def __init__(self, name: str, quotas: Quotas, former: "TenantQuotas | None" = None) -> None:
        self.name = name
        self.quotas = quotas
        self._messages = _bucket(quotas.messages, MESSAGES_AT_ONCE)
        self._bytes = _bucket(quotas.bytes, BYTES_AT_ONCE)
        nothing = dict.fromkeys((each.name for each in fields(Quotas)), 0)
        self.refused: dict[str, int] = former.refused if former is not None else nothing
        """How often it asked for too much, by the quota; of ``backlog`` the deliveries that became
        dead letters by it."""
        none = {"messages": 0, "bytes": 0}
        self.admitted: dict[str, int] = former.admitted if former is not None else none
        """Events that its users published, and bytes of them, as far as its rates let them."""

    def admit_messages(self, number: int) -> None:
        """Count so many events more.

        Raises:
            TenantQuotaExceeded: They are too many now.
        """
        self._take("messages", "publish", "messages a second", self._messages, number)

    def admit_bytes(self, octets: int) -> None:
        """Count so many bytes of events more.

        Raises:
            TenantQuotaExceeded: They are too many now.
        """
        self._take("bytes", "publish", "bytes a second", self._bytes, octets)

    def check_subscriptions(self, there: int) -> None:
        """Check that there may be one more than those that are *there*.

        Raises:
            TenantQuotaExceeded: There may not.
        """
        with counting_refusals(self):
            self._check("subscriptions", "have", "subscriptions", there + 1)

    def check_mailboxes(self, there: int) -> None:
        """As `check_subscriptions`, but that a refusal is not counted (`counting_refusals` does
        that): it is called within a transaction, which may be tried again."""
        self._check("mailboxes", "have", "mailboxes", there + 1)

    def check_disk(self, octets: int) -> None:
        """Check that so many bytes may be kept.

        Raises:
            TenantQuotaExceeded: They may not.
        """
        with counting_refusals(self):
            self._check("disk", "keep", "bytes", octets)

    def _check(self, quota: str, may: str, what: str, wanted: int) -> None:
        limit = getattr(self.quotas, quota)
        if limit is not None and wanted > limit:
            raise self._refusal(Reason.QUOTA, quota, may, what)

    def _take(
        self, quota: str, may: str, what: str, bucket: TokenBucket | None, number: int
    ) -> None:
        if bucket is not None:
            wait = bucket.take(self.name, time.monotonic(), number=number)
            if wait:
                with counting_refusals(self):
                    raise self._refusal(Reason.RATE, quota, may, what, wait)
        self.admitted[quota] += number

    def _refusal(
        self, reason: Reason, quota: str, may: str, what: str, wait: float | None = None
    ) -> TenantQuotaExceeded:
        limit = getattr(self.quotas, quota)
        text = f"The tenant {self.name} may {may} {limit:,.0f} {what}, by its quota {quota!r}."
        return TenantQuotaExceeded(quota, reason, text, wait)


@contextmanager
def counting_refusals(quotas: TenantQuotas | None) -> Iterator[None]:
    """Count a refusal that leaves the block, where there are *quotas*."""
    try:
        yield
    except TenantQuotaExceeded as exceeded:
        if quotas is not None:
            quotas.refused[exceeded.quota] += 1
        raise


def _bucket(rate: float | None, at_once: float) -> TokenBucket | None:
    return None if rate is None else TokenBucket(rate, max(rate, at_once))


class Tenants:
    """All tenants but the default one, as the file of identities declares them now."""

    def __init__(self) -> None:
        self._of: dict[str, TenantQuotas] = {}

    def __iter__(self) -> Iterator[TenantQuotas]:
        return iter(self._of.values())

    def get(self, name: str) -> TenantQuotas | None:
        """The quotas of the tenant *name*; None of the default tenant, and of one that is no
        more."""
        return self._of.get(name)

    def refused(self) -> Mapping[str, int]:
        """How often each asked for more than its quotas."""
        return {one.name: sum(one.refused.values()) for one in self}

    def admitted(self, what: str) -> Mapping[str, int]:
        """How much of each was admitted of *what*: ``messages`` or ``bytes``."""
        return {one.name: one.admitted[what] for one in self}

    def use(self, quotas: Mapping[str, Quotas]) -> None:
        """Go by *quotas* from now on. Of a tenant whose quotas stay, what it used of its rates
        stays, too."""
        former = self._of
        self._of = {
            name: there
            if (there := former.get(name)) is not None and there.quotas == each
            else TenantQuotas(name, each, there)
            for name, each in quotas.items()
        }
