"""Expirations: every row of what senders really put there, and what is written."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from filters import Reason
from mediation.model.errors import MediationError
from mediation.model.expiry import (
    FOR_EVER,
    Duration,
    Expiry,
    format_duration,
    format_milliseconds,
    format_seconds,
    parse_date_time,
    parse_duration,
    parse_expiry,
)
from tests.rigs.cases import for_each

NOW = datetime(2024, 1, 31, 10, 0, tzinfo=UTC)
LATEST = datetime(9000, 1, 1, tzinfo=UTC)


def lasting(months: int = 0, **length: float) -> Expiry:
    return Expiry(duration=Duration(months, timedelta(**length)))


def until(moment: datetime) -> Expiry:
    return Expiry(instant=moment, as_duration=False)


def milliseconds(amount: int) -> Expiry:
    return Expiry(duration=Duration(0, timedelta(milliseconds=amount)), as_duration=False)


NEVER = Expiry(never=True, as_duration=False)

READ = [
    pytest.param("PT1H", lasting(hours=1), id="a duration"),
    pytest.param("PT3600.000000S", lasting(hours=1), id="openwsman's fraction"),
    pytest.param("PT60.000S", lasting(minutes=1), id="WinRM's fraction"),
    pytest.param("PT0.5S", lasting(milliseconds=500), id="half a second"),
    pytest.param("PT0.123456789012S", lasting(microseconds=123456), id="picoseconds"),
    pytest.param("P1Y2M3DT10H30M", lasting(14, days=3, hours=10, minutes=30), id="Savan's"),
    pytest.param("P0Y0M0DT0H0M0S", lasting(), id="the lower bound"),
    pytest.param("-PT0S", lasting(), id="minus nothing"),
    pytest.param("PT2147483647S", lasting(seconds=2147483647), id="the greatest int"),
    pytest.param(
        "2004-06-26T21:07:00.000-08:00",
        until(datetime(2004, 6, 27, 5, 7, tzinfo=UTC)),
        id="a zone",
    ),
    pytest.param(
        "2004-06-26T21:07:00-00:00",
        until(datetime(2004, 6, 26, 21, 7, tzinfo=UTC)),
        id="minus zero",
    ),
    pytest.param(
        "2004-06-26T21:07:00", until(datetime(2004, 6, 26, 21, 7, tzinfo=UTC)), id="no zone"
    ),
    pytest.param(
        "2004-12-31T24:00:00Z", until(datetime(2005, 1, 1, tzinfo=UTC)), id="the end of a day"
    ),
    pytest.param("9999-12-31T23:59:59.9999999-08:00", until(LATEST), id="the last date of .NET"),
]


@for_each("family", ["WS-Eventing", "WS-Notification"])
@for_each(("text", "expiry"), READ)
def test_read(text: str, expiry: Expiry, family: str) -> None:
    assert parse_expiry(text, milliseconds=family == "WS-Eventing") == expiry


@pytest.mark.parametrize(
    ("text", "expiry"),
    [
        pytest.param("60000", milliseconds(60_000), id="a minute"),
        pytest.param("0", milliseconds(0), id="at once"),
        pytest.param("-1", FOR_EVER, id="negative"),
        pytest.param("-9223372036854775808", FOR_EVER, id="the least long"),
        pytest.param("*", NEVER, id="Synapse"),
    ],
)
def test_read_of_ws_eventing_alone(text: str, expiry: Expiry) -> None:
    assert parse_expiry(text, milliseconds=True) == expiry
    with pytest.raises(MediationError):
        parse_expiry(text)


@pytest.mark.parametrize("text", ["9223372036854775807", "PT9223372036854775807S", "P999999999Y"])
def test_for_ever_in_numbers(text: str) -> None:
    assert parse_expiry(text, milliseconds=True).at(NOW) == LATEST


@for_each(
    "text",
    [
        "", "P", "PT", "P1DT", "1H", "PT1", "P1W", "PT-1H", "-PT1", "-P", "PT1H30", "pt1h",
        "PT1,5S", "PT.5S", "PT1.S", "P1M1Y", "tomorrow", "+5", "1e3", "6.0", "--1", "**",
        "2004-06-26", "21:07:00Z", "2004-13-01T00:00:00Z", "2004-06-31T00:00:00Z",
        "2004-06-26T25:00:00Z", "2004-06-26T24:00:01Z", "2004-06-26T21:07:00+25:00",
        "0001-01-01T00:00:00+08:00", "02004-06-26T21:07:00Z", "-2004-06-26T21:07:00Z",
        "2004-06-26 21:07:00Z", "٢٠٠٤-06-26T21:07:00Z", "PT" + "9" * 21 + "S", "9" * 5000,
    ],
)  # fmt: skip
def test_anything_else(text: str) -> None:
    for milliseconds in (True, False):
        with pytest.raises(MediationError) as caught:
            parse_expiry(text, milliseconds=milliseconds)
        assert caught.value.reason is Reason.EXPIRY_INVALID
        assert text not in caught.value.text or not text


@pytest.mark.parametrize("text", ["-PT1S", "-P1M", "-P1DT2H", "-PT0.5S"])
def test_a_negative_duration_is_told_as_such(text: str) -> None:
    with pytest.raises(MediationError, match="The duration is negative") as caught:
        parse_expiry(text)
    assert caught.value.reason is Reason.EXPIRY_IN_THE_PAST


@pytest.mark.parametrize(
    ("length", "moment"),
    [
        pytest.param("P1M", datetime(2024, 2, 29, 10, tzinfo=UTC), id="to a shorter month"),
        pytest.param("P1Y", datetime(2025, 1, 31, 10, tzinfo=UTC), id="a year"),
        pytest.param("P1Y1M", datetime(2025, 2, 28, 10, tzinfo=UTC), id="no leap year"),
        pytest.param("P11MT14H", datetime(2025, 1, 1, tzinfo=UTC), id="over the year's end"),
        pytest.param("P6976Y", LATEST, id="further than counts"),
    ],
)
def test_months_count_on_the_calendar(length: str, moment: datetime) -> None:
    assert parse_expiry(length).at(NOW) == moment


def test_unspecified() -> None:
    assert Expiry().unspecified and Expiry().at(NOW) is None
    assert not NEVER.unspecified and NEVER.at(NOW) is None


@pytest.mark.parametrize(
    ("length", "text"),
    [
        (timedelta(), "PT0S"),
        (timedelta(seconds=-5), "PT0S"),
        (timedelta(hours=1), "PT1H"),
        (timedelta(hours=1, minutes=58, seconds=12), "PT1H58M12S"),
        (timedelta(days=30), "PT720H"),
        (timedelta(seconds=59.6), "PT1M"),
    ],
)
def test_durations_are_written_without_days(length: timedelta, text: str) -> None:
    assert format_duration(length) == text


def test_times_are_written_in_utc() -> None:
    moment = datetime.fromisoformat("2026-01-31T12:00:00.123999+02:00")
    assert format_seconds(moment) == "2026-01-31T10:00:00Z"
    assert format_milliseconds(moment) == "2026-01-31T10:00:00.123Z"


@given(st.integers(0, 10**9))
def test_durations_read_back(seconds: int) -> None:
    length = timedelta(seconds=seconds)
    assert parse_duration(format_duration(length)) == Duration(0, length)


@given(st.datetimes(min_value=datetime(1970, 1, 1), max_value=datetime(8999, 1, 1)))  # noqa: DTZ001
def test_times_read_back(moment: datetime) -> None:
    moment = moment.replace(tzinfo=UTC, microsecond=moment.microsecond // 1000 * 1000)
    assert parse_date_time(format_milliseconds(moment)) == moment


@given(st.text(alphabet="PTYMDHS0123456789.-:+Z*", max_size=30), st.booleans())
def test_no_text_is_more_than_refused(text: str, milliseconds: bool) -> None:
    try:
        parse_expiry(text, milliseconds=milliseconds).at(NOW)
    except MediationError as error:
        assert error.reason is Reason.EXPIRY_INVALID
