"""Bytes that owners keep: all kinds together, the same after a restart and for every gateway."""

import shutil
import time
from functools import partial

import pytest
from sqlalchemy import insert, text

from filters import Reason
from gateway.model.dead_letter_reasons import Death, DeathReason
from gateway.model.mailboxes import Mailbox, MailboxBounds, MailboxKind
from gateway.security.keys import new_key, public_id
from gateway.security.tenant_quotas import Quotas, Tenants
from gateway.store import (
    HeldRow,
    Store,
    dead_lettering,
    mailbox_messages,
    mailboxes,
    waiting_deliveries,
)
from gateway.store.owner_bytes import BytesExceeded, OwnerBytes, kept
from gateway.store.schema import sequences, subscriptions
from tests.rigs.dispatching import notification
from tests.rigs.stores import on_each_store

A, B, TRUSTED = "anonymous:192.0.2.1", "anonymous:192.0.2.2", "anonymous:127.0.0.1"


def bounded(store: Store, most: int = 10_000, in_all: int | None = None) -> OwnerBytes:
    return OwnerBytes(store, trusts=TRUSTED.__eq__, most=most, in_all=in_all)


async def with_mailbox(store: Store, owner: str, octets: int) -> str:
    key = new_key()
    box = Mailbox(key, public_id(key), owner, MailboxKind.MAILBOX)
    make = partial(mailboxes.make, mailbox=box, now=0.0, of_owner=None, in_all=99)
    await store.submit(make)
    put = partial(
        mailbox_messages.put, key=key, envelopes=[("urn:1", b"x" * octets)],
        bounds=MailboxBounds(), now=time.time(),
    )  # fmt: skip
    await store.submit(put)
    return key


async def with_subscription(store: Store, owner: str, name: str) -> None:
    values = dict.fromkeys((column.name for column in subscriptions.columns), "")
    known = {
        "key": name, "id": name, "owner": owner, "created": 0.0, "expires": None,
        "as_duration": False, "acknowledged": None, "identity": None,
    }  # fmt: skip
    await store.submit(lambda c: c.execute(insert(subscriptions).values(**values | known)))


@on_each_store
async def test_all_kinds_count_together(store: Store) -> None:
    await with_mailbox(store, A, 1000)
    await with_subscription(store, A, "a")
    message = notification("1", 500)
    work = [(message, HeldRow("a", 1, message.octets, 0.0))]
    await store.submit(lambda c: waiting_deliveries.hold(c, work))
    await store.submit(
        lambda c: c.execute(insert(sequences).values(identifier="s", id="s", owner=A, octets=300))
    )
    before = await store.submit(kept)
    assert before == {A: 1000 + message.octets + 300}
    death = Death("a", A, "urn:x", None, DeathReason.REJECTED, 400, None, "no", 1, 0.0, 1.0)
    assert await store.submit(lambda c: dead_lettering.bury_held(c, 1, death))
    after = await store.submit(kept)
    assert after[A] >= before[A], "a dead letter is still its owner's"
    for _ in range(2):  # Another gateway, or another start, counts the same.
        owners = bounded(store, most=after[A] + 10)
        await owners.count()
        owners.take(A, 10)
        with pytest.raises(BytesExceeded) as raised:
            owners.take(A, 1)
        assert raised.value.reason is Reason.QUOTA
        owners.take(B, 1000)
        owners.take(TRUSTED, 10**12)


@on_each_store
async def test_what_a_stream_has_sent_and_is_kept_counts(store: Store) -> None:
    key = await with_mailbox(store, A, 1000)
    now = time.time()
    await store.submit(
        lambda c: c.execute(
            text("UPDATE mailbox_messages SET handed = :now WHERE mailbox = :key"),
            {"now": now, "key": key},
        )
    )
    assert await store.submit(kept) == {A: 1000}


async def test_all_owners_in_a_tenant_together(store: Store) -> None:
    """Beyond its quota none of them gets more, and each gives way by as large a part as it has."""
    small, large, other = (f"tenant:{name}" for name in ("acme:user:a", "acme:user:b", "x:user:a"))
    for owner, octets in ((small, 1000), (large, 3000), (other, 3000), (A, 3000)):
        await with_mailbox(store, owner, octets)
    tenants = Tenants()
    owners = OwnerBytes(store, trusts=TRUSTED.__eq__, tenants=tenants)
    tenants.use({"acme": Quotas(disk=4010), "x": Quotas()})
    await owners.count()
    assert (owners.of_tenant("acme"), owners.of_tenant("x")) == (4000, 3000)
    owners.take(small, 10)
    for owner in (small, large):
        with pytest.raises(BytesExceeded) as raised:
            owners.take(owner, 1)
        assert "by its quota 'disk'" in raised.value.text
    for owner in (other, A):
        owners.take(owner, 1000)
    assert owners.exceeding() == []
    tenants.use({"acme": Quotas(disk=2010)})
    assert dict(owners.exceeding()) == {small: 504, large: 1497}
    owners.freed(large, 2000)
    assert owners.exceeding() == []
    owners.freed(small, 1)
    owners.take(large, 1)


async def test_all_strangers_together(store: Store) -> None:
    """Beyond the bound of all, who has more than a share gets no more; who has less does."""
    await with_mailbox(store, A, 4000)
    await with_mailbox(store, B, 100)
    owners = bounded(store, in_all=4100)
    await owners.count()
    with pytest.raises(BytesExceeded):
        owners.take(A, 10)
    owners.take(B, 10)
    assert [owner for owner, _ in owners.exceeding()] == [A]
    owners.freed(A, 3000)
    assert not owners.exceeding()
    owners.take(A, 10)


async def test_strangers_leave_half_of_the_disk(store: Store) -> None:
    await with_mailbox(store, A, 1000)
    owners = bounded(store, most=2**60)
    await owners.count()
    assert store.folder is not None
    free = shutil.disk_usage(store.folder).free
    with pytest.raises(BytesExceeded):
        owners.take(B, int(free * 0.55) + 2**26)
    owners.take(B, free // 4)
