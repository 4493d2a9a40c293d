"""Which tags are acknowledged with one frame, and when."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.rabbitmq.tags import Tags


@given(st.lists(st.lists(st.integers(-1, 20), max_size=8), max_size=12))
def test_what_is_settled_is_acknowledged_once(turns: list[list[int]]) -> None:
    """A broker that knows which tags are outstanding, as RabbitMQ: -1 delivers, others settle one
    of those that are unsettled."""
    tags, outstanding, unsettled = Tags(), list[int](), list[int]()
    following = 1
    for turn in turns:
        for what in turn:
            if what < 0 or not unsettled:
                for _ in range(3):
                    tags.deliver(following)
                    outstanding.append(following)
                    unsettled.append(following)
                    following += 1
            else:
                tags.settle(unsettled.pop(what % len(unsettled)))
        upto, apart = tags.take()
        for tag in apart:
            outstanding.remove(tag)
        if upto is not None:
            assert upto in outstanding
            outstanding = [tag for tag in outstanding if tag > upto]
        assert sorted(outstanding) == sorted(unsettled)
    assert tags.take() == (None, [])


@pytest.mark.parametrize(
    ("settled", "upto", "apart"),
    [
        pytest.param([1, 2, 3], 3, [], id="in order"),
        pytest.param([3, 1, 2], 3, [], id="in another order"),
        pytest.param([2, 3], None, [2, 3], id="the first is unsettled"),
        pytest.param([1, 2, 3, 5, 7], 3, [5, 7], id="gaps"),
        pytest.param([1, 2, 3, 4, 5, 6, 7], 7, [], id="all"),
        pytest.param([1, 1, 9], 1, [], id="twice, and what never came"),
    ],
)
def test_one_frame_for_many(settled: list[int], upto: int | None, apart: list[int]) -> None:
    tags = Tags()
    for tag in range(1, 8):
        tags.deliver(tag)
    for tag in settled:
        tags.settle(tag)
    assert tags.take() == (upto, apart)


def test_acknowledgements_wait_until_they_are_a_quarter() -> None:
    tags = Tags()
    for tag in range(1, 65):
        tags.deliver(tag)
    for tag in range(1, 16):
        tags.settle(tag)
        assert not tags.are_many, tag
    tags.settle(16)
    assert tags.are_many
    assert tags.take() == (16, [])
    assert not tags.are_many


def test_one_alone_is_acknowledged_at_once() -> None:
    tags = Tags()
    tags.deliver(1)
    tags.settle(1)
    assert tags.are_many
