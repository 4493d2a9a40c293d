"""WS-Management: its mandatory header, what of it is not offered, and Identify."""

from pathlib import Path

import pytest
from lxml import etree

from filters import Reason
from mediation import (
    Identified,
    Identify,
    Operation,
    Rejected,
    Soap,
    Subscribe,
    Version,
    Wsa,
    write_fault,
    write_response,
)
from mediation.names import WSMAN_FAULT_DETAIL, WSMAN_IDENTITY
from tests.rigs.mediation import (
    NOW,
    WSE,
    WSMAN,
    body,
    context,
    envelope,
    headers,
    incoming,
    part,
    refused,
    text,
)
from tests.rigs.schemas import Validator

RESOURCE = (
    '<wsman:ResourceURI s:mustUnderstand="true">http://schemas.dmtf.org/wbem/wscim/1/*'
    "</wsman:ResourceURI>"
)
NOTIFY_TO = "<wse:NotifyTo><wsa:Address>http://sink.example.com/x</wsa:Address></wse:NotifyTo>"


def managed(
    in_delivery: str = "", in_subscribe: str = "", in_header: str = "", soap: Soap = Soap.V1_2
) -> bytes:
    """A Subscribe as WS-Management's clients send it."""
    delivery = f"<wse:Delivery>{NOTIFY_TO}{in_delivery}</wse:Delivery>"
    return envelope(
        f"<wse:Subscribe>{delivery}{in_subscribe}</wse:Subscribe>",
        f"<wsa:Action>{WSE}/Subscribe</wsa:Action><wsa:MessageID>urn:uuid:r</wsa:MessageID>"
        f"{RESOURCE}{in_header}",
        soap=soap,
        wsa=Wsa.V2004_08,
    )


@pytest.mark.parametrize(
    ("in_delivery", "in_subscribe", "in_header"),
    [
        pytest.param("", "", "", id="no more than is mandatory"),
        pytest.param(
            "<wsman:Locale xml:lang='de'/><wsman:ContentEncoding>UTF-8</wsman:ContentEncoding>"
            "<wsman:MaxEnvelopeSize Policy='Notify'>512000</wsman:MaxEnvelopeSize>",
            "",
            "",
            id="hints",
        ),
        pytest.param(
            "",
            "",
            '<wsman:OperationTimeout s:mustUnderstand="1">PT60.000S</wsman:OperationTimeout>'
            '<wsman:MaxEnvelopeSize s:mustUnderstand="1">153600</wsman:MaxEnvelopeSize>'
            "<wsman:SelectorSet/><wsman:OptionSet/>",
            id="headers, those that need not be understood among them",
        ),
    ],
)
def test_what_is_taken(in_delivery: str, in_subscribe: str, in_header: str) -> None:
    request = incoming(managed(in_delivery, in_subscribe, in_header)).request
    assert isinstance(request, Subscribe)
    assert request.consumer.address == "http://sink.example.com/x"


NOT_OFFERED = [
    pytest.param("<wsman:Heartbeats>PT60.000000S</wsman:Heartbeats>", "", "", "Heartbeats"),
    pytest.param('<wsman:ConnectionRetry Total="5">PT60S</wsman:ConnectionRetry>', "", "",
                 "DeliveryRetries"),
    pytest.param("", "<wsman:SendBookmarks/>", "", "Bookmarks"),
    pytest.param("", "<wsman:Bookmark>b</wsman:Bookmark>", "", "Bookmarks"),
    pytest.param("<wsman:MaxElements>20</wsman:MaxElements>", "", "", "MaxElements"),
    pytest.param("<wsman:MaxTime>PT30S</wsman:MaxTime>", "", "", "MaxTime"),
    pytest.param('<wsman:Auth Profile="urn:p"/>', "", "", "AuthorizationMode"),
    pytest.param("", "", '<wsman:SelectorSet s:mustUnderstand="1"/>', "AddressingMode"),
    pytest.param("", "", '<wsman:OptionSet s:mustUnderstand="1"/>', "OptionSet"),
    pytest.param("", "", '<wsman:FragmentTransfer s:mustUnderstand="true"/>',
                 "FragmentLevelAccess"),
    pytest.param("", "", '<wsman:AckRequested s:mustUnderstand="true"/>', "Ack"),
    pytest.param("<wsman:SomethingNew/>", "", "", None),
]  # fmt: skip


@pytest.mark.parametrize("soap", Soap)
@pytest.mark.parametrize(("in_delivery", "in_subscribe", "in_header", "detail"), NOT_OFFERED)
def test_what_is_not_offered(
    in_delivery: str,
    in_subscribe: str,
    in_header: str,
    detail: str | None,
    soap: Soap,
) -> None:
    """A collector that asked for heartbeats declares a silent source dead."""
    rejected = refused(managed(in_delivery, in_subscribe, in_header, soap))
    assert rejected.refused.reason is Reason.FEATURE_UNSUPPORTED
    status, octets = write_fault(rejected.refused, rejected.context, now=NOW, message_id="urn:m")
    assert status == (400 if soap is Soap.V1_2 else 500)
    assert text(octets, "//wsa:Action") == "http://schemas.dmtf.org/wbem/wsman/1/wsman/fault"
    assert text(octets, "//wsa:RelatesTo") == "urn:uuid:r"
    [fault] = body(octets)
    code = "//s:Subcode/s:Value" if soap is Soap.V1_2 else "//faultcode"
    prefix, _, name = text(octets, code).partition(":")
    assert (part(octets, code).nsmap[prefix], name) == (WSMAN, "UnsupportedFeature")
    details = fault.findall(f".//{{{WSMAN}}}FaultDetail")
    said = [WSMAN_FAULT_DETAIL + detail] if detail else []
    assert [element.text for element in details] == said
    asked = etree.fromstring(
        f'<x xmlns:wsman="{WSMAN}" xmlns:s="urn:s">{in_delivery}{in_subscribe}{in_header}</x>'
    )[0]
    assert f"wsman:{etree.QName(asked).localname}" in "".join(map(str, fault.itertext()))


def test_details_are_those_of_the_schema(material: Path) -> None:
    root = etree.parse(material / "specs/schemas/ws-eventing/wsman-1.xsd").getroot()
    known = {one.get("value") for one in root.iter("{http://www.w3.org/2001/XMLSchema}enumeration")}
    details = {detail for *_, detail in (row.values for row in NOT_OFFERED) if detail}
    assert {f"{WSMAN_FAULT_DETAIL}{detail}" for detail in details} <= known


@pytest.mark.parametrize("name", ["Events", "Pull", "PushWithAck"])
def test_the_mode_that_was_asked_for_is_named(name: str) -> None:
    mode = f"http://schemas.dmtf.org/wbem/wsman/1/wsman/{name}"
    asked = managed().replace(b"<wse:Delivery>", f'<wse:Delivery Mode="{mode}">'.encode())
    rejected = refused(asked)
    assert rejected.refused.reason is Reason.DELIVERY_MODE
    _, octets = write_fault(rejected.refused, rejected.context, now=NOW, message_id="urn:m")
    assert mode.encode() in octets and f"{WSE}/DeliveryModes/Push".encode() in octets


@pytest.mark.parametrize("soap", Soap)
def test_identify(soap: Soap, validator: Validator) -> None:
    """Its request needs no addressing."""
    asked = incoming(
        f'<s:Envelope xmlns:s="{soap.value}"><s:Header/><s:Body>'
        f'<i:Identify xmlns:i="{WSMAN_IDENTITY}"/></s:Body></s:Envelope>'.encode()
    )
    assert asked.request == Identify()
    assert asked.context.version is Version.MANAGEMENT
    _, octets = write_response(Identified("1.2"), asked.context, message_id="urn:m")
    assert headers(octets) == []
    [response] = body(octets)
    assert [(etree.QName(child).localname, child.text) for child in response] == [
        ("ProtocolVersion", WSMAN),
        ("ProductVendor", "Dragoman"),
        ("ProductVersion", "1.2"),
    ]
    assert {etree.QName(element).namespace for element in response.iter()} == {WSMAN_IDENTITY}
    validator.check(octets)


def test_identify_with_addressing() -> None:
    spoken = context(Operation.IDENTIFY, Version.MANAGEMENT, wsa=Wsa.V2004_08)
    action, octets = write_response(Identified("1"), spoken, message_id="urn:m")
    assert action == f"{WSMAN_IDENTITY}/IdentifyResponse" == text(octets, "//wsa:Action")
    assert text(octets, "//wsa:RelatesTo") == "urn:uuid:request"


def test_what_else_is_in_that_namespace_is_no_event() -> None:
    with pytest.raises(Rejected) as caught:
        incoming(envelope(f'<i:IdentifyResponse xmlns:i="{WSMAN_IDENTITY}"/>'))
    assert caught.value.refused.reason is Reason.ACTION_UNSUPPORTED
