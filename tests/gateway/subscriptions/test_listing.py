"""The search for subscriptions of a selection is bounded, and goes on where it ended."""

from dataclasses import replace

import pytest

from filters import Reason, Refused
from gateway.delivery import Dispatchers, Entry
from gateway.egress import parse_target
from gateway.security.keys import new_key, public_id
from gateway.security.resource_addresses import ResourceKind, shown
from gateway.subscriptions.listing import Order, SubscriptionSelector
from gateway.subscriptions.table import SubscriptionTable
from mediation import names
from mediation.model.requests import SubscriptionSelection
from mediation.rendering import prepare
from tests.gateway.subscriptions.test_table import entered
from tests.rigs.mediation import subscription

ONE = parse_target("http://one.example/")
ANONYMOUS = names.MAKE_CONNECTION_ANONYMOUS
KEY, LATER = sorted((new_key(), new_key()))
SECRET_ADDRESSES = {
    **{kind.name: kind.address("http://h", "{}") for kind in ResourceKind},
    "query": "http://h/pullpoints/{}?x=1",
    "relay": "http://h/relay/{}",
    "fetched": ANONYMOUS + "{}",
    "user": "http://user:{}@h/consumer",
}
SECRET_ADDRESSES.pop("CHANNEL")  # Its name is no secret.


def to(table: SubscriptionTable, address: str) -> Entry:
    """A subscription whose consumer is at *address*."""
    made, key = subscription(), new_key()
    consumer = replace(made.consumer, address=address)
    made = replace(made, key=key, id=public_id(key), consumer=consumer)
    entry = Entry(made, prepare(made), ONE)
    table.add(entry)
    return entry


@pytest.mark.parametrize("form", SECRET_ADDRESSES.values(), ids=SECRET_ADDRESSES)
async def test_no_part_of_a_key_is_found(form: str) -> None:
    """Lists show ids in the place of keys, and are searched and sorted by what they show. Who has
    the whole address finds it."""
    table = SubscriptionTable()
    entry = to(table, form.format(KEY))
    selector = SubscriptionSelector(table, object.__new__(Dispatchers))

    async def finds(pattern: str) -> bool:
        page = await selector.find(SubscriptionSelection(consumer=pattern), limit=9)
        return page.ids == (entry.id,)

    address, before = form.format(KEY), form.partition("{}")[0]
    assert await finds(address) and await finds(shown(address))
    for number in range(1, len(KEY)):
        found = KEY[:number]
        seen = "?" not in before and shown(address).startswith(before + found)
        assert await finds(before + found) is seen, "an id may begin as the key does"
        for pattern in (f"*{found}", f"*{found}*", f"{before}{found}*"):
            if found not in shown(address):
                assert not await finds(pattern), pattern


@pytest.mark.parametrize("form", SECRET_ADDRESSES.values(), ids=SECRET_ADDRESSES)
async def test_no_order_tells_a_key(form: str) -> None:
    table = SubscriptionTable()
    entries = [to(table, form.format(key)) for key in (KEY, LATER, new_key(), new_key())]
    selector = SubscriptionSelector(table, object.__new__(Dispatchers))
    ids, _ = await selector.sort(SubscriptionSelection(), Order.CONSUMER, limit=9)
    by_what_is_shown = sorted(
        entries, key=lambda one: (shown(one.subscription.consumer.address), one.id)
    )
    assert list(ids) == [one.id for one in by_what_is_shown]


@pytest.mark.parametrize("look_at", [1, 3, 10, 100])
@pytest.mark.parametrize("limit", [1, 2, 100])
async def test_every_match_is_found_once(look_at: int, limit: int) -> None:
    table = SubscriptionTable()
    entries = [entered(table, "ab"[number % 2], ONE) for number in range(20)]
    selector = SubscriptionSelector(table, object.__new__(Dispatchers))
    seen: list[str] = []
    after: str | None = ""
    while after is not None:
        found = await selector.find(
            SubscriptionSelection(owner="a"), after=after, limit=limit, look_at=look_at
        )
        assert len(found.ids) <= min(limit, look_at)
        seen += found.ids
        after = found.next
    mine = sorted(entry.id for entry in entries if entry.subscription.owner == "a")
    assert seen == mine


async def test_who_is_no_owner_sees_nothing() -> None:
    table = SubscriptionTable()
    entry = entered(table, "a", ONE)
    selector = SubscriptionSelector(table, object.__new__(Dispatchers))
    for owner, ids in (("a", (entry.id,)), ("b", ()), (None, (entry.id,))):
        found = await selector.find(SubscriptionSelection(), limit=9, visible_to=owner)
        assert (found.ids, found.next) == (ids, None)


@pytest.mark.parametrize("pattern", ["*" * 17, "?" * 17, "*a?" * 9, "a*".rjust(513, "a")])
async def test_a_pattern_that_costs_much_is_refused(pattern: str) -> None:
    table = SubscriptionTable()
    entered(table, "a", ONE)
    selector = SubscriptionSelector(table, object.__new__(Dispatchers))
    with pytest.raises(Refused) as refused:
        await selector.find(SubscriptionSelection(consumer=pattern), limit=9)
    assert refused.value.reason is Reason.MESSAGE_INVALID


@pytest.mark.parametrize(
    ("pattern", "found"), [("*" * 16, 1), ("h*", 1), ("*".rjust(512, "a"), 0), ("a" * 2048, 0)]
)
async def test_other_patterns_are_taken(pattern: str, found: int) -> None:
    table = SubscriptionTable()
    entered(table, "a", ONE)
    selector = SubscriptionSelector(table, object.__new__(Dispatchers))
    page = await selector.find(SubscriptionSelection(consumer=pattern), limit=9)
    assert len(page.ids) == found


@pytest.mark.parametrize("order", [one for one in Order if one is not Order.STATE])
async def test_a_sorted_list_has_each_once(order: Order) -> None:
    table = SubscriptionTable()
    entries = [entered(table, "abc"[number % 3], ONE) for number in range(20)]
    selector = SubscriptionSelector(table, object.__new__(Dispatchers))
    for descending in (False, True):
        seen: list[str] = []
        start: int | None = 0
        while start is not None:
            ids, start = await selector.sort(
                SubscriptionSelection(), order, descending=descending, start=start, limit=7
            )
            seen += ids
        assert sorted(seen) == sorted(entry.id for entry in entries)


async def test_what_is_too_much_is_not_sorted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.subscriptions.listing.LOOKED_AT", 5)
    table = SubscriptionTable()
    for _ in range(6):
        entered(table, "a", ONE)
    selector = SubscriptionSelector(table, object.__new__(Dispatchers))
    with pytest.raises(Refused, match="narrow the list"):
        await selector.sort(SubscriptionSelection(), Order.OWNER, limit=3)
