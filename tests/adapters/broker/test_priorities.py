"""The priority of an event as that of a message."""

import pytest

from adapters.broker.priorities import priority_of


@pytest.mark.parametrize(
    ("text", "priority"),
    [
        (None, None), ("0", 0), ("7", 7), ("300", 255), ("9" * 9, 255), ("9" * 10, None),
        ("-1", None), ("high", None), ("", None), ("²", None), ("٣", None), ("4.0", None),
    ],
)  # fmt: skip
def test_a_property_is_a_priority(text: str | None, priority: int | None) -> None:
    assert priority_of({} if text is None else {"priority": text}, 255) == priority
