"""The search for subscriptions of a selection is bounded, and goes on where it ended."""

import pytest

from filters import Reason, Refused
from gateway.delivery import Dispatchers
from gateway.egress import parse_target
from gateway.subscriptions.listing import Order, SubscriptionSelector
from gateway.subscriptions.table import SubscriptionTable
from mediation.model.requests import SubscriptionSelection
from tests.gateway.subscriptions.test_table import entered

ONE = parse_target("http://one.example/")


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
