"""The table of subscriptions in memory."""

from dataclasses import replace

from gateway.delivery import Entry
from gateway.egress import Target, parse_target
from gateway.mailboxes.transport import mailbox_target
from gateway.model.mailboxes import Mailbox, MailboxKind
from gateway.security.keys import new_key, public_id
from gateway.security.principals import owner_in
from gateway.subscriptions.table import SubscriptionTable
from mediation.rendering import prepare
from tests.rigs.mediation import subscription

ONE, OTHER = parse_target("http://one.example/"), parse_target("http://other.example/")


def entered(table: SubscriptionTable, owner: str, target: Target, key: str = "") -> Entry:
    key = key or new_key()
    made = replace(subscription(), key=key, id=public_id(key), owner=owner)
    entry = Entry(made, prepare(made), target)
    table.add(entry)
    return entry


def test_entries_are_found_until_they_are_dropped() -> None:
    table = SubscriptionTable()
    entry = entered(table, "anonymous:a", ONE)
    key = entry.subscription.key
    assert (table.get(key), table.by_id(entry.id)) == (entry, entry)
    assert (table.matching([key, "unknown"]), table.owner(key)) == ([entry], "anonymous:a")
    table.drop(entry)
    assert (table.get(key), table.by_id(entry.id)) == (None, None)
    assert (table.matching([key]), table.owner(key), len(table)) == ([], None, 0)


def test_owners_are_counted_with_their_destinations() -> None:
    table = SubscriptionTable()
    first, _, _ = (entered(table, "a", target) for target in (ONE, ONE, OTHER))
    entered(table, "b", ONE)
    assert (table.of_owner("a"), table.of_owner_to("a", ONE)) == (3, 2)
    assert (table.of_owner("b"), table.of_owner_to("b", OTHER)) == (1, 0)
    table.drop(first)
    assert (table.of_owner("a"), table.of_owner_to("a", ONE)) == (2, 1)


def test_those_of_tenants() -> None:
    """And nothing is left of a tenant whose last one went."""
    table = SubscriptionTable()
    first, second = (entered(table, owner_in("acme", f"user:{one}"), ONE) for one in "ab")
    other = entered(table, owner_in("umbrella", "user:a"), ONE)
    entered(table, "user:a", ONE)
    assert [table.of_tenant(name) for name in ("acme", "umbrella", "", "none")] == [2, 1, 1, 0]
    assert list(table.entries_of("acme")) == [first, second]
    table.drop(first)
    table.drop(other)
    assert [list(table.entries_of(name)) for name in ("acme", "umbrella")] == [[second], []]
    [tenants] = [one for one in table.metrics() if one.name.endswith("tenant_subscriptions")]
    assert tenants.values == {("acme",): 1}


def test_subscriptions_that_fill_a_mailbox() -> None:
    """The one that it was made for, and others whose consumer it is."""
    table, key = SubscriptionTable(), new_key()
    mailbox = Mailbox(key, public_id(key), "a", MailboxKind.SUBSCRIPTION)
    own = entered(table, "a", mailbox_target(mailbox, "http://here/"), key)
    other = entered(table, "b", mailbox_target(mailbox, "http://here/"))
    entered(table, "b", ONE)
    assert (table.made_with(mailbox), table.feeds(mailbox)) == (own, [own, other])
    table.drop(own)
    assert (table.made_with(mailbox), table.feeds(mailbox)) == (None, [other])
    pull_point = replace(mailbox, kind=MailboxKind.PULL_POINT)
    assert table.made_with(pull_point) is None


async def test_ids_are_listed_in_order() -> None:
    table = SubscriptionTable()
    ids = sorted(entered(table, "a", ONE).id for _ in range(5))
    assert await table.listed("", 3) == ids[:3]
    assert await table.listed(ids[2], 3) == ids[3:]
