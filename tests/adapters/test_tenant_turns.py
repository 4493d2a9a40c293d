"""Turns of tenants: shares are equal whatever one of them has, and a lone one is never counted."""

from collections import Counter
from itertools import pairwise

import pytest

from adapters.tenant_turns import EACH, QUANTUM, TenantTurns

AT_ONCE = QUANTUM // EACH
"""Small messages that a tenant sends in a turn."""


def order(has: dict[str, int], number: int, octets: dict[str, int]) -> list[str]:
    """Whose the first *number* messages are, of tenants that have so many destinations with more
    to send than that, each message of so many bytes."""
    turns: TenantTurns[tuple[str, int]] = TenantTurns()
    for tenant, destinations in has.items():
        for destination in range(destinations):
            turns.append((tenant, destination), tenant)
    sent = []
    for _ in range(number):
        found = turns.popleft()
        sent.append(found[0])
        turns.sent(found[0], octets.get(found[0], 0))
        turns.append(found, found[0])
    return sent


@pytest.mark.parametrize("small_first", [False, True])
@pytest.mark.parametrize("flood", [1, 2, 1000])
def test_one_that_floods_makes_nobody_wait(flood: int, small_first: bool) -> None:
    """Over any time, each of two has half; and neither waits for more than a turn of the other."""
    has = {"": 1, "acme": flood} if small_first else {"acme": flood, "": 1}
    sent = order(has, 40 * AT_ONCE, {})
    assert Counter(sent) == {"acme": 20 * AT_ONCE, "": 20 * AT_ONCE}
    places = [-1] + [place for place, tenant in enumerate(sent) if tenant == ""]
    assert max(later - former - 1 for former, later in pairwise(places)) == AT_ONCE


def test_bytes_count() -> None:
    """Who sends large messages sends as many bytes, not as many messages."""
    sizes = {"acme": 63 * EACH, "": 0}
    sent = Counter(order({"acme": 10, "": 1, "umbrella": 3}, 6500, sizes))
    assert sent[""] == pytest.approx(sent["umbrella"], rel=0.02)
    assert sent[""] / sent["acme"] == pytest.approx(64, rel=0.1)


def test_one_alone_has_its_order_and_no_debts() -> None:
    """Whatever it sent while it was alone: who comes later takes turns with it from then on."""
    turns: TenantTurns[str] = TenantTurns()
    assert not turns
    for name in ("a", "b", "c"):
        turns.append(name, "acme")
    assert [turns.popleft() for _ in range(2)] == ["a", "b"]
    turns.sent("acme", 2**30)
    assert turns
    for name in ("d", "e"):
        turns.append(name, "acme")
    turns.append("x", "")
    found = []
    while turns:
        found.append(turns.popleft())
        turns.sent("" if found[-1] == "x" else "acme", QUANTUM)
    assert found == ["x", "c", "d", "e"]
    with pytest.raises(IndexError):
        turns.popleft()


@pytest.mark.parametrize("others", [1, 3])
def test_what_is_owed_is_paid_off_while_one_is_away(others: int) -> None:
    """Who comes back at once waits for what it had too much; later, for no more than a turn."""
    debt = 64 * QUANTUM
    turns: TenantTurns[str] = TenantTurns()
    for name in (*map(str, range(others)), "acme"):
        turns.append(name, name)
    assert turns.popleft() == "acme"
    turns.sent("acme", debt)

    def passed(most: int) -> int:
        """How many are sent until it is the turn of acme, at most."""
        for number in range(most):
            found = turns.popleft()
            if found == "acme":
                return number
            turns.sent(found, 0)
            turns.append(found, found)
        return most

    enough = others * (debt // EACH + AT_ONCE)
    assert passed(AT_ONCE) == AT_ONCE
    turns.append("acme", "acme")
    waited = passed(enough)
    assert others * (debt // EACH - 2 * AT_ONCE) <= waited < enough
    turns.sent("acme", debt)
    assert passed(enough) == enough
    turns.append("acme", "acme")
    assert passed(enough) <= others * AT_ONCE


def test_who_sends_little_goes_first_and_no_more_than_a_turn() -> None:
    """Whoever comes now and then waits for nobody; who stays, or comes too often, takes turns."""
    turns: TenantTurns[str] = TenantTurns()
    for _ in range(1000):
        turns.append("flood", "flood")
    waited = []
    for _ in range(3 * AT_ONCE):  # One to each message of the flood: as much as that.
        turns.append("quiet", "quiet")
        waited.append(0)
        while (found := turns.popleft()) == "flood":
            turns.sent(found, 0)
            waited[-1] += 1
        turns.sent(found, 0)
    assert waited[:AT_ONCE] == [0] * AT_ONCE
    assert sum(waited) >= AT_ONCE
    assert max(waited) <= AT_ONCE
