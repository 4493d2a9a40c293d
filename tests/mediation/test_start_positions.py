"""The position from which on a subscriber wants what was published, and the key of its order."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from filters import Reason, Step, Topic
from filters.archive_positions import Position
from mediation.client import SPECS, write_subscribe
from mediation.model.messages import EndpointReference, Notification
from mediation.model.requests import Subscribe
from mediation.model.versions import Version, Wsa
from mediation.names import DRAGOMAN_POLICY
from mediation.order_keys import key_of, write_order_key
from mediation.start_positions import write_since
from tests.rigs.cases import for_each
from tests.rigs.mediation import incoming, refused

HERE = EndpointReference("http://sink.example.com/x", Wsa.V2005_08)
SINCE = Position(datetime(2026, 3, 1, 12, tzinfo=UTC), "urn:a&b")
VERSIONS = tuple(
    version for version in SPECS if version not in (Version.CLOUDEVENTS, Version.GRID_EVENTS)
)
WSP = "http://schemas.xmlsoap.org/ws/2004/09/policy"


def written(version: Version, since: str | None = None, order_key: str | None = None) -> bytes:
    spec = replace(SPECS[version], wsa=Wsa.V2005_08)
    topic = "a" if version in (Version.WSN_1_0, Version.WSN_1_2) else None
    _, octets = write_subscribe(
        spec, to="http://g.example/soap", consumer=HERE, message_id="urn:m:1", topic=topic,
        since=since, order_key=order_key,
    )  # fmt: skip
    return octets


@pytest.mark.parametrize("version", VERSIONS)
def test_what_we_write_is_read(version: Version) -> None:
    for since in (SINCE, None):
        request = incoming(written(version, None if since is None else str(since))).request
        assert isinstance(request, Subscribe) and request.since == since


@pytest.mark.parametrize("end", ["</wse:Delivery>", "</wse:Subscribe>"])
def test_within_a_policy(end: str) -> None:
    policy = f'<p:Policy xmlns:p="{WSP}"><p:All>{write_since(str(SINCE))}</p:All></p:Policy>'
    octets = written(Version.WSE_2004_08).decode().replace(end, policy + end)
    request = incoming(octets.encode()).request
    assert isinstance(request, Subscribe) and request.since == SINCE


@for_each("version", VERSIONS)
@for_each("since", ["", "noon", "2026-03-01T12:00:00", "9" * 5000])
def test_what_is_no_position(version: Version, since: str) -> None:
    assert refused(written(version, since)).refused.reason is Reason.POLICY_UNSUPPORTED


@pytest.mark.parametrize("version", VERSIONS)
def test_keys(version: Version) -> None:
    for order_key in ("topic", "property:device", None):
        request = incoming(written(version, order_key=order_key)).request
        assert isinstance(request, Subscribe) and request.order_key == (order_key or "")
    for wrong in ("", "device", "property:", "property: a", "topic ", "property:" + "x" * 300):
        if wrong != wrong.strip():
            continue  # Blanks around it are not of it.
        found = refused(written(version, order_key=wrong)).refused
        assert found.reason is Reason.POLICY_UNSUPPORTED, wrong


def test_no_key_where_all_are_in_order() -> None:
    octets = written(Version.WSE_2004_08).decode()
    key = write_order_key("topic")
    for other in (
        f'<p:Assurance xmlns:p="{DRAGOMAN_POLICY}">at-most-once</p:Assurance>',
        f'<p:Assurance xmlns:p="{DRAGOMAN_POLICY}">exactly-once</p:Assurance>',
        key,
    ):
        both = octets.replace("</wse:Delivery>", f"{other}{key}</wse:Delivery>")
        assert refused(both.encode()).refused.reason is Reason.POLICY_UNSUPPORTED


def test_keys_of_messages() -> None:
    message = Notification(
        "urn:1", "urn:me", b"<a/>", SINCE.time, properties={"device": "d1", "long": "x" * 100}
    )
    assert key_of("topic", message) == key_of("property:none", message) == ""
    assert key_of("property:device", message) == "d1"
    assert key_of("property:long", message).startswith("#")
    assert len(key_of("property:long", message)) == 64
    for odd in ("\ud800", "a\0b"):  # No database takes these.
        assert key_of("property:odd", replace(message, properties={"odd": odd})).startswith("#")
    on = replace(message, topic=Topic((Step(None, "a"), Step(None, "b"))))
    assert key_of("topic", on) == "a/b"
