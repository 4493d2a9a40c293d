"""Whatever a publication says that is not refused is found again in what consumers get of it, in
every dialect: all of the payload, and the rest as far as a dialect has a place for it."""

import json
from collections.abc import Iterable, Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mediation.matrix import NOTIFIED, PUBLISHING, Dialect, Fact
from mediation.model.messages import Notification
from mediation.model.requests import Rejected
from mediation.model.versions import EventForm
from tests.rigs.matrix import cloud_message, delivered, posted, published
from tests.rigs.publications import publications

ABOUT = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}
AS_XML = {"datacontenttype": "application/xml"}


def read_events(octets: bytes, origin: Dialect) -> tuple[Notification, ...]:
    """The events of a publication that was drawn."""
    form = origin.forms[-1]
    if not isinstance(form, EventForm):
        return published(octets)
    event = {**ABOUT, **AS_XML, "data": octets.decode()}
    return posted(*cloud_message(json.dumps(event).encode(), form))


def missing(
    words: Mapping[str, Fact | None], events: Iterable[Notification], target: Dialect
) -> list[str]:
    """The words of a publication that its consumers do not get, though their dialect has a place
    for them."""
    got = "".join(delivered(event, target, target.forms[-1]).text for event in events)
    return [
        word
        for word, fact in words.items()
        if (fact is None or fact in target.tells) and word not in got
    ]


@pytest.mark.parametrize("origin", PUBLISHING, ids=lambda one: one.name)
@given(data=st.data())
@settings(max_examples=40)
def test_what_is_not_refused_is_all_there(origin: Dialect, data: st.DataObject) -> None:
    octets, words = data.draw(publications(origin))
    try:
        events = read_events(octets, origin)
    except Rejected:
        return
    for target in NOTIFIED:
        assert missing(words, events, target) == [], target.name
