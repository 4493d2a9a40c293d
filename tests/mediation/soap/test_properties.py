"""The header block of our own in which a publisher says properties of an event."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from filters import Reason
from mediation.client import read_received
from mediation.cloudevents import event_of
from mediation.cloudevents.mapping import json_of
from mediation.model.errors import MediationError
from mediation.model.messages import Notification
from mediation.model.requests import Publish
from mediation.packaging.records import decode, encode
from mediation.soap.properties import properties_block, properties_in
from tests.rigs.mediation import envelope, incoming, refused

TRACE = b'<x:Trace xmlns:x="urn:x">7</x:Trace>'
NAMES = st.from_regex("[A-Z][A-Za-z0-9_]{0,10}", fullmatch=True).map(lambda name: f"p{name}")
TEXTS = st.text(
    st.characters(codec="utf-8", exclude_categories=("Cc", "Cs"), exclude_characters="\ufffe\uffff")
)


def published(octets: bytes) -> tuple[Notification, ...]:
    request = incoming(octets).request
    assert isinstance(request, Publish)
    return request.notifications


@given(st.dictionaries(NAMES, TEXTS, max_size=5))
def test_what_is_written_is_read(properties: dict[str, str]) -> None:
    assert properties_in([TRACE, properties_block(properties), TRACE]) == properties


def test_an_event_and_all_of_a_notify_have_them_and_pass_them_on() -> None:
    block = properties_block({"region": "north", "Level_2": "<&>"}).decode()
    said = {"region": "north", "Level_2": "<&>"}
    (event,) = published(envelope('<e xmlns="urn:e"/>', headers=block))
    assert event.properties == said
    assert event.headers == (block.encode(),)
    wsnt = "http://docs.oasis-open.org/wsn/b-2"
    message = "<n:NotificationMessage><n:Message><e/></n:Message></n:NotificationMessage>"
    notify = f'<n:Notify xmlns:n="{wsnt}">{message * 2}</n:Notify>'
    octets = envelope(notify, headers=block)
    assert [one.properties for one in published(octets)] == [said] * 2
    received = read_received(octets)
    assert isinstance(received, tuple)
    assert [one.properties for one in received] == [said] * 2


def test_a_messaging_system_has_them_as_its_own() -> None:
    block = properties_block({"region": "north", "Level_2": "high"}).decode()
    (event,) = published(envelope('<e xmlns="urn:e"/>', headers=block))
    record = encode(event)
    assert record.properties["region"] == "north"
    assert record.properties["Level_2"] == "high"
    again = decode(record.body, record.properties)
    assert (again.properties, again.headers) == (event.properties, event.headers)


def test_attributes_of_a_cloudevent_are_those_that_may_have_such_a_name() -> None:
    block = properties_block({"region": "north", "Level_2": "high", "id": "forged", "topic": "x"})
    notification = Notification(
        "urn:1", "urn:s", b"<e/>", datetime(2026, 3, 1, tzinfo=UTC), headers=(block,)
    )
    attributes = event_of(notification).attributes
    assert attributes["region"] == "north"
    assert attributes["id"] == "urn:1"
    assert not {"Level_2", "level_2", "topic"} & set(attributes)
    assert json_of(notification) is None  # The quick way has no room for them.


@pytest.mark.parametrize(
    "name",
    ["", "a b", "7up", "ä", "ws_topic", "ce_attributes", "dragoman_channel", "JMSType", "a" * 65],
)
def test_names_that_are_none_or_taken_are_refused(name: str) -> None:
    with pytest.raises(MediationError):
        properties_block({name: "1"})
    block = (
        '<d:Properties xmlns:d="urn:dragoman:policy:1">'
        f'<d:Property name="{name}">1</d:Property></d:Properties>'
    )
    octets = envelope('<e xmlns="urn:e"/>', headers=block)
    assert refused(octets).refused.reason is Reason.MESSAGE_INVALID
