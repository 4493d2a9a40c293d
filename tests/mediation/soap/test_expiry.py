"""The header block of our own that says when the life of an event is over."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from filters import Reason
from mediation.model.messages import Notification
from mediation.model.requests import Publish
from mediation.soap.expiry import expiry_block, take_expiry
from tests.rigs.mediation import envelope, incoming, refused

TRACE = b'<x:Trace xmlns:x="urn:x">7</x:Trace>'
BLOCK = '<d:Expires xmlns:d="urn:dragoman:policy:1">{}</d:Expires>'
FIRST, LAST = (datetime(year, 1, 1) for year in (2, 8999))  # noqa: DTZ001 - bounds have no zone
ZONES = st.integers(-14 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))


def published(octets: bytes) -> tuple[Notification, ...]:
    request = incoming(octets).request
    assert isinstance(request, Publish)
    return request.notifications


@given(st.datetimes(FIRST, LAST, timezones=ZONES))
def test_what_is_written_is_read(expires: datetime) -> None:
    assert take_expiry((TRACE, expiry_block(expires), TRACE)) == ((TRACE, TRACE), expires)


def test_others_stay() -> None:
    other = b'<d:Other xmlns:d="urn:dragoman:policy:1"/>'
    assert take_expiry((TRACE, other)) == ((TRACE, other), None)


def test_an_event_and_all_of_a_notify_have_it() -> None:
    expires = datetime(2026, 3, 1, 12, tzinfo=UTC)
    block = BLOCK.format("2026-03-01T13:00:00+01:00")
    (event,) = published(envelope('<e xmlns="urn:e"/>', headers=block))
    assert (event.expires, event.headers) == (expires, ())
    wsnt = "http://docs.oasis-open.org/wsn/b-2"
    message = "<n:NotificationMessage><n:Message><e/></n:Message></n:NotificationMessage>"
    notify = f'<n:Notify xmlns:n="{wsnt}">{message * 2}</n:Notify>'
    assert [one.expires for one in published(envelope(notify, headers=block))] == [expires] * 2


@pytest.mark.parametrize("said", ["", "tomorrow", "PT5S", "2026-13-01T00:00:00Z"])
def test_what_is_no_time_is_refused(said: str) -> None:
    octets = envelope('<e xmlns="urn:e"/>', headers=BLOCK.format(said))
    assert refused(octets).refused.reason is Reason.MESSAGE_INVALID
