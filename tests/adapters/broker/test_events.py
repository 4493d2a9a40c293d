"""CloudEvents that programs send to a broker: they leave as they came."""

import json
from datetime import UTC, datetime

import pytest

from adapters.broker.native import notification_of
from filters import parse_clark
from mediation.cloudevents import event_of
from mediation.packaging.records import decode, encode

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SENT = {
    "specversion": "1.0",
    "id": "A234-1",
    "source": "/sensors/4",
    "type": "com.example.tide",
    "subject": "gauge 7 \u20ac",
    "time": "2026-03-01T11:00:00+01:00",
    "n": "5",
}


@pytest.mark.parametrize("prefix", ["cloudEvents:", "cloudEvents_"])
def test_binary(prefix: str) -> None:
    properties = {f"{prefix}{name}": value for name, value in SENT.items()}
    notification, forced = notification_of(
        b'{"level":1}',
        {**properties, "dragoman_hops": "2", "ws_topic": "{urn:w}tides"},
        "application/json",
        id="i",
        source="amqp:q",
        time=NOW,
        topic=parse_clark("other"),
    )
    assert not forced
    assert (notification.id, notification.source) == ("A234-1", "/sensors/4")
    assert notification.properties["dragoman_hops"] == "2"
    assert not any(name.startswith(prefix) for name in notification.properties)
    event = event_of(notification)
    assert event.attributes == {
        **SENT, "datacontenttype": "application/json", "topic": "{urn:w}tides"
    }  # fmt: skip
    assert event.data == b'{"level":1}'
    record = encode(notification)
    assert event_of(decode(record.body, record.properties)) == event


def test_structured() -> None:
    body = json.dumps({**SENT, "n": 5, "data": {"level": 1}}).encode()
    media_type = "application/cloudevents+json; charset=utf-8"
    notification, forced = notification_of(
        body, {}, media_type, id="i", source="amqp:q", time=NOW, topic=parse_clark("tides")
    )
    assert not forced
    event = event_of(notification)
    assert event.attributes == {
        **SENT, "n": 5, "datacontenttype": "application/json", "topic": "tides"
    }  # fmt: skip
    assert event.data == b'{"level": 1}'


@pytest.mark.parametrize(
    ("body", "properties", "media_type"),
    [
        (b"{}", {}, "application/cloudevents+json"),
        (b"x", {"cloudEvents_specversion": "1.0"}, "text/plain"),
        (b"x", {f"cloudEvents_{name}": value for name, value in SENT.items()} | {"cloudEvents_A": "x"}, None),
        (b"<a>", {f"cloudEvents:{name}": value for name, value in SENT.items()}, "application/xml"),
    ],
)  # fmt: skip
def test_what_is_no_event_arrives_all_the_same(
    body: bytes, properties: dict[str, str], media_type: str | None
) -> None:
    notification, forced = notification_of(
        body, properties, media_type, id="i", source="amqp:q", time=NOW, topic=None
    )
    assert forced
    assert event_of(notification).data == body


def test_what_dragoman_writes_is_no_such_event() -> None:
    """It would lose its action, which is no type that a program gave it."""
    properties = {
        "cloudEvents_id": "A234-1", "cloudEvents_source": "s", "cloudEvents_type": "urn:a",
        "ws_action": "urn:a",
    }  # fmt: skip
    notification, _ = notification_of(
        b"<a/>", properties, None, id="i", source="amqp:q", time=NOW, topic=None
    )
    assert (notification.id, notification.action, dict(notification.properties)) == (
        "A234-1", "urn:a", {}
    )  # fmt: skip
