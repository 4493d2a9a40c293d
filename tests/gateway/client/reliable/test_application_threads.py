"""How much applications are given at a time."""

from gateway.client.reliable.application_threads import Pace
from gateway.client.reliable.transaction_threads import MAX_COMMIT


def test_several_are_delivered_at_once_unless_that_takes_long() -> None:
    times = iter([5.0, 5.001, 5.002, *[6.0, 6.0, 6.5], *[7.0]])
    clock = times.__next__
    quick = Pace(clock)
    assert [quick.goes_on(), quick.goes_on(), quick.goes_on()] == [True] * 3
    assert [quick.at_once(before) for before in (1, 8, MAX_COMMIT)] == [
        2,
        16,
        MAX_COMMIT,
    ]
    slow = Pace(clock)
    assert [slow.goes_on(), slow.goes_on(), slow.goes_on()] == [True, True, False]
    assert [slow.at_once(before) for before in (1, 16, 64)] == [1, 2, 8]
    alone = Pace(clock)
    assert alone.goes_on()
    assert alone.at_once(1) == 2
