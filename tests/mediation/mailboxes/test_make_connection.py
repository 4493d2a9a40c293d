"""WS-MakeConnection 1.1: the selection, the message that waited, and the faults."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from filters import Reason, Refused
from mediation.faults import write_fault
from mediation.mailboxes.make_connection import soap_in
from mediation.model.requests import TakeFor, Taken
from mediation.model.versions import Soap, Version, Wsa
from mediation.reliable_messaging import ReliableMessage, read_message
from mediation.responses import write_response
from mediation.soap.make_connection import with_pending
from tests.rigs.mediation import ENVELOPES, NOW, canonical, envelope, incoming, parts, refused, text

S11, S12 = Soap.V1_1, Soap.V1_2
WSMC = "http://docs.oasis-open.org/ws-rx/wsmc/200702"
URI = f"{WSMC}/anonymous?id=550e8400-e29b-11d4-a716-446655440000"
MADE = f"<wsmc:Address>{URI}</wsmc:Address>"


def connect(inner: str = MADE, *, soap: Soap = S11, wsa: Wsa = Wsa.V2005_08) -> bytes:
    return envelope(
        f'<wsmc:MakeConnection xmlns:wsmc="{WSMC}">{inner}</wsmc:MakeConnection>',
        f"<wsa:Action>{WSMC}/MakeConnection</wsa:Action>"
        "<wsa:MessageID>urn:uuid:asked</wsa:MessageID>"
        "<wsa:ReplyTo><wsa:Address>http://elsewhere.example/</wsa:Address></wsa:ReplyTo>",
        soap=soap,
        wsa=wsa,
    )


@pytest.mark.parametrize("soap", Soap)
def test_the_selection(soap: Soap) -> None:
    found = incoming(connect(f"\n <!-- mine -->{MADE}\n", soap=soap))
    assert found.request == TakeFor(URI)
    assert found.context.version is Version.MAKE_CONNECTION_1_1


def test_both_readers_of_a_whole_envelope() -> None:
    """That of a mailbox, and that of a side of sequences, which may have no mailbox."""
    octets = (ENVELOPES / "reliable_messaging" / "wsmc-1.1-makeconnection.xml").read_bytes()
    assert incoming(octets).request == TakeFor(URI)
    message = read_message(octets)
    assert message.makes_connection
    assert selected(message) == URI


def selected(message: ReliableMessage) -> str:
    assert message.selection is not None
    return message.selection.address


@pytest.mark.parametrize("headers", ["", "<wsa:MessageID>urn:uuid:asked</wsa:MessageID>"])
def test_it_is_known_by_its_body_where_it_has_no_action(headers: str) -> None:
    body = f'<wsmc:MakeConnection xmlns:wsmc="{WSMC}">{MADE}</wsmc:MakeConnection>'
    message = read_message(envelope(body, headers, soap=S12))
    assert message.makes_connection
    assert selected(message) == URI


@pytest.mark.parametrize("action", ["urn:app:order", None])
def test_what_is_not_a_make_connection(action: str | None) -> None:
    """Another action decides over the body, and a body of an application over none."""
    body = f'<wsmc:MakeConnection xmlns:wsmc="{WSMC}">{MADE}</wsmc:MakeConnection>'
    said = f"<wsa:Action>{action}</wsa:Action>" if action else ""
    assert not read_message(envelope(body if action else "<order/>", said)).makes_connection


def test_addresses_are_compared_character_by_character() -> None:
    assert incoming(connect(MADE.replace("550E", "550e"))).request == TakeFor(URI)
    assert incoming(connect(MADE.replace("550e", "550E"))).request != TakeFor(URI)


RM = "http://docs.oasis-open.org/ws-rx/wsrm/200702"
IDENTIFIER = f'<wsrm:Identifier xmlns:wsrm="{RM}">urn:uuid:sequence</wsrm:Identifier>'

SELECTIONS = [
    pytest.param("", Reason.SELECTION_MISSING, [], id="nothing"),
    pytest.param("<wsmc:Address> </wsmc:Address>", Reason.SELECTION_MISSING, [], id="empty"),
    pytest.param(
        IDENTIFIER, Reason.SELECTION_UNSUPPORTED, [f"{{{RM}}}Identifier"], id="a sequence"
    ),
    pytest.param(
        MADE + IDENTIFIER, Reason.SELECTION_UNSUPPORTED, [f"{{{RM}}}Identifier"], id="both"
    ),
    pytest.param(
        MADE + MADE, Reason.SELECTION_UNSUPPORTED, [f"{{{WSMC}}}Address"], id="two addresses"
    ),
    pytest.param(MADE + "<mine/>", Reason.SELECTION_UNSUPPORTED, ["mine"], id="no namespace"),
]


@pytest.mark.parametrize("soap", Soap)
@pytest.mark.parametrize(("inner", "reason", "unknown"), SELECTIONS)
def test_faults(soap: Soap, inner: str, reason: Reason, unknown: list[str]) -> None:
    rejected = refused(connect(inner, soap=soap))
    assert rejected.refused.reason is reason
    with pytest.raises(Refused) as same:
        selected(read_message(connect(inner, soap=soap)))
    assert (same.value.reason, same.value.names) == (reason, rejected.refused.names)
    status, _, octets = write_fault(
        rejected.refused, rejected.context, now=NOW, message_id="urn:uuid:answer"
    )
    assert status == 500  # The receiver's, section 4.
    assert text(octets, "//wsa:Action") == f"{WSMC}/fault"
    assert text(octets, "//wsa:RelatesTo") == "urn:uuid:asked"
    [code] = parts(octets, "//faultcode | //s:Subcode/s:Value")
    prefix, _, local = (code.text or "").partition(":")
    assert code.nsmap[prefix] == WSMC
    missing = reason is Reason.SELECTION_MISSING
    assert local == ("MissingSelection" if missing else "UnsupportedSelection")
    if soap is S12:
        assert text(octets, "//s:Code/s:Value").endswith(":Receiver")
    details = parts(octets, "//detail/* | //s:Detail/*")
    assert [element.tag for element in details] == [f"{{{WSMC}}}UnsupportedElement"] * len(unknown)
    assert [_expanded(element) for element in details] == unknown


def _expanded(element: etree._Element) -> str:
    prefix, colon, local = (element.text or "").rpartition(":")
    return f"{{{element.nsmap[prefix]}}}{local}" if colon else local


@pytest.mark.parametrize("soap", Soap)
def test_an_empty_body_with_the_action_selects_nothing(soap: Soap) -> None:
    rejected = refused(envelope("", f"<wsa:Action>{WSMC}/MakeConnection</wsa:Action>", soap=soap))
    assert rejected.refused.reason is Reason.SELECTION_MISSING


WAITING = envelope(
    "<wsnt:Notify/>",
    f"<wsa:Action>urn:app:notify</wsa:Action><wsa:To>{URI}</wsa:To>",
    soap=S12,
    wsa=Wsa.V2004_08,
)


@pytest.mark.parametrize(("more", "pending"), [(True, "true"), (False, "false")])
def test_the_answer_is_the_message_that_waited(more: bool, pending: str) -> None:
    """In its own version of SOAP and addressing, whatever the request's are."""
    context = incoming(connect()).context
    action, octets = write_response(
        Taken((WAITING,), more, NOW), context, message_id="urn:uuid:answer"
    )
    assert action == "urn:app:notify"
    assert soap_in(octets) is S12
    block = f'<wsmc:MessagePending xmlns:wsmc="{WSMC}" pending="{pending}"/>'.encode()
    assert octets.count(block) == 1
    assert octets.replace(block, b"") == WAITING
    [found] = parts(octets, "/s:Envelope/s:Header/*[local-name()='MessagePending']")
    assert found.get("pending") == pending


def test_where_nothing_waits_nothing_is_answered() -> None:
    context = incoming(connect()).context
    assert write_response(Taken((), False, NOW), context, message_id="urn:uuid:answer") == ("", b"")


S = f'xmlns:s="{S11.value}"'
KEPT = [
    pytest.param(f"<s:Envelope {S}><s:Header/><s:Body/></s:Envelope>", id="an empty tag"),
    pytest.param(f"<s:Envelope {S}><s:Header a='>' /><s:Body/></s:Envelope>", id="with a >"),
    pytest.param(f"<s:Envelope {S}><s:Header\n></s:Header><s:Body/></s:Envelope>", id="empty"),
    pytest.param(f"<s:Envelope {S}><s:Body><s:Header/></s:Body></s:Envelope>", id="none"),
    pytest.param(f'<Envelope xmlns="{S12.value}"><Body/></Envelope>', id="no prefix, none"),
    pytest.param(
        f'<Envelope xmlns="{S12.value}"><Header><a/></Header><Body/></Envelope>', id="no prefix"
    ),
    pytest.param(
        f'<!-- <s:Header> -->\n<s:Envelope {S} b="/>">\n <!-- <s:Body> - -->'
        '<h:Header xmlns:h="http://schemas.xmlsoap.org/soap/envelope/"><x/></h:Header>'
        "<s:Body/></s:Envelope>",
        id="comments and another prefix",
    ),
    pytest.param(
        f"<s:Envelope {S}><s:Header><s:Header/></s:Header><s:Body/></s:Envelope>", id="nested"
    ),
    pytest.param(f"<é:Envelope {S.replace(':s', ':é')}><é:Header/><é:Body/></é:Envelope>", id="é"),
]


@pytest.mark.parametrize("waiting", KEPT)
def test_the_header_block_is_the_only_change(waiting: str) -> None:
    before = waiting.encode()
    after = etree.fromstring(with_pending(before, True))
    soap = etree.QName(after).namespace
    header, _ = after.iterchildren(etree.Element)
    assert header.tag == f"{{{soap}}}Header"
    block = header[0]
    assert block.tag == f"{{{WSMC}}}MessagePending"
    assert block.items() == [("pending", "true")]
    header.remove(block)
    if "Header" not in re.sub("<!--.*?-->|<s:Body>.*", "", waiting):
        after.remove(header)
    assert canonical(after) == canonical(before)


@given(
    before=st.text("- >", max_size=20).map(lambda text: text.replace("--", "").rstrip("-")),
    between=st.text(" \n", max_size=4),
    empty=st.booleans(),
)
def test_comments_are_never_taken_for_the_header(before: str, between: str, empty: bool) -> None:
    comment = f"<!--{before}<s:Header>{before}-->{between}"
    header = "<s:Header/>" if empty else "<s:Header></s:Header>"
    octets = f"{comment}<s:Envelope {S}>{comment}{comment}{header}<s:Body/></s:Envelope>".encode()
    after = etree.fromstring(with_pending(octets, False))
    [header_element] = after.findall(f"{{{S11.value}}}Header")
    assert [block.get("pending") for block in header_element] == ["false"]


def test_what_is_no_envelope() -> None:
    with pytest.raises(ValueError, match="envelope"):
        with_pending(b"<s:Envelope>", True)
