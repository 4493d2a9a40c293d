"""WS-Messenger: publications that are answered, and its topic header, which passes as it is."""

import itertools

import pytest
from lxml import etree

from filters import Topic
from filters.topics import Step
from mediation.detect import read
from mediation.eventing.v2004_08 import manager_reference
from mediation.model.messages import EndpointReference, Notification, Policy
from mediation.model.requests import Arrival, Publish, Published, Subscribe
from mediation.model.versions import Soap, Version, Wsa
from mediation.names import WSE_NOTIFICATION, WSN_IBM
from mediation.packaging.records import decode, encode
from mediation.rendering import prepare, render
from mediation.responses import write_response
from tests.rigs.cases import for_each
from tests.rigs.mediation import (
    ARRIVAL,
    IBM_SIMPLE,
    NOW,
    WSE,
    WSNT,
    body,
    canonical,
    envelope,
    headers,
    incoming,
    subscription,
    text,
)
from tests.rigs.schemas import Validator

S11 = Soap.V1_1
TOPIC = (
    f'<n:Topic xmlns:n="{WSN_IBM}" xmlns:widget="http://widgets.com" Dialect="{IBM_SIMPLE}">'
    "widget:stormTopic</n:Topic>"
)
ACTION = f"<wsa:Action>{WSE_NOTIFICATION}</wsa:Action><wsa:MessageID>urn:uuid:m</wsa:MessageID>"
EVENT = "<c><b>1</b></c>"


def answered(octets: bytes) -> tuple[str, bytes]:
    context = incoming(octets).context
    assert context.version is Version.MESSENGER
    return write_response(Published("urn:<1>"), context, message_id="urn:r")


@pytest.mark.parametrize("soap", Soap)
@pytest.mark.parametrize(
    ("event", "name"),
    [
        (EVENT, "cResponse"),
        ('<x:Storm xmlns:x="urn:x"/>', "StormResponse"),
        ('<x:Subscribe xmlns:x="urn:x"/>', "eventResponse"),
    ],
)
def test_a_publication_is_answered(event: str, name: str, soap: Soap, validator: Validator) -> None:
    """Its client takes an empty answer for a failure; a name that WS-Eventing gives a type to is
    not used."""
    action, octets = answered(envelope(event, ACTION + TOPIC, soap=soap))
    assert action == f"{WSE}/{name}" == text(octets, "//wsa:Action")
    assert text(octets, "//wsa:RelatesTo") == "urn:uuid:m"
    [response] = body(octets)
    assert response.tag == f"{{{WSE}}}{name}"
    assert response.items() == [("trackId", "urn:<1>")]
    validator.check(octets)


def test_a_publication_without_addressing_is_known_by_its_http_action() -> None:
    octets = f'<s:Envelope xmlns:s="{S11.value}"><s:Body>{EVENT}</s:Body></s:Envelope>'.encode()
    arrival = Arrival("p", NOW, "urn:fresh", http_action=WSE_NOTIFICATION)
    assert read(octets, arrival).context.version is Version.MESSENGER
    assert read(octets, ARRIVAL).context.version is None


def test_no_other_publication_is_answered() -> None:
    other = "<wsa:Action>urn:other</wsa:Action>"
    for octets in (
        envelope(EVENT, other),
        envelope(EVENT),
        envelope(EVENT, TOPIC),
        envelope(
            f"<wsnt:Notify><wsnt:NotificationMessage><wsnt:Message>{EVENT}</wsnt:Message>"
            "</wsnt:NotificationMessage></wsnt:Notify>"
        ),
    ):
        asked = incoming(octets)
        assert isinstance(asked.request, Publish)
        assert asked.context.version is not Version.MESSENGER


def messenger_subscription(dialect: str | None = IBM_SIMPLE, soap: Soap = S11) -> bytes:
    """What is delivered is rendered for it."""
    event = incoming(
        envelope(EVENT, ACTION + TOPIC.replace("<n:Topic", '<n:Topic s:mustUnderstand="0"'))
    ).request
    assert isinstance(event, Publish)
    [notification] = event.notifications
    record = encode(notification)
    kept = decode(record.body, record.properties)
    assert kept == notification
    return delivered(kept, dialect, soap)


def delivered(notification: Notification, dialect: str | None, soap: Soap = S11) -> bytes:
    subscriber = subscription(
        Version.WSE_2004_08, soap=soap, policy=Policy(raw=True, dialect=dialect)
    )
    recipient = prepare(subscriber)
    return render(notification, recipient.shape, "http://g").fill(recipient, "urn:m")


def topics(octets: bytes) -> list[etree._Element]:
    return [block for block in headers(octets) if etree.QName(block).localname == "Topic"]


@pytest.mark.parametrize("soap", Soap)
def test_the_topic_header_passes_as_it_was_written(validator: Validator, soap: Soap) -> None:
    octets = messenger_subscription(soap=soap)
    [header] = topics(octets)
    assert canonical(header) == canonical(TOPIC.encode())
    assert header.nsmap["widget"] == "http://widgets.com"
    validator.check(octets)


@pytest.mark.parametrize("soap", Soap)
def test_others_get_theirs(soap: Soap) -> None:
    [header] = topics(messenger_subscription(None, soap))
    assert header.tag == f"{{{WSNT}}}Topic" and header.text == "stormTopic"


@pytest.mark.parametrize(
    ("topic", "said", "namespace"),
    [
        (None, "ns2:wseTopic", "http://tutorial.globus.org/auction"),
        (
            Topic((Step(None, "a"), Step(None, "b"))),
            "ns2:a/b",
            "http://tutorial.globus.org/auction",
        ),
        (Topic((Step("urn:t", "a"), Step(None, "b"))), "t0:a/b", "urn:t"),
    ],
)
def test_a_topic_of_others_is_written_as_its_broker_does(
    topic: Topic | None, said: str, namespace: str
) -> None:
    octets = delivered(Notification("urn:1", "p", b"<a/>", NOW, topic=topic), IBM_SIMPLE)
    [header] = topics(octets)
    assert (header.tag, header.text) == (f"{{{WSN_IBM}}}Topic", said)
    assert header.nsmap[said.partition(":")[0]] == namespace
    assert header.get("Dialect") == IBM_SIMPLE


def asked(expires: str, soap: Soap, wsa: Wsa = Wsa.V2005_08) -> Subscribe:
    request = incoming(
        envelope(
            "<wse:Subscribe><wse:Delivery><wse:NotifyTo><wsa:Address>http://c</wsa:Address>"
            f"</wse:NotifyTo></wse:Delivery>{expires}</wse:Subscribe>",
            soap=soap,
            wsa=wsa,
        )
    ).request
    assert isinstance(request, Subscribe)
    return request


@pytest.mark.parametrize(
    ("expires", "soap", "known"),
    [
        ("<wse:Expires>259200000</wse:Expires>", S11, True),
        ("<wse:Expires>-1</wse:Expires>", S11, True),
        ("<wse:Expires>259200000</wse:Expires>", Soap.V1_2, False),
        ("<wse:Expires>PT1H</wse:Expires>", S11, False),
        ("<wse:Expires>2030-01-01T00:00:00Z</wse:Expires>", S11, False),
        ("", S11, False),
    ],
)
def test_its_clients_are_known_by_their_milliseconds(expires: str, soap: Soap, known: bool) -> None:
    assert (asked(expires, soap).dialect == IBM_SIMPLE) is known


@for_each(("soap", "wsa", "dialect"), list(itertools.product(Soap, Wsa, (None, IBM_SIMPLE))))
def test_its_clients_are_told_the_identifier_that_they_look_for(
    soap: Soap, wsa: Wsa, dialect: str | None
) -> None:
    reference = manager_reference(
        subscription(
            Version.WSE_2004_08,
            soap=soap,
            consumer=EndpointReference("http://c", wsa),
            policy=Policy(raw=True, dialect=dialect),
        )
    )
    [parameter] = reference.parameters
    theirs = wsa is not Wsa.V2005_08 or dialect == IBM_SIMPLE
    assert (etree.fromstring(parameter).tag == f"{{{WSE}}}Identifier") is theirs
