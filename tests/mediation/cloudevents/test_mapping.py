"""Notifications as CloudEvents, and back."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone, tzinfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from filters import Reason, Refused, Topic, parse_clark
from mediation.cloudevents import (
    CloudEvent,
    event_of,
    mapping,
    notification_of,
    read_attributes,
    read_message,
    write_event,
)
from mediation.cloudevents.mapping import ATTRIBUTES, GATEWAY, came_as, json_of, write_attributes
from mediation.cloudevents.projection import MOST_PARTS
from mediation.cloudevents.v1_0 import EventShape
from mediation.model.messages import EndpointReference, Notification
from mediation.model.versions import DataForm, EventForm, Wsa
from mediation.names import PUBLISHER
from mediation.packaging.data import NO_DATA, Data, described, unwrap, wrap
from mediation.packaging.records import decode, encode
from tests.rigs.cases import for_each

NOW = datetime(2026, 3, 1, 12, 0, 0, 5, UTC)
SENT: dict[str, str | int | bool] = {
    "specversion": "1.0",
    "id": "A234-1",
    "source": "/sensors/4",
    "type": "com.example.tide",
    "subject": "gauge 7",
    "time": "2026-03-01T11:00:00+01:00",
    "datacontenttype": "application/json",
    "comexamplen": 5,
    "flag": True,
    "traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
}
STORM = Notification(
    id="urn:uuid:1",
    source=f"{PUBLISHER}192.0.2.1",
    payload=b'<w:storm xmlns:w="urn:w"><w:speed>60</w:speed></w:storm>',
    time=NOW,
    topic=parse_clark("{urn:w}storms/coast"),
)


def taken(event: CloudEvent, topic: str | None = None) -> Notification:
    url = parse_clark(topic) if topic else None
    return notification_of(event, publisher=f"{PUBLISHER}192.0.2.1", time=NOW, topic=url)


def over_a_broker(notification: Notification) -> Notification:
    record = encode(notification)
    return decode(record.body, record.properties)


class TestFromCloudEvents:
    @pytest.mark.parametrize(
        ("media_type", "data"),
        [
            ("application/json", b'{"level":1.5}'),
            ("application/json", b'"\\ud800"'),
            ("application/json", b"{broken"),
            ("text/plain", "\u20ac & <\r\n>".encode()),
            ("image/png", b"\x89PNG\x00"),
            ("text/plain", b""),
        ],
    )
    def test_an_event_leaves_as_it_came(self, media_type: str, data: bytes) -> None:
        event = CloudEvent({**SENT, "datacontenttype": media_type}, data)
        for form in DataForm:
            assert event_of(over_a_broker(taken(event)), form) == event

    @given(
        st.dictionaries(
            st.from_regex("[a-z0-9]{1,20}", fullmatch=True).filter(lambda name: name != "data"),
            st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=20)
            | st.integers(-(2**31), 2**31 - 1)
            | st.booleans(),
            max_size=4,
        )
    )
    def test_what_is_remembered_of_an_event_is_what_is_read(
        self, more: dict[str, str | int | bool]
    ) -> None:
        event = CloudEvent({**more, **SENT, "topic": "storms"})
        properties = taken(event).properties
        remembered = came_as(properties)
        mapping._written_lately.clear()
        read = came_as(properties)
        assert remembered is not None and read is not None and read is not remembered
        assert list(remembered.items()) == list(read.items())
        assert list(map(type, remembered.values())) == list(map(type, read.values()))

    def test_of_so_many_events_is_remembered(self) -> None:
        for number in range(3 * mapping._REMEMBERED):
            taken(CloudEvent({**SENT, "id": str(number)}))
            assert len(mapping._written_lately) <= mapping._REMEMBERED
        mapping._written_lately.clear()
        taken(CloudEvent({**SENT, "subject": "x" * mapping._SHORT}))
        assert not mapping._written_lately

    def test_no_data(self) -> None:
        event = CloudEvent({name: SENT[name] for name in ("specversion", "id", "source", "type")})
        notification = taken(event)
        assert notification.payload == NO_DATA
        found = event_of(over_a_broker(notification))
        assert found.data is None
        assert found.attributes == {**event.attributes, "time": "2026-03-01T12:00:00.000005Z"}

    def test_xml_is_the_payload(self) -> None:
        event = CloudEvent({**SENT, "datacontenttype": "text/xml"}, STORM.payload)
        assert taken(event).payload == STORM.payload
        assert event_of(taken(event)) == event

    def test_xml_in_another_encoding(self) -> None:
        wide = '<?xml version="1.0" encoding="UTF-16"?><a>\u00e9</a>'.encode("utf-16")
        event = CloudEvent({**SENT, "datacontenttype": "application/xml; charset=utf-16"}, wide)
        assert taken(event).payload == "<a>\u00e9</a>".encode()
        assert event_of(taken(event)).media_type == "application/xml"

    @pytest.mark.parametrize(
        ("media_type", "data", "sent"),
        [
            ("text/xml; charset=utf-8", "<a>\u00e9</a>", "text/xml; charset=utf-8"),
            ('application/xml;charset="UTF-8"', "<a/>", 'application/xml;charset="UTF-8"'),
            ("text/xml; charset=US-ASCII", "<a>e</a>", "text/xml; charset=US-ASCII"),
            ("text/xml; charset=iso-8859-1", "<a/>", "application/xml"),
            ("image/svg+xml; a=b; charset=utf8", "<svg/>", "image/svg+xml; a=b; charset=utf8"),
        ],
    )
    def test_charsets_of_xml(self, media_type: str, data: str, sent: str) -> None:
        one = taken(CloudEvent({**SENT, "datacontenttype": media_type}, data.encode()))
        assert event_of(one).media_type == sent
        assert json.loads(write_attributes(one))["datacontenttype"] == sent
        told = json_of(one)
        if told is not None:
            assert told[1] == json.loads(told[0])["datacontenttype"] == sent

    @pytest.mark.parametrize("data", [b"<a>", b"no", b"<!DOCTYPE a><a/>"])
    def test_broken_xml_is_refused(self, data: bytes) -> None:
        with pytest.raises(Refused):
            taken(CloudEvent({**SENT, "datacontenttype": "application/xml"}, data))

    def test_what_the_notification_has(self) -> None:
        notification = taken(CloudEvent({**SENT, "topic": "{urn:w}storms/coast"}), "other")
        assert notification.id == "A234-1"
        assert notification.source == f"{PUBLISHER}192.0.2.1#/sensors/4"
        assert str(notification.topic) == "{urn:w}storms/coast"
        assert notification.action is None
        assert notification.properties["comexamplen"] == "5"
        assert notification.properties["flag"] == "true"
        assert encode(notification).properties["cloudEvents_type"] == "com.example.tide"

    def test_the_topic_of_the_url(self) -> None:
        notification = taken(CloudEvent(SENT), "storms")
        assert str(notification.topic) == "storms"
        assert event_of(notification).attributes == {**SENT, "topic": "storms"}

    def test_a_type_that_is_a_uri_is_the_action(self) -> None:
        event = CloudEvent({**SENT, "type": "http://example.org/tide"})
        assert taken(event).action == "http://example.org/tide"

    @pytest.mark.parametrize("topic", ["", "/a", "a//b", "{urn:x", "{not a uri}a", "a/ "])
    def test_what_is_no_topic(self, topic: str) -> None:
        with pytest.raises(Refused) as refused:
            taken(CloudEvent({**SENT, "topic": topic}))
        assert refused.value.reason is Reason.TOPIC_INVALID


class TestFromOthers:
    def test_the_table(self) -> None:
        event = event_of(STORM)
        assert event.data == STORM.payload
        assert event.attributes == {
            "specversion": "1.0",
            "id": "urn:uuid:1",
            "source": GATEWAY,
            "type": "urn:w/storm",
            "subject": "storms/coast",
            "time": "2026-03-01T12:00:00.000005Z",
            "topic": "{urn:w}storms/coast",
            "datacontenttype": "application/xml",
        }

    @pytest.mark.parametrize(
        "source", [STORM.source, "amqp://192.0.2.1:5672/", "stomp+tls://192.0.2.1:61613"]
    )
    def test_an_address_inside_is_told_to_nobody(self, source: str) -> None:
        assert "192.0.2.1" not in str(event_of(replace(STORM, source=source)))

    def test_sources(self) -> None:
        producer = EndpointReference("http://example.org/station 4", Wsa.V2005_08)
        named = event_of(replace(STORM, producer=producer))
        assert named.attributes["source"] == "http://example.org/station%204"
        native = event_of(replace(STORM, source="amqp:queue/tides"))
        assert native.attributes["source"] == "amqp:queue/tides"

    def test_the_action_is_the_type(self) -> None:
        event = event_of(replace(STORM, action="http://example.org/storm", topic=None))
        assert event.attributes["type"] == "http://example.org/storm"
        assert not {"subject", "topic"} & event.attributes.keys()

    def test_projected_data(self) -> None:
        event = event_of(STORM, DataForm.JSON)
        assert event.media_type == "application/json"
        assert json.loads(event.data or b"") == {"w:storm": {"@xmlns:w": "urn:w", "w:speed": "60"}}

    def test_what_is_too_much_for_json_stays_xml(self) -> None:
        many = replace(STORM, payload=b"<a>" + b"<b/>" * MOST_PARTS + b"</a>")
        event = event_of(many, DataForm.JSON)
        assert (event.media_type, event.data) == ("application/xml", many.payload)

    def test_json_of_a_broker_is_json_again(self) -> None:
        native = replace(STORM, payload=wrap(b'{"n": 1}', "application/json"))
        for form in DataForm:
            event = event_of(native, form)
            assert (event.data, event.media_type) == (b'{"n": 1}', "application/json")

    @pytest.mark.parametrize(
        "text", ["", "[]", "{}", '{"id":1}', "[" * 9999, '{"id":[],"source":"","type":""}']
    )
    def test_what_somebody_wrote_to_the_broker(self, text: str) -> None:
        forged = replace(STORM, properties={ATTRIBUTES: text})
        assert event_of(forged).attributes["id"] == "urn:uuid:1"


@for_each("form", EventForm)
@for_each(
    "notification",
    [
        replace(STORM, payload=wrap(b"x", "text/plain; \u20ac")),
        replace(STORM, payload=wrap(b"x", "a\r\nX: y")),
        replace(STORM, properties={ATTRIBUTES: json.dumps({**SENT, "a\r\nX": "y"})}),
        replace(STORM, properties={ATTRIBUTES: json.dumps({**SENT, "subject": "a\nb"})}),
        replace(STORM, id="\u20ac\n", source="\u20ac\n", action="\u20ac\n"),
        replace(STORM, topic=parse_clark("{urn:w}\u20ac")),
    ],
)
def test_whatever_came_from_a_broker_can_be_sent(
    notification: Notification, form: EventForm
) -> None:
    """What cannot be written would be tried for a day, in front of all else."""
    body = EventShape(form, DataForm.JSON).render(notification, "http://gateway.example.org/soap")
    for name, value in (*body.http_headers, *body.own_headers):
        assert (name + value).isascii()
        assert (name + value).isprintable()
    headers = [
        (name.lower().encode(), value.encode())
        for name, value in (*body.http_headers, *body.own_headers)
    ]
    assert len(read_message(headers, body.octets)) == 1


@given(st.binary(), st.text(st.characters(codec="utf-8"), max_size=20))
def test_data_comes_back(content: bytes, media_type: str) -> None:
    data = unwrap(wrap(content, media_type or None))
    assert data is not None
    assert data.content == content


@pytest.mark.parametrize(
    "payload",
    [b"<data/>", b'<data xmlns="urn:x"/>', b'<data xmlns="urn:dragoman:data:1"><a/></data>',
     b'<data xmlns="urn:dragoman:data:1" content-type="a/b" encoding="base64">*</data>'],
)  # fmt: skip
def test_what_is_no_wrapped_data(payload: bytes) -> None:
    assert unwrap(payload) is None


@given(st.binary(), st.sampled_from(["application/json", 'a/b;c="d"', "a&b", "\n", ""]))
def test_the_type_of_data_is_read_without_it(content: bytes, media_type: str) -> None:
    payload = wrap(content, media_type)
    whole = unwrap(payload)
    assert whole is not None
    assert described(payload) == Data(whole.media_type, b"")


@pytest.mark.parametrize(
    "payload",
    [
        NO_DATA,
        b"<data/>",
        b"<a/>",
        wrap(b"x", "a/b").replace(b">x<", b"><x/><"),
        wrap(b"x", "a/b").replace(b">x<", b"><!-- --><"),
    ],
)
def test_other_payloads_are_described_as_they_are_read(payload: bytes) -> None:
    assert described(payload) == unwrap(payload)


@given(
    st.timedeltas(timedelta(days=-700_000), timedelta(days=2_900_000)),
    st.sampled_from([UTC, timezone(timedelta(hours=-5, minutes=-30))]),
)
def test_times_are_written_in_full(since: timedelta, zone: tzinfo) -> None:
    time = (NOW + since).astimezone(zone)
    event = event_of(Notification("1", "p", b"<a/>", time))
    expected = time.astimezone(UTC).isoformat(timespec="microseconds")
    assert event.attributes["time"] == expected.replace("+00:00", "Z")


@given(
    more=st.dictionaries(
        st.sampled_from(["time", "subject", "expirytime", "topic", "ext", "flag"]),
        st.sampled_from(["2026-03-01T11:00:00Z", 'a"\\', "\u20ac"]) | st.booleans(),
        max_size=3,
    ),
    media_type=st.none() | st.sampled_from(["text/xml", "text/xml;charset=utf-8", "text/plain"]),
    data=st.none() | st.sampled_from([b"<a/>", b'<data a="\\">\xc3\xa4</data>', b"<\xff"]),
    topic=st.none() | st.sampled_from(["a/b", '{urn:w"\\}c']),
    expires=st.none() | st.just(NOW),
)
def test_what_came_is_written_again_as_any_event(
    more: dict[str, str | bool],
    media_type: str | None,
    data: bytes | None,
    topic: str | None,
    expires: datetime | None,
) -> None:
    attributes = {name: SENT[name] for name in ("specversion", "id", "source", "type")} | more
    if media_type is not None:
        attributes["datacontenttype"] = media_type
    try:
        event = CloudEvent(read_attributes(attributes.items()), data)
        notification = replace(taken(event, topic), expires=expires)
    except Refused:
        return
    for known in (True, False):
        if not known:
            mapping._written_lately.clear()
        expected = write_event(event_of(notification))
        for form in (EventForm.STRUCTURED, EventForm.BATCHED):
            written = EventShape(form, DataForm.AS_PUBLISHED).render(notification, "").octets
            assert written == (expected if form is EventForm.STRUCTURED else b"[%b]" % expected)


@given(
    id=st.sampled_from(["", "1", 'a"\\', "\x00"]),
    source=st.sampled_from(["", "a b", f"{PUBLISHER}192.0.2.1", 'urn:"', "x" * 3000]),
    action=st.none() | st.sampled_from(["urn:a", '"', "\x00", "x" * 3000]),
    name=st.none() | st.sampled_from(["a/b", '{urn:w"\\}c']).map(parse_clark),
    payload=st.sampled_from(
        [b"<a/>", b'<b a="\\">\xc3\xa4</b>', b"<data/>", b"<a>\xff</a>", NO_DATA]
    ),
    producer=st.none() | st.just(EndpointReference("http://example.org/\u20ac", Wsa.V2005_08)),
    expires=st.none() | st.just(NOW),
)
def test_what_came_otherwise_is_written_as_any_event(
    id: str,
    source: str,
    action: str | None,
    name: Topic | None,
    payload: bytes,
    producer: EndpointReference | None,
    expires: datetime | None,
) -> None:
    notification = Notification(id, source, payload, NOW, name, action, producer, expires)
    for data in DataForm:
        if data is DataForm.JSON and b"\xff" in payload:
            continue
        written = EventShape(EventForm.STRUCTURED, data).render(notification, "").octets
        assert written == write_event(event_of(notification, data))


BARE: dict[str, str | int | bool] = {
    "specversion": "1.0", "id": "1", "source": "/s", "type": "t", "time": "2026-03-01T12:00:00Z"
}  # fmt: skip


class TestWithoutContentType:
    """Data of which no media type is said (JSON Event Format, section 3.1.1)."""

    @pytest.mark.parametrize(
        ("data", "payload", "member"),
        [
            (b"hello world", b'content-type="application/octet-stream">hello', '"data_base64"'),
            (b"<m/>", b"<m/>", '"data_base64"'),
            (b"\xef\xbb\xbf<m/>", b"<m/>", '"data_base64"'),
            (b"<m/><n/>", b'content-type="application/octet-stream"', '"data_base64"'),
            (b"<m", b'content-type="application/octet-stream"', '"data_base64"'),
            (b'{"a":1}', b'content-type="application/json"', '"data":{"a":1}'),
            (b" [1]", b'content-type="application/json"', '"data": [1]'),
            (b'"text"', b'content-type="application/octet-stream"', '"data_base64"'),
            (b"17", b'content-type="application/octet-stream"', '"data_base64"'),
            (b"{broken", b'content-type="application/octet-stream"', '"data_base64"'),
            (b"\xff", b'encoding="base64"', '"data_base64"'),
        ],
    )
    def test_it_is_what_it_is_and_none_is_said(
        self, data: bytes, payload: bytes, member: str
    ) -> None:
        headers = [(f"ce-{name}".encode(), str(value).encode()) for name, value in BARE.items()]
        (event,) = read_message(headers, data)
        notification = over_a_broker(taken(event))
        assert payload in notification.payload
        written = write_event(event_of(notification)).decode()
        assert "datacontenttype" not in written and member in written
        assert "datacontenttype" not in json.loads(write_attributes(notification))
        body = EventShape(EventForm.BINARY, DataForm.AS_PUBLISHED).render(notification, "http://p")
        assert "Content-Type" not in dict(body.http_headers)
        assert body.octets.removeprefix(b"\xef\xbb\xbf") in data

    def test_data_of_json_is_json(self) -> None:
        (event,) = read_message(
            [(b"content-type", b"application/cloudevents+json")],
            json.dumps({**BARE, "data": "text"}).encode(),
        )
        assert event.media_type == "application/json"


class TestExpiry:
    @pytest.mark.parametrize(
        ("said", "expires"),
        [
            ("2020-01-01T00:00:00Z", datetime(2020, 1, 1, tzinfo=UTC)),
            ("2020-01-01t01:00:00+01:00", datetime(2020, 1, 1, tzinfo=UTC)),
            ("2016-12-31T23:59:60Z", datetime(2016, 12, 31, 23, 59, 59, tzinfo=UTC)),
            ("0001-01-01T00:00:00+23:00", datetime(1, 1, 1, tzinfo=UTC)),
            ("9999-12-31T23:59:59-23:00", datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)),
        ],
    )
    def test_an_event_says_when_its_life_is_over(self, said: str, expires: datetime) -> None:
        notification = over_a_broker(taken(CloudEvent({**BARE, "expirytime": said})))
        assert notification.expires == expires
        assert event_of(notification).attributes["expirytime"] == said

    @pytest.mark.parametrize("said", ["tomorrow", "", "2020-01-01", 5, True])
    def test_what_is_no_time_is_refused(self, said: str | int | bool) -> None:
        with pytest.raises(Refused, match="expirytime"):
            taken(CloudEvent({**BARE, "expirytime": said}))
