"""Ranges of message numbers behave as sets of them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mediation.reliable_messaging import EMPTY, Ranges

PAIRS = st.lists(
    st.tuples(st.integers(1, 40), st.integers(0, 6)).map(lambda pair: (pair[0], sum(pair)))
)


def numbers(ranges: Ranges) -> set[int]:
    return {number for low, high in ranges.pairs for number in range(low, high + 1)}


@given(PAIRS, PAIRS, st.integers(1, 50))
def test_they_are_sets(
    some: list[tuple[int, int]], others: list[tuple[int, int]], new: int
) -> None:
    one, other = Ranges.of(some), Ranges.of(others)
    plain = numbers(one)
    assert plain == {number for low, high in some for number in range(low, high + 1)}
    assert all(
        high + 1 < low for (_, high), (low, _) in zip(one.pairs, one.pairs[1:], strict=False)
    )
    assert numbers(one | other) == plain | numbers(other)
    assert one.add(new) == Ranges.of([*some, (new, new)])
    assert [number in one for number in range(60)] == [number in plain for number in range(60)]
    assert (len(one), bool(one), one.highest) == (len(plain), bool(plain), max(plain, default=0))
    assert one.first_gap == min(set(range(1, 60)) - plain)
    gaps = {number for low, high in one.gaps(new) for number in range(low, high + 1)}
    assert gaps == set(range(1, new + 1)) - plain
    assert one.is_all(new) == (plain == set(range(1, new + 1)))
    assert Ranges.parse(str(one)) == one
    assert Ranges.parse(one.text()) == one
    assert one.count == len(plain)


@pytest.mark.parametrize("pair", [(0, 1), (3, 2), (-1, -1)])
def test_no_ranges(pair: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="no range"):
        Ranges.of([pair])


def test_no_number() -> None:
    with pytest.raises(ValueError, match="no message number"):
        Ranges().add(0)


def test_they_do_not_grow_with_numbers() -> None:
    assert Ranges.of([(1, 2**63 - 2)]).add(2**63 - 1).pairs == ((1, 2**63 - 1),)


def test_the_text() -> None:
    assert Ranges.of([(4, 6), (1, 1)]).text() == "1,4-6"
    assert Ranges.parse("1-2,4-6").pairs == ((1, 2), (4, 6))
    assert EMPTY.text() == ""
    assert Ranges.parse("") == EMPTY


@pytest.mark.parametrize("text", ["1-", "-1", "1-2;4-6", "2-1", "0-0", "1-x"])
def test_another_text(text: str) -> None:
    with pytest.raises(ValueError):
        Ranges.parse(text)
