"""Envelopes: their shape, their versions, roles and mandatory headers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from filters import Reason, parse_document
from mediation.detect import read
from mediation.faults import write_fault
from mediation.model.requests import Rejected
from mediation.model.versions import Soap, Version, Wsa
from mediation.soap.envelopes import (
    elements,
    namespaces_of,
    octets_of,
    text_of,
    write_envelope,
    xml_attribute,
    xml_text,
)
from mediation.specifications import SPECIFICATIONS
from tests.rigs.cases import for_each
from tests.rigs.mediation import ARRIVAL, NOW, canonical, envelope, incoming, refused, text

S11, S12 = Soap.V1_1, Soap.V1_2
EVENT = '<o:R xmlns:o="urn:o"/>'

SHAPES = {
    "two Bodies": "<s:Body>{event}</s:Body><s:Body>{event}</s:Body>",
    "two Headers": "<s:Header/><s:Header/><s:Body>{event}</s:Body>",
    "the Body first": "<s:Body>{event}</s:Body><s:Header/>",
    "no Body": "<s:Header/>",
    "nothing": "",
    "an event and no Body": "{event}",
    "an element before": "{event}<s:Body>{event}</s:Body>",
    "an element between": "<s:Header/>{event}<s:Body>{event}</s:Body>",
    "an element behind": "<s:Body>{event}</s:Body>{event}",
    "a Fault beside the Body": "<s:Body>{event}</s:Body><s:Fault/>",
    "an unknown child of SOAP": "<s:Footer/><s:Body>{event}</s:Body>",
    "a Body of no namespace": "<Body>{event}</Body>",
    "a Body of the other version": '<o:Body xmlns:o="{other}">{event}</o:Body>',
    "a Header of the other version": '<o:Header xmlns:o="{other}"/><s:Body>{event}</s:Body>',
    "a Body in another case": "<s:body>{event}</s:body>",
    "an Envelope in the Envelope": "<s:Envelope><s:Body>{event}</s:Body></s:Envelope>",
}


@for_each("soap", Soap)
@for_each("shape", SHAPES)
def test_shapes_that_are_none(shape: str, soap: Soap) -> None:
    other = S12 if soap is S11 else S11
    inner = SHAPES[shape].format(event=EVENT, other=other.value)
    octets = f'<s:Envelope xmlns:s="{soap.value}">{inner}</s:Envelope>'.encode()
    rejected = refused(octets)
    assert rejected.refused.reason is Reason.ENVELOPE
    assert rejected.context.soap is soap
    status, _, answer = write_fault(rejected.refused, rejected.context, now=NOW, message_id="urn:m")
    assert status == (500 if soap is S11 else 400)
    code = "//faultcode" if soap is S11 else "//s:Code/s:Value"
    assert text(answer, code) == ("s:Client" if soap is S11 else "s:Sender")


@pytest.mark.parametrize(
    ("namespace", "reason"),
    [
        ("http://www.w3.org/2001/12/soap-envelope", Reason.VERSION_MISMATCH),
        ("urn:none", Reason.VERSION_MISMATCH),
        ("", Reason.VERSION_MISMATCH),
    ],
)
@pytest.mark.parametrize("hint", Soap)
def test_versions_that_nobody_speaks(namespace: str, reason: Reason, hint: Soap) -> None:
    octets = f'<Envelope xmlns="{namespace}"><Body><a/></Body></Envelope>'.encode()
    with pytest.raises(Rejected) as caught:
        read(octets, ARRIVAL, soap_hint=hint)
    assert caught.value.refused.reason is reason
    status, _, answer = write_fault(
        caught.value.refused, caught.value.context, now=NOW, message_id="urn:m"
    )
    assert status == 500
    code = "//faultcode" if hint is S11 else "//s:Code/s:Value"
    assert text(answer, code) == "s:VersionMismatch"
    assert (b"SupportedEnvelope" in answer) is (hint is S12)


@pytest.mark.parametrize("octets", [b"<a/>", b'<Body xmlns="urn:x"/>'])
def test_what_is_no_envelope(octets: bytes) -> None:
    assert refused(octets).refused.reason is Reason.ENVELOPE


@pytest.mark.parametrize(
    "octets", [b"", b"hello", b"<a", b"\xff\xfe", b"<!DOCTYPE a><a/>", b"<a>" * 300]
)
@pytest.mark.parametrize("hint", Soap)
def test_what_is_no_document_is_answered_in_the_likely_version(octets: bytes, hint: Soap) -> None:
    with pytest.raises(Rejected) as caught:
        read(octets, ARRIVAL, soap_hint=hint)
    assert caught.value.context.soap is hint
    status, _, answer = write_fault(
        caught.value.refused, caught.value.context, now=NOW, message_id="urn:m"
    )
    assert status == (500 if hint is S11 else 400)
    etree.fromstring(answer)


MANDATORY = '<x:Mystery xmlns:x="urn:x" {attributes}/>'


@pytest.mark.parametrize("soap", Soap)
@pytest.mark.parametrize("value", ["1", "true", " true "])
def test_a_mandatory_header_that_nobody_knows(soap: Soap, value: str) -> None:
    block = MANDATORY.format(attributes=f's:mustUnderstand="{value}"')
    rejected = refused(envelope(EVENT, block, soap=soap))
    assert rejected.refused.reason is Reason.NOT_UNDERSTOOD
    status, _, answer = write_fault(rejected.refused, rejected.context, now=NOW, message_id="urn:m")
    assert status == 500
    if soap is S11:
        assert text(answer, "//faultcode") == "s:MustUnderstand"
    else:
        assert text(answer, "//s:Code/s:Value") == "s:MustUnderstand"
        named = etree.fromstring(answer).find(f".//{{{S12.value}}}NotUnderstood")
        assert named is not None
        prefix, _, local = str(named.get("qname")).partition(":")
        assert (named.nsmap[prefix], local) == ("urn:x", "Mystery")


def test_a_mandatory_header_of_a_specification_that_is_not_offered() -> None:
    block = (
        '<m:ResourceURI xmlns:m="http://schemas.xmlsoap.org/ws/2005/06/management" '
        's:mustUnderstand="1">urn:r</m:ResourceURI>'
    )
    said = refused(envelope(EVENT, block)).refused
    assert said.reason is Reason.NOT_UNDERSTOOD and len(said.names) == 1
    assert "WS-Management, draft of 2005/06 is not offered. Offered: " in said.text
    assert SPECIFICATIONS[Version.MANAGEMENT].title in said.text


@for_each("soap", Soap)
@for_each(
    "block",
    [
        pytest.param(MANDATORY.format(attributes='s:mustUnderstand="0"'), id="0"),
        pytest.param(MANDATORY.format(attributes='s:mustUnderstand="false"'), id="false"),
        pytest.param(MANDATORY.format(attributes='mustUnderstand="1"'), id="unqualified"),
        pytest.param(MANDATORY.format(attributes=""), id="none"),
        pytest.param(
            MANDATORY.format(attributes='s:mustUnderstand="1" s:{role}="urn:other"'),
            id="another role",
        ),
        pytest.param('<wse:Identifier s:mustUnderstand="1">a</wse:Identifier>', id="ours"),
        pytest.param('<wsa:To s:mustUnderstand="1">urn:a</wsa:To>', id="addressing"),
        pytest.param(
            '<a:SubscriptionId xmlns:a="http://www.axis.com/2009/event" s:mustUnderstand="1"/>',
            id="an identifier of another's",
        ),
    ],
)
def test_headers_that_are_no_obstacle(soap: Soap, block: str) -> None:
    role = "actor" if soap is S11 else "role"
    incoming(envelope(EVENT, block.replace("{role}", role), soap=soap))


@pytest.mark.parametrize(
    ("soap", "role", "ours"),
    [
        (S11, 's:actor="http://schemas.xmlsoap.org/soap/actor/next"', True),
        (S11, 's:actor=""', True),
        (S11, 's:actor="urn:other"', False),
        (S12, 's:role="http://www.w3.org/2003/05/soap-envelope/role/next"', True),
        (S12, 's:role="http://www.w3.org/2003/05/soap-envelope/role/ultimateReceiver"', True),
        (S12, 's:role="http://www.w3.org/2003/05/soap-envelope/role/none"', False),
        (S12, 's:role="urn:other"', False),
    ],
)
def test_roles(soap: Soap, role: str, ours: bool) -> None:
    headers = f"<wsa:Action {role}>urn:a</wsa:Action>"
    assert incoming(envelope(EVENT, headers, soap=soap)).context.headers.action == (
        "urn:a" if ours else None
    )


@pytest.mark.parametrize("soap", Soap)
@pytest.mark.parametrize("wsa", [*Wsa, None])
def test_written_envelopes_read_back(soap: Soap, wsa: Wsa | None) -> None:
    octets = write_envelope(soap, wsa, '<h xmlns="urn:h"/>', EVENT)
    read_back = incoming(octets)
    assert read_back.context.soap is soap
    assert read_back.context.header_namespaces == {"urn:h"}


def test_text_is_told_from_comments() -> None:
    element = parse_document(b"<a> one<!-- no -->two<!-- no --> </a>")
    assert text_of(element) == "onetwo"
    assert elements(element) == []


def test_octets_declare_all_that_is_in_scope() -> None:
    root = parse_document(
        b'<e xmlns="urn:d" xmlns:p="urn:p" xmlns:q="urn:outer"><p:b xmlns:q="urn:q"><c xmlns=""/>'
        b"q:x</p:b>tail</e>"
    )
    inner = parse_document(octets_of(root[0]))
    assert namespaces_of(inner) == (("", "urn:d"), ("p", "urn:p"), ("q", "urn:q"))
    assert canonical(inner) == canonical(root[0])
    nameless = parse_document(octets_of(root[0][0]))
    assert nameless.tag == "c"


@given(st.text())
def test_any_text_can_be_written(text: str) -> None:
    document = f"<a b={xml_attribute(text)}>{xml_text(text)}</a>".encode()
    element = etree.fromstring(document)
    kept = "".join(c if _legal(c) else "\ufffd" for c in text)
    assert (element.text or "", element.get("b")) == (kept, kept)


def _legal(character: str) -> bool:
    code = ord(character)
    return character in "\t\n\r" or (
        0x20 <= code <= 0xD7FF or 0xE000 <= code <= 0xFFFD or code >= 0x10000
    )
