"""Quotas of tenants: each refusal names the quota and its limit, and what it was refused by."""

from collections.abc import Callable
from contextlib import suppress

import pytest

from filters import Reason
from gateway.security.tenant_quotas import (
    BYTES_AT_ONCE,
    MESSAGES_AT_ONCE,
    Quotas,
    TenantQuotaExceeded,
    TenantQuotas,
    Tenants,
    counting_refusals,
)

ALL = Quotas(subscriptions=2, mailboxes=0, messages=5.0, bytes=100.0, disk=1000)
LARGE = int(BYTES_AT_ONCE)


def mailbox_refused(tenant: TenantQuotas) -> None:
    """As it is where a transaction checks, once or again."""
    with suppress(TenantQuotaExceeded):
        tenant.check_mailboxes(0)
    with counting_refusals(tenant):
        tenant.check_mailboxes(0)


@pytest.mark.parametrize(
    ("quota", "allowed", "too_much", "limit", "reason"),
    [
        ("subscriptions", lambda t: t.check_subscriptions(1), lambda t: t.check_subscriptions(2),
         "2 subscriptions", Reason.QUOTA),
        ("mailboxes", None, mailbox_refused, "0 mailboxes", Reason.QUOTA),
        ("messages", lambda t: t.admit_messages(int(MESSAGES_AT_ONCE)),
         lambda t: t.admit_messages(1), "5 messages a second", Reason.RATE),
        ("bytes", lambda t: t.admit_bytes(LARGE), lambda t: t.admit_bytes(LARGE),
         "100 bytes a second", Reason.RATE),
        ("disk", lambda t: t.check_disk(1000), lambda t: t.check_disk(1001), "1,000 bytes",
         Reason.QUOTA),
    ],
)  # fmt: skip
def test_a_refusal(
    quota: str,
    allowed: Callable[[TenantQuotas], None] | None,
    too_much: Callable[[TenantQuotas], None],
    limit: str,
    reason: Reason,
) -> None:
    tenant, free = TenantQuotas("acme", ALL), TenantQuotas("free", Quotas())
    if allowed is not None:
        allowed(tenant)
    assert sum(tenant.refused.values()) == 0
    with pytest.raises(TenantQuotaExceeded) as refused:
        too_much(tenant)
    assert refused.value.reason is reason
    assert (refused.value.retry_after is None) == (reason is Reason.QUOTA)
    for part in ("acme", limit, repr(quota)):
        assert part in refused.value.text
    assert tenant.refused == dict.fromkeys(tenant.refused, 0) | {quota: 1}
    for _ in range(2):
        too_much(free)


def test_what_was_used_stays_where_the_quotas_do() -> None:
    tenants = Tenants()
    assert tenants.get("acme") is None
    tenants.use({"acme": ALL, "umbrella": ALL})
    acme, umbrella = tenants.get("acme"), tenants.get("umbrella")
    tenants.use({"acme": ALL, "umbrella": Quotas()})
    assert tenants.get("acme") is acme
    assert tenants.get("umbrella") is not umbrella
    tenants.use({})
    assert list(tenants) == []
