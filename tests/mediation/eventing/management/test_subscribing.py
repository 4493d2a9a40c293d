"""What WS-Management adds to Subscribe and to headers, and what of it is not offered."""

from pathlib import Path

import pytest
from lxml import etree

from filters import Reason
from mediation.eventing.management import bookmark_header
from mediation.faults import write_fault
from mediation.model.delivery_modes import DeliveryMode, Mode, Oversize, bookmark_of
from mediation.model.requests import ManagementHeaders, Subscribe
from mediation.model.versions import Soap, Wsa
from mediation.names import (
    DRAGOMAN_DATA,
    WSMAN_EARLIEST,
    WSMAN_EVENTS,
    WSMAN_FAULT_DETAIL,
    WSMAN_PULL,
)
from tests.rigs.mediation import (
    NOW,
    WSE,
    WSMAN,
    body,
    envelope,
    incoming,
    part,
    refused,
    text,
)

EVENTS_DELIVERY = f'<wse:Delivery Mode="{WSMAN_EVENTS}">'.encode()
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
    pytest.param('<wsman:Auth Profile="urn:p"/>', "", "", "AuthorizationMode"),
    pytest.param("", "", '<wsman:OptionSet s:mustUnderstand="1"/>', "OptionSet"),
    pytest.param("", "", '<wsman:FragmentTransfer s:mustUnderstand="true"/>',
                 "FragmentLevelAccess"),
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
    status, _, octets = write_fault(rejected.refused, rejected.context, now=NOW, message_id="urn:m")
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


OF_THE_TEXT = {"MinimumEnvelopeLimit"}
"""What the text has (R6.2-4, which OpenPegasus quotes) and the list of the schema has not; it takes
any URI beside its list."""


def test_details_are_those_of_the_schema(material: Path) -> None:
    root = etree.parse(material / "specs/schemas/ws-eventing/wsman-1.xsd").getroot()
    known = {one.get("value") for one in root.iter("{http://www.w3.org/2001/XMLSchema}enumeration")}
    details = {detail for *_, detail in (row.values for row in NOT_OFFERED) if detail}
    details |= {detail for *_, detail in REFUSED if detail}
    details |= {str(detail) for *_, detail in (row.values for row in HEADERS)}
    assert {f"{WSMAN_FAULT_DETAIL}{detail}" for detail in details - OF_THE_TEXT} <= known


EVERYTHING_WANTED = DeliveryMode(
    Mode.EVENTS,
    max_elements=20,
    max_time=30.5,
    max_envelope_size=512000,
    oversize=Oversize.SKIP,
    heartbeats=3600.0,
    bookmarks=True,
    encoding="utf-16",
    retry_every=60.0,
    retries=5,
)


@pytest.mark.parametrize(
    ("mode", "in_delivery", "in_subscribe", "wanted"),
    [
        pytest.param("", "", "", DeliveryMode(), id="push"),
        pytest.param("PushWithAck", "", "", DeliveryMode(Mode.PUSH_WITH_ACK), id="push with ack"),
        pytest.param("Events", "", "", DeliveryMode(Mode.EVENTS), id="events"),
        pytest.param(
            "PushWithAck",
            "<wsman:MaxElements>9</wsman:MaxElements><wsman:MaxTime>PT9S</wsman:MaxTime>",
            "",
            DeliveryMode(Mode.PUSH_WITH_ACK, max_elements=9, max_time=9.0),
            id="limits that one event in a message keeps",
        ),
        pytest.param(
            "Events",
            "<wsman:Heartbeats> PT3600.000S </wsman:Heartbeats><wsman:MaxElements>20"
            "</wsman:MaxElements><wsman:MaxTime>PT30.5S</wsman:MaxTime>"
            '<wsman:MaxEnvelopeSize Policy="Skip">512000</wsman:MaxEnvelopeSize>'
            '<wsman:ConnectionRetry Total="5">PT60.0S</wsman:ConnectionRetry>'
            "<wsman:ContentEncoding>UTF-16</wsman:ContentEncoding>"
            '<wsman:Locale xml:lang="de"/>',
            "<wsman:SendBookmarks/>",
            EVERYTHING_WANTED,
            id="everything",
        ),
        pytest.param(
            "",
            "<wsman:ConnectionRetry>PT0.01S</wsman:ConnectionRetry>",
            "",
            DeliveryMode(retry_every=1.0, retries=1),
            id="retries no oftener than each second",
        ),
        pytest.param(
            "Events",
            "<wsman:MaxElements>99999999999999999999</wsman:MaxElements>"
            "<wsman:MaxTime>P9Y</wsman:MaxTime>",
            "",
            DeliveryMode(Mode.EVENTS, max_elements=2**31 - 1, max_time=366 * 86400.0),
            id="numbers that nobody counts to",
        ),
    ],
)
def test_delivery_modes(
    mode: str, in_delivery: str, in_subscribe: str, wanted: DeliveryMode
) -> None:
    octets = managed(in_delivery, in_subscribe)
    if mode:
        uri = f"http://schemas.dmtf.org/wbem/wsman/1/wsman/{mode}"
        octets = octets.replace(b"<wse:Delivery>", f'<wse:Delivery Mode="{uri}">'.encode())
    request = incoming(octets).request
    assert isinstance(request, Subscribe)
    assert request.delivery == wanted


REFUSED = [
    ("<wsman:MaxElements>0</wsman:MaxElements>", Reason.MESSAGE_INVALID, None),
    ("<wsman:MaxElements>many</wsman:MaxElements>", Reason.MESSAGE_INVALID, None),
    ("<wsman:MaxTime>soon</wsman:MaxTime>", Reason.MESSAGE_INVALID, None),
    ("<wsman:MaxTime>-PT1S</wsman:MaxTime>", Reason.MESSAGE_INVALID, None),
    ("<wsman:Heartbeats>PT4.9S</wsman:Heartbeats>", Reason.FEATURE_UNSUPPORTED, "Heartbeats"),
    (
        "<wsman:MaxEnvelopeSize>8191</wsman:MaxEnvelopeSize>",
        Reason.ENCODING_LIMIT,
        "MaxEnvelopeSize",
    ),
    (
        "<wsman:MaxEnvelopeSize Policy='Cut'>9000</wsman:MaxEnvelopeSize>",
        Reason.FEATURE_UNSUPPORTED,
        "MaxEnvelopePolicy",
    ),
    (
        "<wsman:ContentEncoding>EBCDIC</wsman:ContentEncoding>",
        Reason.ENCODING_LIMIT,
        "CharacterSet",
    ),
    (
        "<wsman:ConnectionRetry Total='-1'>PT1S</wsman:ConnectionRetry>",
        Reason.MESSAGE_INVALID,
        None,
    ),
]


@pytest.mark.parametrize(("in_delivery", "reason", "detail"), REFUSED)
def test_refused_wishes(in_delivery: str, reason: Reason, detail: str | None) -> None:
    octets = managed(in_delivery).replace(b"<wse:Delivery>", EVENTS_DELIVERY)
    rejected = refused(octets)
    assert rejected.refused.reason is reason
    assert rejected.refused.names == ((WSMAN_FAULT_DETAIL + detail,) if detail else ())


def test_bookmark() -> None:
    """As a message has it."""
    mark = bookmark_of("5b1f", "a key", 2**62)
    block = bookmark_header(mark).decode()
    request = incoming(managed("", block)).request
    assert isinstance(request, Subscribe)
    assert request.bookmark == mark
    assert "a key" not in block


def test_events_that_are_pulled_wait_behind_no_bookmark() -> None:
    block = bookmark_header(bookmark_of("5b1f", "a key", 7)).decode()
    octets = managed("", block).replace(
        b"<wse:Delivery>", f'<wse:Delivery Mode="{WSMAN_PULL}">'.encode()
    )
    rejected = refused(octets)
    assert rejected.refused.reason is Reason.BOOKMARK_INVALID
    assert rejected.refused.names == (f"{WSMAN_FAULT_DETAIL}Expired",)


@pytest.mark.parametrize(
    "bookmark",
    [
        "<x xmlns='urn:x'/>",
        f"{WSMAN_EARLIEST}",
        f'<d:position xmlns:d="{DRAGOMAN_DATA}" of="a" by="b">-1</d:position>',
        f'<d:position xmlns:d="{DRAGOMAN_DATA}" of="a" by="b">{"9" * 20}</d:position>',
    ],
)
def test_what_is_no_bookmark(bookmark: str) -> None:
    rejected = refused(managed("", f"<wsman:Bookmark>{bookmark}</wsman:Bookmark>"))
    assert rejected.refused.reason is Reason.BOOKMARK_INVALID
    status, _, octets = write_fault(rejected.refused, rejected.context, now=NOW, message_id="urn:m")
    assert status == 400
    assert text(octets, "//s:Subcode/s:Value").endswith(":InvalidBookmark")


HEADERS = [
    pytest.param(
        '<wsman:SelectorSet s:mustUnderstand="true"/>', Reason.SELECTORS_UNEXPECTED,
        "InvalidSelectors", "UnexpectedSelectors", id="selectors that must be understood",
    ),
    pytest.param(
        '<wsman:SelectorSet><wsman:Selector Name="a">b</wsman:Selector></wsman:SelectorSet>',
        Reason.SELECTORS_UNEXPECTED, "InvalidSelectors", "UnexpectedSelectors", id="selectors",
    ),
    pytest.param(
        "<wsman:MaxEnvelopeSize>8000</wsman:MaxEnvelopeSize>",
        Reason.ENCODING_LIMIT, "EncodingLimit", "MinimumEnvelopeLimit",
        id="too small an envelope",
    ),
    pytest.param(
        '<wsman:Locale s:mustUnderstand="true" xml:lang="de-DE"/>',
        Reason.FEATURE_UNSUPPORTED, "UnsupportedFeature", "Locale", id="another language",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("in_header", "reason", "subcode", "detail"), HEADERS)
def test_headers_that_are_refused(
    in_header: str, reason: Reason, subcode: str, detail: str
) -> None:
    rejected = refused(managed(in_header=in_header))
    assert rejected.refused.reason is reason
    status, _, octets = write_fault(rejected.refused, rejected.context, now=NOW, message_id="urn:m")
    assert status == 400
    assert text(octets, "//s:Subcode/s:Value").partition(":")[2] == subcode
    assert WSMAN_FAULT_DETAIL + detail in octets.decode()


def test_headers_that_are_read() -> None:
    read = incoming(
        managed(
            in_header='<wsman:OperationTimeout s:mustUnderstand="true">PT60.0S'
            "</wsman:OperationTimeout><wsman:MaxEnvelopeSize>153600</wsman:MaxEnvelopeSize>"
            '<wsman:Locale s:mustUnderstand="true" xml:lang="en-US"/>'
            '<p:DataLocale xmlns:p="http://schemas.microsoft.com/wbem/wsman/1/wsman.xsd"'
            ' s:mustUnderstand="true" xml:lang="fr-FR"/>'
        )
    )
    assert read.context.managed == ManagementHeaders(
        "http://schemas.dmtf.org/wbem/wscim/1/*", 60.0, 153600
    )
