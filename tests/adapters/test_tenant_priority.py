"""Priority of light tenants: they are told by what all have used, and heavy ones never starve."""

from hypothesis import given
from hypothesis import strategies as st

from adapters.tenant_priority import FORGOTTEN, HALF_LIFE, HOLD, TenantPriority

STEPS = st.lists(
    st.tuples(st.sampled_from(["begin", "end", "stale end"]), st.floats(0, 2 * HOLD)), max_size=200
)


@given(STEPS)
def test_half_of_the_time_is_the_heavy_tenants_whatever_light_ones_do(
    steps: list[tuple[str, float]],
) -> None:
    """Of any stretch of time they are held back for half, and `HOLD`, at most; and never for more
    than `HOLD` in a row."""
    priority, now, under_way = TenantPriority(), 100.0, list[int]()
    held, since = list[tuple[float, float]](), 0.0

    def note(before: bool) -> None:
        nonlocal since
        if priority.holds_back and not before:
            since = now
        elif before and not priority.holds_back:
            held.append((since, now))

    for what, seconds in [*steps, ("end", 2 * HOLD)]:
        until = now + seconds
        if priority.holds_back and priority.until <= until:  # As the timer does.
            now = priority.until
            priority.expire(now)
            note(before=True)
        now = until
        before = priority.holds_back
        if what == "begin":
            under_way.append(priority.begin(now))
        elif what == "end" and under_way:
            priority.end(under_way.pop(), now)
        elif under_way:
            priority.end(under_way[0], now)  # Whatever ends twice holds back less, not more.
        note(before)
    assert all(end - begin <= HOLD + 1e-9 for begin, end in held)
    for first, (begin, _) in enumerate(held):
        for _, end in held[first:]:
            total = sum(b - a for a, b in held if begin <= a and b <= end)
            assert total <= (end - begin) / 2 + HOLD + 1e-9


@given(st.lists(st.sampled_from(["first", "second", "third"]), min_size=1))
def test_light_work_alone_is_waited_for_and_all_of_it(who: list[str]) -> None:
    """Heavy tenants are held back until the last of the light work has ended."""
    priority = TenantPriority()
    holds = [priority.begin(1.0) for _ in who]
    for hold in holds:
        assert priority.holds_back
        priority.end(hold, 1.0)
    assert not priority.holds_back


def test_what_takes_long_holds_nobody_back_again() -> None:
    """A request that takes long, as one that waits for messages, uses up one hold alone."""
    priority, found = TenantPriority(), list[bool]()
    long = priority.begin(1.0)
    priority.expire(1.0 + HOLD)
    found.append(priority.holds_back)
    assert priority.begin(1.0 + HOLD) == 0
    short = priority.begin(2.0)
    priority.end(long, 2.0)
    found.append(priority.holds_back)
    priority.end(short, 2.0)
    found.append(priority.holds_back)
    assert found == [False, True, False]


def test_one_tenant_alone_is_never_light() -> None:
    priority = TenantPriority()
    for now in range(10):
        priority.use("", 1000.0, float(now))
        assert not priority.is_light("")
        assert not priority.several


def test_who_uses_little_is_light_until_it_does_not() -> None:
    priority = TenantPriority()
    priority.use("flood", 1_000_000.0, 0.0)
    assert priority.is_light("new")
    priority.use("quiet", 1000.0, 0.0)
    assert priority.is_light("quiet")
    assert not priority.is_light("flood")
    priority.use("quiet", 1_000_000.0, 0.0)
    assert not priority.is_light("quiet")
    assert not priority.is_light("flood")


def test_what_was_used_long_ago_is_forgotten() -> None:
    priority = TenantPriority()
    priority.use("flood", 2.0**20 * FORGOTTEN, 0.0)
    priority.use("quiet", 10.0, 22 * HALF_LIFE)
    assert not priority.several
    assert not priority.is_light("quiet")
    assert priority.is_light("flood")
