"""A notification as a message of a messaging system, and back."""

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from filters import Reason, Step, Topic
from mediation.model.errors import MediationError
from mediation.model.messages import Attachment, EndpointReference, Notification
from mediation.model.versions import Wsa
from mediation.packaging.records import MAX_REFERENCES, Record, check_references, decode, encode
from tests.rigs.cases import for_each

PLAIN = Notification(
    id="urn:uuid:1",
    source="http://weather.example/station",
    payload=b"<storm>9</storm>",
    time=datetime(2026, 3, 1, 12, tzinfo=UTC),
    topic=Topic((Step("urn:weather", "storm"), Step(None, "sea"))),
)

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
names = st.from_regex(r"[A-Za-z_][A-Za-z0-9_.-]{0,10}", fullmatch=True)
uris = st.from_regex(r"urn:[a-z]{1,8}(:[a-z0-9/]{1,8})?", fullmatch=True)
times = st.datetimes(
    min_value=datetime(1980, 1, 1),  # noqa: DTZ001 - Hypothesis adds the zone
    max_value=datetime(2100, 1, 1),  # noqa: DTZ001
    timezones=st.sampled_from([UTC, timezone(timedelta(hours=5, minutes=30))]),
)
elements = text.map(lambda value: f"<a>{value}</a>".encode())
topics = st.lists(st.builds(Step, st.none() | uris, names), min_size=1, max_size=4).map(
    lambda steps: Topic(tuple(steps))
)
references = st.builds(
    EndpointReference,
    address=uris,
    wsa=st.sampled_from(Wsa),
    properties=st.lists(elements, max_size=2).map(tuple),
    parameters=st.lists(elements, max_size=2).map(tuple),
    metadata=st.lists(elements, max_size=1).map(tuple),
)
plain_text = text.map(lambda value: re.sub(r"[\x00-\x1f\x7f]", "", value))
attachments = st.builds(Attachment, plain_text, plain_text, st.binary(max_size=60))
property_names = (
    names | text | st.sampled_from(["ws_topic", "cloudEvents_id", "content-type", "like"])
)
notifications = st.builds(
    Notification,
    id=text,
    source=text,
    payload=elements,
    time=times,
    topic=st.none() | topics,
    action=st.none() | text,
    producer=st.none() | references,
    expires=st.none() | times,
    properties=st.dictionaries(property_names, text, max_size=4),
    headers=st.lists(elements, max_size=3).map(tuple),
    attachments=st.lists(attachments, max_size=3).map(tuple),
)


@given(notifications)
def test_decode_is_the_inverse_of_encode(notification: Notification) -> None:
    record = encode(notification)
    read = decode(record.body, record.properties)
    assert read == notification
    assert read.time.tzinfo is UTC


@given(notifications)
def test_property_names_are_jms_identifiers(notification: Notification) -> None:
    properties = encode(notification).properties
    identifier = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*\Z")
    assert all(identifier.match(name) or name == "content-type" for name in properties)
    assert ("content-type" in properties) == bool(notification.attachments)


def test_a_plain_notification_is_its_payload() -> None:
    assert encode(PLAIN) == Record(
        b"<storm>9</storm>",
        {
            "cloudEvents_id": "urn:uuid:1",
            "cloudEvents_source": "http://weather.example/station",
            "cloudEvents_type": "{urn:weather}storm/sea",
            "cloudEvents_time": "2026-03-01T12:00:00.000000Z",
            "cloudEvents_subject": "storm/sea",
            "ws_topic": "{urn:weather}storm/sea",
        },
    )


def test_properties_keep_their_names_where_the_system_allows() -> None:
    own = {"severity": "9", "ws_topic": "mine", "receipt": "r", "wind speed": "30"}
    record = encode(replace(PLAIN, properties=own), reserved={"receipt"})
    assert record.properties["severity"] == "9"
    assert record.properties["ws_topic"] == "{urn:weather}storm/sea"
    assert "receipt" not in record.properties
    assert decode(record.body, record.properties).properties == own


def test_with_attachments_the_payload_is_the_root() -> None:
    image = Attachment("radar@weather.example", "image/png", b"\x89PNG\r\n--\r\n")
    record = encode(replace(PLAIN, attachments=(image,)))
    assert record.properties["content-type"].startswith(
        'multipart/related; type="application/xml"; boundary="'
    )
    head, payload, *_ = re.split(rb"\r\n\r\n|\r\n--", record.body)
    assert head.endswith(b"Content-Type: application/xml")
    assert payload == PLAIN.payload


def test_a_boundary_inside_a_part_is_avoided() -> None:
    image = Attachment("a", "image/png", b"")
    body = encode(replace(PLAIN, attachments=(image,))).body
    boundary = body.split(b"\r\n")[0]
    nested = replace(PLAIN, attachments=(replace(image, content=body + boundary),))
    record = encode(nested)
    assert decode(record.body, record.properties) == nested


@pytest.mark.parametrize(
    ("headers", "accepted"),
    [
        pytest.param((b"<h>" + b"x" * (MAX_REFERENCES - 11) + b"</h>",), True, id="at the limit"),
        pytest.param((b"<h>" + b"x" * (MAX_REFERENCES - 10) + b"</h>",), False, id="beyond it"),
    ],
)
def test_references_are_bounded(headers: tuple[bytes, ...], accepted: bool) -> None:
    notification = replace(PLAIN, headers=headers)
    if accepted:
        assert decode(b"<a/>", encode(notification).properties).headers == headers
    else:
        with pytest.raises(MediationError) as caught:
            encode(notification)
        assert caught.value.reason is Reason.MESSAGE_INVALID


long = st.builds(
    lambda character, count: character * count,
    st.sampled_from(["x", '"', "\\", "\x01", "é", "\U0001f600"]),
    st.integers(0, MAX_REFERENCES + 8) | st.just(MAX_REFERENCES // 6),
)


@given(st.lists(long, max_size=3), st.none() | st.tuples(long, long))
def test_references_are_refused_at_the_door_as_when_written(
    headers: list[str], producer: tuple[str, str] | None
) -> None:
    notification = replace(PLAIN, headers=tuple(header.encode() for header in headers))
    if producer is not None:
        address, parameter = producer
        epr = EndpointReference(address, Wsa.V2005_08, parameters=(parameter.encode(),))
        notification = replace(notification, producer=epr)
    try:
        encode(notification)
    except MediationError as error:
        with pytest.raises(MediationError) as caught:
            check_references(notification)
        assert (caught.value.reason, caught.value.text) == (error.reason, error.text)
    else:
        check_references(notification)


def test_the_caller_stands_in_for_what_is_missing() -> None:
    topic = Topic((Step(None, "orders"),))
    native = decode(
        b"<order/>", {"priority": "4"}, id="ID:7", source="jms:orders", time=PLAIN.time, topic=topic
    )
    assert native == Notification(
        id="ID:7",
        source="jms:orders",
        payload=b"<order/>",
        time=PLAIN.time,
        topic=topic,
        properties={"priority": "4"},
    )


GOOD = encode(PLAIN).properties
MULTIPART = {**GOOD, "content-type": "multipart/related; boundary=b"}


@for_each(
    ("body", "properties"),
    [
        pytest.param(b"<a/>", {}, id="no id"),
        pytest.param(b"<a/>", {**GOOD, "cloudEvents_time": "noon"}, id="time"),
        pytest.param(
            b"<a/>", {**GOOD, "cloudEvents_time": "9999-12-31T23:59:59-23:00"}, id="time beyond"
        ),
        pytest.param(b"<a/>", {**GOOD, "ws_topic": "{urn:a"}, id="topic"),
        pytest.param(b"<a/>", {**GOOD, "ws_producer": "http://a.example/"}, id="producer no JSON"),
        pytest.param(b"<a/>", {**GOOD, "ws_producer": '{"address":"a"}'}, id="producer no version"),
        pytest.param(b"<a/>", {**GOOD, "ws_producer": "[" * 6000}, id="producer deep"),
        pytest.param(b"<a/>", {**GOOD, "ws_headers": "{"}, id="headers"),
        pytest.param(b"<a/>", {**GOOD, "ws_headers": "[1]"}, id="headers no text"),
        pytest.param(b"<a/>", {**GOOD, "ws_properties": "[]"}, id="properties"),
        pytest.param(b"--b", {**GOOD, "content-type": "multipart/related"}, id="no boundary"),
        pytest.param(b"<a/>", MULTIPART, id="no parts"),
        pytest.param(b"--b--", MULTIPART, id="only an end"),
        pytest.param(b"--b\r\n\r\n<a/>", MULTIPART, id="no end"),
        pytest.param(b"--b\r\n<a/>\r\n--b--", MULTIPART, id="no blank line"),
        pytest.param(b"--b\r\n\r\n<a/>\r\n" * 66 + b"--b--", MULTIPART, id="66 parts"),
        pytest.param(
            b"--b\r\nContent-Transfer-Encoding: base64\r\n\r\nPGEvPg==\r\n--b--",
            MULTIPART,
            id="base64",
        ),
    ],
)
def test_what_cannot_be_read_is_refused(body: bytes, properties: dict[str, str]) -> None:
    with pytest.raises(MediationError) as caught:
        decode(body, properties)
    assert caught.value.reason is Reason.MESSAGE_INVALID


def test_an_attachment_cannot_add_a_header() -> None:
    with pytest.raises(MediationError):
        encode(replace(PLAIN, attachments=(Attachment("a\r\nX: y", "image/png", b""),)))


def test_a_time_without_zone_is_a_mistake_of_ours() -> None:
    with pytest.raises(ValueError, match="no time zone"):
        encode(replace(PLAIN, time=datetime(2026, 3, 1)))  # noqa: DTZ001 - that is the case
