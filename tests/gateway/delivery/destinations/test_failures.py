"""Failed attempts by destination."""

from gateway.delivery.destinations.failures import FailureCounts


def test_those_with_the_most_come_first() -> None:
    counts = FailureCounts()
    for destination in ("a", "b", "b", "c", "b", "c"):
        counts.note(destination, f"{destination} is away", 1.0)
    assert [(one.destination, one.failures) for one in counts.most(2)] == [("b", 3), ("c", 2)]
    [first] = counts.most(1)
    assert (first.last_error, first.last_at) == ("b is away", 1.0)


def test_those_that_failed_longest_ago_are_forgotten() -> None:
    counts = FailureCounts(2)
    for destination in ("a", "b", "a", "c"):
        counts.note(destination, "", 1.0)
    assert {one.destination for one in counts.most(10)} == {"a", "c"}
