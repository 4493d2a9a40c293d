"""References that are handed out: what a peer must make of each, a header block that echoes a
reference parameter, is valid by the schemas of the specifications."""

import itertools
from pathlib import Path

import pytest
from lxml import etree

from mediation.model.messages import End, EndpointReference, Notification, Policy
from mediation.model.requests import MailboxMade, Operation, Properties, Subscribed
from mediation.model.versions import Soap, Version, Wsa
from mediation.notification.properties import (
    SUBSCRIPTION_DOCUMENT,
    producer_properties,
    subscription_properties,
)
from mediation.rendering import prepare, render, write_subscription_end
from mediation.responses import write_response
from mediation.soap.addressing import read_epr, reference_headers
from tests.rigs.mediation import IBM_SIMPLE, NOW, WSE, WSNT, context, incoming, subscription
from tests.rigs.schemas import Validator

KEY = "22e8a584-0d18-4228-b2a8-3716fa2097fa"
SCHEMAS = Path(__file__).parents[3] / "mediation/schemas"
XSD = "{http://www.w3.org/2001/XMLSchema}"
REFERENCES = frozenset(
    {
        f"{{{WSE}}}SubscriptionManager",
        f"{{{WSNT}}}SubscriptionReference",
        f"{{{WSNT}}}PullPoint",
        f"{{{WSNT}}}ProducerReference",
        f"{{{WSNT}}}ConsumerReference",
        "{http://www.onvif.org/ver10/events/wsdl}SubscriptionReference",
        "{http://www.extreme.indiana.edu/xgws/msgbox/2004/}MsgBoxAddr",
    }
)
VERSIONS = list(itertools.product(Soap, Wsa))


@pytest.fixture(scope="module")
def schema(tmp_path_factory: pytest.TempPathFactory) -> etree.XMLSchema:
    """A schema of header blocks, strict where a specification declares a block of that name, made
    of those that the gateway describes itself with."""
    folder = tmp_path_factory.mktemp("echoes")
    files = {}
    for path in SCHEMAS.glob("*.xsd"):
        root = etree.parse(path).getroot()
        files[root.get("targetNamespace") or ""] = (path.name, root)
    for name, root in files.values():
        for one in root.iter(f"{XSD}import"):
            one.set("schemaLocation", files[one.get("namespace") or ""][0])
        (folder / name).write_bytes(etree.tostring(root))
    imports = "".join(
        f'<xs:import namespace="{namespace}" schemaLocation="{name}"/>'
        for namespace, (name, _) in files.items()
    )
    (folder / "echoes.xsd").write_text(
        '<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema" targetNamespace="urn:echoes">'
        f'{imports}<xs:element name="Header"><xs:complexType><xs:sequence>'
        '<xs:any namespace="##any" processContents="lax" maxOccurs="unbounded"/>'
        "</xs:sequence></xs:complexType></xs:element></xs:schema>"
    )
    return etree.XMLSchema(file=str(folder / "echoes.xsd"))


def check(octets: bytes, schema: etree.XMLSchema, *, marked: bool = True) -> int:
    """Echo the parameters of every reference in an envelope of ours; how many references there
    were. *marked* False: as WS-Messenger's clients do it, which mark nothing."""
    found = [one for one in etree.fromstring(octets).iter() if one.tag in REFERENCES]
    for element in found:
        reference = read_epr(element, forged="refuse")
        echo = reference_headers(reference, reference.wsa if marked else Wsa.V2004_08)
        if echo:
            header = b'<h:Header xmlns:h="urn:echoes">' + echo + b"</h:Header>"
            schema.assertValid(etree.fromstring(header))
    return len(found)


def test_the_schema_finds_what_sdc11073_refuses(schema: etree.XMLSchema) -> None:
    """A marked echo of ``wse:Identifier``, of which every 1.0 reference once was the cause."""
    parameter = f'<e:Identifier xmlns:e="{WSE}">urn:uuid:{KEY}</e:Identifier>'.encode()
    old = EndpointReference("http://g", Wsa.V2005_08, parameters=(parameter,))
    header = b'<h:Header xmlns:h="urn:echoes">%b</h:Header>'
    echo = reference_headers(old, Wsa.V2005_08)
    with pytest.raises(etree.DocumentInvalid, match="IsReferenceParameter"):
        schema.assertValid(etree.fromstring(header % echo))
    schema.assertValid(etree.fromstring(header % reference_headers(old, Wsa.V2004_08)))


@pytest.mark.parametrize(("soap", "wsa"), VERSIONS)
@pytest.mark.parametrize("epr", Wsa)
def test_managers(soap: Soap, wsa: Wsa, epr: Wsa, schema: etree.XMLSchema) -> None:
    consumer = EndpointReference("http://c", epr)
    for version in (Version.WSE_2004_08, Version.WSN_1_3):
        made = subscription(version, soap=soap, wsa=wsa, consumer=consumer, end_to=consumer)
        spoken = context(Operation.SUBSCRIBE, version, soap=soap, wsa=wsa)
        _, octets = write_response(Subscribed(made, NOW), spoken, message_id="urn:m")
        assert check(octets, schema) == 1
        recipient = prepare(made)
        event = Notification("urn:1", "p", b"<a/>", NOW)
        delivered = render(event, recipient.shape, "http://g").fill(recipient, "urn:m")
        assert check(delivered, schema) == (2 if version is Version.WSN_1_3 else 0)
    ended = subscription(
        Version.WSE_2004_08, soap=soap, wsa=wsa, consumer=consumer, end_to=consumer
    )
    _, octets = write_subscription_end(ended, End.CANCELLING, message_id="urn:m", reason="")
    assert check(octets, schema) == 1


@pytest.mark.parametrize("wsa", Wsa)
def test_those_of_ws_messenger_are_echoed_without_a_mark(wsa: Wsa, schema: etree.XMLSchema) -> None:
    """Its client looks for ``wse:Identifier``, and writes the header block itself."""
    policy = Policy(raw=True, dialect=IBM_SIMPLE)
    consumer = EndpointReference("http://c", wsa)
    made = subscription(
        Version.WSE_2004_08, soap=Soap.V1_1, wsa=wsa, consumer=consumer, policy=policy
    )
    spoken = context(Operation.SUBSCRIBE, Version.WSE_2004_08, soap=Soap.V1_1, wsa=wsa)
    _, octets = write_response(Subscribed(made, NOW), spoken, message_id="urn:m")
    assert check(octets, schema, marked=False) == 1


@pytest.mark.parametrize(("soap", "wsa"), [*VERSIONS, (Soap.V1_1, None), (Soap.V1_2, None)])
def test_boxes(soap: Soap, wsa: Wsa | None, schema: etree.XMLSchema) -> None:
    made = MailboxMade(KEY, f"http://g.example.org/pullpoints/{KEY}")
    for operation, version in (
        (Operation.CREATE_PULL_POINT, Version.WSN_1_3),
        (Operation.CREATE_MESSAGE_BOX, Version.MESSAGE_BOX_2004),
    ):
        spoken = context(operation, version, soap=soap, wsa=wsa)
        _, octets = write_response(made, spoken, message_id="urn:m")
        assert check(octets, schema) == 1
    spoken = context(Operation.CREATE_PULL_POINT_SUBSCRIPTION, soap=soap, wsa=wsa)
    _, octets = write_response(Subscribed(subscription(), NOW), spoken, message_id="urn:m")
    assert check(octets, schema) == 1


def test_properties(schema: etree.XMLSchema) -> None:
    values = {**subscription_properties(subscription(), NOW), **producer_properties((), ())}
    spoken = context(Operation.GET_RESOURCE_PROPERTY_DOCUMENT)
    response = Properties(values, None, SUBSCRIPTION_DOCUMENT)
    _, octets = write_response(response, spoken, message_id="urn:m")
    assert check(octets, schema) == 1


@pytest.mark.parametrize(
    ("soap", "epr"), list(itertools.product(Soap, [Wsa.V2004_08, Wsa.V2005_08]))
)
def test_a_request_with_an_echo_is_valid_and_names_the_subscription(
    soap: Soap, epr: Wsa, validator: Validator
) -> None:
    """The whole envelope of a Renew, as sdc11073 validates its own before it sends it."""
    consumer = EndpointReference("http://c", epr)
    made = subscription(Version.WSE_2004_08, soap=soap, wsa=epr, consumer=consumer)
    spoken = context(Operation.SUBSCRIBE, Version.WSE_2004_08, soap=soap, wsa=epr)
    _, octets = write_response(Subscribed(made, NOW), spoken, message_id="urn:m")
    [element] = etree.fromstring(octets).iter(f"{{{WSE}}}SubscriptionManager")
    reference = read_epr(element, forged="refuse")
    headers = (
        f"<a:Action>{WSE}/Renew</a:Action><a:MessageID>urn:m</a:MessageID>"
        f"<a:To>{reference.address}</a:To>{reference_headers(reference, epr).decode()}"
    )
    request = (
        f'<s:Envelope xmlns:s="{soap.value}" xmlns:a="{epr.value}"><s:Header>{headers}</s:Header>'
        f'<s:Body><e:Renew xmlns:e="{WSE}"/></s:Body></s:Envelope>'
    ).encode()
    validator.check(request)
    assert incoming(request).named.identifiers == (f"urn:uuid:{KEY}",)
