"""RegisterPublisher and DestroyRegistration, as publishers write them and as they are answered."""

from datetime import UTC, datetime

import pytest
from lxml import etree

from filters import Expression, Reason, dialects
from mediation.detect import read
from mediation.faults import fault_of
from mediation.model.expiry import NEVER, Expiry
from mediation.model.messages import EndpointReference
from mediation.model.requests import (
    DestroyRegistration,
    Done,
    Operation,
    PublisherRegistered,
    RegisterPublisher,
)
from mediation.model.versions import Version, Wsa
from mediation.names import (
    WSN_1_3,
    WSN_1_3_FAULT_ACTION,
    WSN_BR_1_3,
    WSN_BR_2004_06,
    WSN_BR_IBM,
    WSRF_RL,
)
from mediation.responses import write_response
from mediation.specifications import properties_in
from tests.rigs.envelopes import S11, S12, Speaker, children
from tests.rigs.mediation import ARRIVAL, refused

NOW = datetime(2026, 1, 31, 10, tzinfo=UTC)
PUBLISHER = "http://publisher.example.org/wsn"
ACTIONS = "http://docs.oasis-open.org/wsn/brw-2/"
REFERENCE = f"<b:PublisherReference>{Speaker().epr(PUBLISHER)}</b:PublisherReference>"


def body(inner: str, name: str = "RegisterPublisher") -> str:
    return f'<b:{name} xmlns:b="{WSN_BR_1_3}" xmlns:w="urn:weather">{inner}</b:{name}>'


def registered(inner: str) -> RegisterPublisher:
    request = read(Speaker().envelope(body(inner)), ARRIVAL).request
    assert isinstance(request, RegisterPublisher)
    return request


def topic(request: RegisterPublisher) -> tuple[str, str]:
    [one] = request.topics
    return one.text, one.dialect


def test_what_the_specification_shows() -> None:
    request = registered(
        f'{REFERENCE}<b:Topic Dialect="{dialects.TOPIC_SIMPLE}">w:storms</b:Topic>'
        "<b:Demand>true</b:Demand>"
        "<b:InitialTerminationTime>2026-02-01T00:00:00Z</b:InitialTerminationTime>"
    )
    assert request.publisher == EndpointReference(PUBLISHER, Wsa.V2005_08)
    assert topic(request) == ("w:storms", dialects.TOPIC_SIMPLE)
    assert ("w", "urn:weather") in request.topics[0].namespaces
    assert request.demand
    assert request.expires == Expiry(datetime(2026, 2, 1, tzinfo=UTC), as_duration=False)


PECULIAR = [
    pytest.param("", RegisterPublisher(), id="nothing at all"),
    pytest.param("<b:Demand>1</b:Demand>" + REFERENCE, None, id="children in another order"),
    pytest.param(
        '<r:RequestedLifetimeDuration xmlns:r="http://docs.oasis-open.org/wsrf/rl-2">'
        "2026-02-01T00:00:00Z</r:RequestedLifetimeDuration><s:Sensor xmlns:s='urn:sensor'/>",
        RegisterPublisher(expires=Expiry(datetime(2026, 2, 1, tzinfo=UTC), as_duration=False)),
        id="52 North's SES: a lifetime first, a sensor last",
    ),
    pytest.param("<b:Topic/>", RegisterPublisher(), id="a topic without a name"),
]


@pytest.mark.parametrize(("inner", "expected"), PECULIAR)
def test_what_publishers_really_send(inner: str, expected: RegisterPublisher | None) -> None:
    request = registered(inner)
    assert request == expected if expected is not None else request.demand


def test_a_dialect_in_lower_case_and_none_at_all() -> None:
    request = registered(f'<b:Topic dialect="{dialects.TOPIC_CONCRETE}">w:a/b</b:Topic>')
    assert topic(request) == ("w:a/b", dialects.TOPIC_CONCRETE)
    assert topic(registered("<b:Topic>orders</b:Topic>")) == ("orders", dialects.TOPIC_SIMPLE)


REFUSED = [
    pytest.param("<b:Demand>true</b:Demand>", Reason.MESSAGE_INVALID, id="demand of nobody"),
    pytest.param(
        REFERENCE + "<b:Demand>maybe</b:Demand>", Reason.MESSAGE_INVALID, id="a demand that is none"
    ),
    pytest.param(REFERENCE + "<b:Demand/>", Reason.MESSAGE_INVALID, id="an empty demand"),
    pytest.param("<b:Topic>a b</b:Topic>", Reason.TOPIC_INVALID, id="no topic"),
    pytest.param('<b:Topic Dialect="urn:x">a</b:Topic>', Reason.TOPIC_DIALECT, id="no dialect"),
    pytest.param("<b:PublisherReference/>", Reason.EPR_INVALID, id="no address"),
    pytest.param(
        "<b:InitialTerminationTime>soon</b:InitialTerminationTime>",
        Reason.EXPIRY_INVALID,
        id="no time",
    ),
    pytest.param("<b:Topic>a</b:Topic>" * 65, Reason.MESSAGE_INVALID, id="too many topics"),
]


@pytest.mark.parametrize(("inner", "reason"), REFUSED)
def test_what_is_refused(inner: str, reason: Reason) -> None:
    rejected = refused(Speaker().envelope(body(inner)))
    assert rejected.refused.reason is reason
    assert rejected.context.operation is Operation.REGISTER_PUBLISHER


FAULTS = [
    (Reason.MESSAGE_INVALID, "PublisherRegistrationFailedFault"),
    (Reason.EPR_INVALID, "PublisherRegistrationFailedFault"),
    (Reason.CONSUMER_ADDRESS, "PublisherRegistrationRejectedFault"),
    (Reason.QUOTA, "PublisherRegistrationRejectedFault"),
]


@pytest.mark.parametrize(("reason", "name"), FAULTS)
def test_its_own_faults(reason: Reason, name: str) -> None:
    fault = fault_of(reason, Operation.REGISTER_PUBLISHER, Version.WSN_1_3)
    assert (fault.element, fault.action) == (f"{{{WSN_BR_1_3}}}{name}", WSN_1_3_FAULT_ACTION)


@pytest.mark.parametrize(
    ("reason", "name"),
    [
        (Reason.TOPIC_INVALID, "InvalidTopicExpressionFault"),
        (Reason.TOPIC_DIALECT, "InvalidTopicExpressionFault"),
        (Reason.TOPIC_UNSUPPORTED, "TopicNotSupportedFault"),
        (Reason.EXPIRY_IN_THE_PAST, "UnacceptableInitialTerminationTimeFault"),
    ],
)
def test_faults_of_the_base(reason: Reason, name: str) -> None:
    fault = fault_of(reason, Operation.REGISTER_PUBLISHER, Version.WSN_1_3)
    assert fault.element == f"{{{WSN_1_3}}}{name}"


def test_a_registration_that_stays_has_a_fault() -> None:
    fault = fault_of(Reason.UNAVAILABLE, Operation.DESTROY_REGISTRATION, Version.WSN_1_3)
    assert fault.element == f"{{{WSN_BR_1_3}}}ResourceNotDestroyedFault"


@pytest.mark.parametrize("port_type", ["RegisterPublisher", "NotificationBroker"])
@pytest.mark.parametrize("soap", [S11, S12])
def test_the_answer_is_of_the_port_type_that_was_asked(port_type: str, soap: object) -> None:
    speaker = Speaker(S11 if soap is S11 else S12)
    octets = speaker.envelope(
        body(""), action=f"{ACTIONS}{port_type}/RegisterPublisherRequest", message_id="urn:m"
    )
    context = read(octets, ARRIVAL).context
    answer = PublisherRegistered("http://g.example.org/publishers/k", "http://g.example.org/soap")
    action, envelope = write_response(answer, context, message_id="urn:a")
    assert action == f"{ACTIONS}{port_type}/RegisterPublisherResponse"
    [response] = children(etree.fromstring(envelope).findall("{*}Body")[0])
    assert response.tag == f"{{{WSN_BR_1_3}}}RegisterPublisherResponse"
    names = [etree.QName(child).localname for child in children(response)]
    assert names == ["PublisherRegistrationReference", "ConsumerReference"]
    addresses = [element.text for element in response.iter(f"{{{Wsa.V2005_08.value}}}Address")]
    assert addresses == [answer.registration, answer.consumer]


def test_a_registration_is_destroyed() -> None:
    action = f"{ACTIONS}PublisherRegistrationManager/DestroyRegistration"
    octets = Speaker().envelope(body("", "DestroyRegistration"), action=f"{action}Request")
    incoming = read(octets, ARRIVAL)
    assert incoming.request == DestroyRegistration()
    written, envelope = write_response(Done(), incoming.context, message_id="urn:a")
    assert written == f"{action}Response"
    assert f'DestroyRegistrationResponse xmlns:br="{WSN_BR_1_3}"'.encode() in envelope


def test_the_properties_of_a_registration() -> None:
    scope = (("w", "urn:weather"),)
    request = RegisterPublisher(
        EndpointReference(PUBLISHER, Wsa.V2005_08),
        (Expression("w:storms", dialects.TOPIC_SIMPLE, scope),),
        True,
        NEVER,
    )
    root, values = properties_in(Version.WSN_1_3).of_registration(request, NOW, None, NOW)
    assert root == f"{{{WSN_BR_1_3}}}PublisherRegistrationRP"
    assert list(values) == [
        f"{{{WSN_BR_1_3}}}PublisherReference",
        f"{{{WSN_BR_1_3}}}Topic",
        f"{{{WSN_BR_1_3}}}Demand",
        f"{{{WSN_BR_1_3}}}CreationTime",
        f"{{{WSRF_RL}}}CurrentTime",
        f"{{{WSRF_RL}}}TerminationTime",
    ]
    elements = {name: etree.fromstring(octets) for name, octets in values.items()}
    assert all(element.tag == name for name, element in elements.items())
    named = elements[f"{{{WSN_BR_1_3}}}Topic"]
    assert (named.text, named.nsmap["w"]) == ("w:storms", "urn:weather")
    assert elements[f"{{{WSN_BR_1_3}}}Demand"].text == "true"


# The drafts.

DRAFTS = [
    pytest.param(Version.WSN_1_2, WSN_BR_2004_06, Wsa.V2003_03, dialects.TOPIC_SIMPLE, id="1.2"),
    pytest.param(Version.WSN_1_0, WSN_BR_IBM, Wsa.V2005_08, dialects.TOPIC_IBM_SIMPLE, id="1.0"),
]


@pytest.mark.parametrize(("version", "namespace", "wsa", "dialect"), DRAFTS)
@pytest.mark.parametrize("name", ["RegisterPublisher", "RegisterPublisherRequest"])
def test_drafts_register_in_their_own_names(
    version: Version, namespace: str, wsa: Wsa, dialect: str, name: str
) -> None:
    speaker = Speaker(S11, wsa)
    inner = (
        f"<b:PublisherReference>{speaker.epr(PUBLISHER)}</b:PublisherReference>"
        "<b:Topic>orders</b:Topic><b:Demand>true</b:Demand>"
        "<b:InitialTerminationTime>2026-02-01T00:00:00Z</b:InitialTerminationTime>"
    )
    octets = speaker.envelope(f'<b:{name} xmlns:b="{namespace}">{inner}</b:{name}>')
    incoming = read(octets, ARRIVAL)
    request = incoming.request
    assert isinstance(request, RegisterPublisher)
    assert incoming.context.version is version
    assert request.publisher == EndpointReference(PUBLISHER, wsa)
    assert topic(request) == ("orders", dialect)
    assert request.demand
    answer = PublisherRegistered(
        "http://g.example.org/publishers/k", "http://g.example.org/soap", wsa
    )
    action, envelope = write_response(answer, incoming.context, message_id="urn:a")
    assert "BrokeredNotification/RegisterPublisherResponse" in action
    [response] = children(etree.fromstring(envelope).findall("{*}Body")[0])
    [reference] = children(response)
    assert reference.tag == f"{{{namespace}}}PublisherRegistrationReference"
    assert reference[0].tag == f"{{{wsa.value}}}Address"
    assert reference[0].text == answer.registration


@pytest.mark.parametrize(
    ("version", "namespace", "dialect", "spelled"),
    [
        (Version.WSN_1_2, WSN_BR_2004_06, dialects.TOPIC_SIMPLE, dialects.TOPIC_SIMPLE_1_2),
        (Version.WSN_1_0, WSN_BR_IBM, dialects.TOPIC_IBM_SIMPLE, dialects.TOPIC_IBM_SIMPLE),
    ],
)
def test_drafts_have_properties_of_registrations(
    version: Version, namespace: str, dialect: str, spelled: str
) -> None:
    request = RegisterPublisher(topics=(Expression("orders", dialect),))
    root, values = properties_in(version).of_registration(request, NOW, None, NOW)
    assert root == f"{{{namespace}}}PublisherRegistrationRP"
    names = [name.rpartition("}")[2] for name in values]
    assert names == [
        "CurrentTime", "TerminationTime", "PublisherReference", "Topic", "Demand", "CreationTime",
    ]  # fmt: skip
    named = etree.fromstring(values[f"{{{namespace}}}Topic"])
    assert (named.text, named.get("Dialect")) == ("orders", spelled)


def test_a_draft_has_no_destroy_registration() -> None:
    body_ = f'<b:DestroyRegistration xmlns:b="{WSN_BR_2004_06}"/>'
    assert refused(Speaker().envelope(body_)).refused.reason is Reason.ACTION_UNSUPPORTED
