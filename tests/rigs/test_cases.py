import asyncio
from typing import Any

import pytest

from tests.rigs.cases import each_value_once, for_each


def test_all_rows_are_tried_and_those_that_fail_are_named() -> None:
    tried = []

    @for_each("odd", [pytest.param(1, id="one"), 3])
    @for_each(("even", "word"), [(2, "two"), pytest.param(4, "four", id="4")])
    def check(odd: int, even: int, word: str) -> None:
        tried.append((odd, even, word))
        assert even < odd, word

    with pytest.raises(ExceptionGroup, match="2 rows fail") as caught:
        check()  # type: ignore[call-arg]  # What pytest calls has no such arguments.
    assert tried == [(1, 2, "two"), (1, 4, "four"), (3, 2, "two"), (3, 4, "four")]
    first, second = caught.value.exceptions
    assert isinstance(first, ExceptionGroup) and len(first.exceptions) == 2
    assert second.__notes__ == ["with odd=3"]
    [last] = second.exceptions
    assert last.__notes__ == ["4: with even=4, word='four'"] and "four" in str(last)


@pytest.mark.parametrize("ids", [["one", "two"], {1: "one", 2: "two"}.get], ids=["texts", "called"])
def test_a_row_is_named_by_its_id(ids: Any) -> None:
    @for_each("number", [1, 2], ids=ids)
    def check(number: int) -> None:
        assert number < 2

    with pytest.raises(ExceptionGroup) as caught:
        check()  # type: ignore[call-arg]  # As above.
    assert caught.value.exceptions[0].__notes__ == ["two: with number=2"]


@for_each("number", range(3))
@pytest.mark.parametrize("letter", "ab")
def test_what_is_left_are_parameters_and_fixtures(
    number: int, letter: str, request: pytest.FixtureRequest
) -> None:
    assert request.node.name == f"test_what_is_left_are_parameters_and_fixtures[{letter}]"
    assert number in range(3)


@for_each("number", range(3))
async def test_a_coroutine_is_awaited_for_each(number: int) -> None:
    await asyncio.sleep(0)
    assert number in range(3)


def test_by_day_each_value_is_there_once() -> None:
    rows = each_value_once(letter={"a": 1, "b": 2}, number={"x": 3, "y": 4, "z": 5}).args[1]
    assert [(row.id, row.values) for row in rows if not row.marks] == [
        ("a-x", (1, 3)),
        ("a-z", (1, 5)),
        ("b-y", (2, 4)),
    ]
    assert len(rows) == 6
