"""Moments: every number is one."""

import math
from datetime import UTC, datetime

from hypothesis import example, given
from hypothesis import strategies as st

from gateway.model.moments import moment_of, seconds_of


@given(st.floats())
@example(math.nan)
@example(-math.inf)
@example(datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC).timestamp())
@example(3e11)
def test_every_number_has_a_date(seconds: float) -> None:
    date = moment_of(seconds)
    assert date.isoformat()
    if 0 <= seconds <= 2e11:
        assert abs(date.timestamp() - seconds) < 1e-3


@given(st.datetimes())
def test_every_date_has_a_number(date: datetime) -> None:
    assert math.isfinite(seconds_of(date))
