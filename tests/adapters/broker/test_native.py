"""Properties of native messages that would break what is made of them: left aside."""

import json
from datetime import UTC, datetime

import pytest

from adapters.broker.destinations import Destination, Destinations
from adapters.broker.native import in_tenant_of, notification_of
from filters import parse_clark
from mediation.model.messages import Notification
from tests.rigs.cases import for_each

NOW = datetime(2026, 1, 1, tzinfo=UTC)
OF_ACME = "{urn:dragoman:tenant}acme"
W3C = "http://www.w3.org/2005/08/addressing"


def producer(**fields: object) -> dict[str, str]:
    return {"ws_producer": json.dumps({"wsa": W3C, "address": "urn:a"} | fields)}


@for_each(
    "properties",
    [
        pytest.param({"cloudEvents_time": "9999-12-31T23:59:59-23:00"}, id="after all time"),
        pytest.param({"ws_expires": "0001-01-01T00:00:00+23:00"}, id="before all time"),
        pytest.param({"ws_properties": json.dumps({"dragoman_hops": 5})}, id="a number"),
        pytest.param({"ws_properties": json.dumps({"a": {"b": None}})}, id="an object"),
        pytest.param({"ws_properties": json.dumps({"a": "\ud800"})}, id="half a pair in a value"),
        pytest.param({"ws_properties": json.dumps({"\udfff": "a"})}, id="half a pair in a name"),
        pytest.param({"ws_properties": "[" * 100_000}, id="deep"),
        pytest.param({"cloudEvents_id": "\ud800"}, id="half a pair in the id"),
        pytest.param({"ws_action": "\ud800"}, id="half a pair in the action"),
        pytest.param({"ws_headers": json.dumps(["text"])}, id="text for a header block"),
        pytest.param({"ws_headers": json.dumps(["<a/><b/>"])}, id="two in one"),
        pytest.param({"ws_headers": json.dumps(["</s:Header>"])}, id="an end tag"),
        pytest.param({"ws_headers": json.dumps(["<p:a/>"])}, id="a prefix of nothing"),
        pytest.param({"ws_headers": json.dumps(["<!DOCTYPE a><a/>"])}, id="a document type"),
        pytest.param({"ws_headers": json.dumps({"<a/>": 1, "a": 2})}, id="an object of headers"),
        pytest.param({"ws_topic_header": "<a>"}, id="an open topic header"),
        pytest.param({"ws_topic": "{urn:a b}storms"}, id="a topic whose namespace is not a URI"),
        pytest.param(producer(address=5), id="an address that is a number"),
        pytest.param(producer(address="\ud800"), id="an address that is half a pair"),
        pytest.param(producer(wsa=[W3C]), id="a list of versions"),
        pytest.param(producer(parameters=["&"]), id="a parameter that is no element"),
        pytest.param(producer(metadata=["</a>"]), id="metadata that is no element"),
    ],
)
def test_what_could_not_be_delivered_is_left_aside(properties: dict[str, str]) -> None:
    notification, forced = notification_of(
        b"<a/>", properties, None, id="i", source="urn:s", time=NOW, topic=None
    )
    assert forced
    assert (notification.id, notification.payload) == ("i", b"<a/>")
    assert not notification.properties and not notification.headers
    assert notification.producer is None and notification.action is None
    assert notification.topic is None


def test_what_can_be_delivered_is_kept() -> None:
    properties = {
        "ws_headers": json.dumps(['<p:a xmlns:p="urn:p">\u2603</p:a>']),
        "ws_properties": json.dumps({"a b": "\U0001f300"}),
        **producer(parameters=["<a/>"]),
    }
    notification, forced = notification_of(
        b"<a/>", properties, None, id="i", source="urn:s", time=NOW, topic=None
    )
    assert not forced
    assert len(notification.headers) == 1 and notification.producer is not None
    assert notification.properties == {"a b": "\U0001f300"}


@pytest.mark.parametrize(
    ("origin", "said", "topic"),
    [
        ("dragoman.adhoc.storms", "tides", "tides"),
        ("dragoman._tenant.acme.storms", f"{OF_ACME}/tides", f"{OF_ACME}/tides"),
        ("dragoman._tenant.acme._long.1f", f"{OF_ACME}/tides", f"{OF_ACME}/tides"),
        # Forged: its sender may publish there, and nowhere else.
        ("dragoman.adhoc.storms", f"{OF_ACME}/tides", "storms"),
        ("dragoman._tenant.acme.storms", "tides", f"{OF_ACME}/storms"),
        ("dragoman._tenant.acm.storms", f"{OF_ACME}/tides", "{urn:dragoman:tenant}acm/storms"),
        ("dragoman._tenant.acm._long.1f", f"{OF_ACME}/tides", "{urn:dragoman:tenant}acm"),
        ("elsewhere", f"{OF_ACME}/tides", None),
    ],
)
def test_the_tenant_is_that_of_the_destination(origin: str, said: str, topic: str | None) -> None:
    event = Notification("1", "urn:x", b"<a/>", datetime.now(UTC), parse_clark(said))
    found = in_tenant_of(event, Destinations(), Destination(origin)).topic
    assert found == (None if topic is None else parse_clark(topic))
