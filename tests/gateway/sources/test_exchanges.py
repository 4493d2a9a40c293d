"""The length of a lease, by what a producer says of it."""

from datetime import UTC, datetime, timedelta

import pytest

from gateway.sources.exchanges import _length
from mediation.client import Granted
from mediation.model.expiry import format_seconds

AT = datetime(2026, 1, 31, 10, tzinfo=UTC)


def at(seconds: float) -> str:
    return format_seconds(AT + timedelta(seconds=seconds))


LEASES = [
    pytest.param("PT10M", None, 600.0, id="a duration"),
    pytest.param("P1D", at(-99), 86400.0, id="a duration, whatever the time there"),
    pytest.param(at(600), at(0), 600.0, id="a date"),
    pytest.param(at(7800), at(7200), 600.0, id="a clock that is two hours ahead"),
    pytest.param(at(-6600), at(-7200), 600.0, id="a clock that is two hours behind"),
    pytest.param(at(90000), at(0), 90000.0, id="more than was asked for"),
    pytest.param(at(600), None, 600.0, id="a date without the time there"),
    pytest.param(at(7800), None, 3600.0, id="a date beyond what was asked for: a wrong clock"),
    pytest.param(at(-600), None, None, id="a date that is over: a wrong clock"),
    pytest.param(None, None, None, id="nothing: for ever, or as long as was asked for"),
    pytest.param("", None, None, id="Savan: an empty element"),
    pytest.param("tomorrow", None, None, id="what cannot be read"),
    pytest.param(at(600), "yesterday", None, id="a time there that cannot be read"),
]


@pytest.mark.parametrize(("expires", "current", "length"), LEASES)
def test_the_length_of_a_lease(
    expires: str | None, current: str | None, length: float | None
) -> None:
    answered = Granted(None, expires, current)
    found = _length(answered, AT.timestamp(), 3600.0)
    assert found == (None if length is None else pytest.approx(length))
