"""The message boxes of WS-Messenger and XSUL: what is asked, and the octets of the answers."""

from dataclasses import replace

import pytest
from lxml import etree

from filters import Reason
from mediation.mailboxes.message_box import boxes_named_by
from mediation.model.requests import (
    Context,
    CreateMailbox,
    DestroyMailbox,
    Done,
    MailboxMade,
    MailboxService,
    Operation,
    Publish,
    Request,
    StoreMessage,
    Take,
    Taken,
)
from mediation.model.versions import Soap, Version, Wsa
from mediation.responses import write_response
from tests.rigs.mediation import NOW, envelope, headers, incoming, part, refused, text

S11, S12 = Soap.V1_1, Soap.V1_2
KEY = "2f1a6e0c-8d0f-4b3e-9c55-0d6f6a1b7c11"
AIRAVATA = "http://org.apache.airavata/ws-messenger/msgbox/2011"
XSUL = "http://www.extreme.indiana.edu/xgws/msgbox/2004/"
LOCATION = f"http://gateway.example/MsgBox/{KEY}"

OPERATIONS: list[tuple[Operation, Request, Request]] = [
    (
        Operation.CREATE_MESSAGE_BOX,
        CreateMailbox(MailboxService.MESSAGE_BOX_2011),
        CreateMailbox(MailboxService.MESSAGE_BOX_2004),
    ),
    (Operation.STORE_MESSAGES, StoreMessage(), StoreMessage()),
    (Operation.TAKE_MESSAGES, Take(lenient=True), Take(10, 5.0)),
    (
        Operation.DESTROY_MESSAGE_BOX,
        DestroyMailbox(lenient=True),
        DestroyMailbox(lenient=True),
    ),
]


def bare(body: str) -> bytes:
    """An envelope of a client that loads no addressing module."""
    return (
        f'<soapenv:Envelope xmlns:soapenv="{S11.value}"><soapenv:Body>{body}</soapenv:Body>'
        "</soapenv:Envelope>"
    ).encode()


def addressed(action: str, body: str = "", *, soap: Soap = S11, wsa: Wsa = Wsa.V2005_08) -> bytes:
    return envelope(
        body,
        f"<wsa:Action>{action}</wsa:Action><wsa:MessageID>urn:uuid:asked</wsa:MessageID>",
        soap=soap,
        wsa=wsa,
    )


def asked(octets: bytes) -> Context:
    return incoming(octets).context


def inner(octets: bytes) -> bytes:
    """The octets of an answer's body."""
    return octets.partition(b"<s:Body>")[2].removesuffix(b"</s:Body></s:Envelope>")


def answer_2011(name: str, inner: str) -> bytes:
    """As WS-Messenger's client wants it, which tolerates no white space."""
    return (
        f'<msgbox:{name}Response xmlns:msgbox="{AIRAVATA}/">{inner}</msgbox:{name}Response>'
    ).encode()


@pytest.mark.parametrize("namespace", [AIRAVATA, f"{AIRAVATA}/", XSUL])
@pytest.mark.parametrize(("operation", "airavata", "xsul"), OPERATIONS, ids=lambda row: str(row))
def test_requests(namespace: str, operation: Operation, airavata: Request, xsul: Request) -> None:
    found = incoming(bare(f'<m:{operation.value} xmlns:m="{namespace}"/>'))
    assert found.request == (xsul if namespace == XSUL else airavata)
    assert found.context.operation is operation
    version = Version.MESSAGE_BOX_2004 if namespace == XSUL else Version.MESSAGE_BOX_2011
    assert found.context.version is version
    assert found.context.wsa is None
    assert found.named.body is None


@pytest.mark.parametrize("namespace", [f"{AIRAVATA}/", XSUL])
@pytest.mark.parametrize(("operation", "airavata", "xsul"), OPERATIONS, ids=lambda row: str(row))
def test_an_empty_body_leaves_it_to_the_action(
    namespace: str, operation: Operation, airavata: Request, xsul: Request
) -> None:
    found = incoming(addressed(namespace + operation.value))
    assert found.request == (xsul if namespace == XSUL else airavata)
    assert found.context.operation is operation


def test_what_is_stored_is_an_event_wherever_it_comes() -> None:
    found = incoming(addressed(f"{AIRAVATA}/storeMessages", "<msg><seq>0</seq></msg>"))
    assert isinstance(found.request, Publish)


@pytest.mark.parametrize("namespace", [AIRAVATA, f"{AIRAVATA}/", XSUL])
def test_what_is_none_of_the_operations(namespace: str) -> None:
    rejected = refused(bare(f'<m:takeMessagesResponse xmlns:m="{namespace}"/>'))
    assert rejected.refused.reason is Reason.ACTION_UNSUPPORTED


@pytest.mark.parametrize("namespace", [AIRAVATA, f"{AIRAVATA}/"])
def test_the_box_that_the_body_names(namespace: str) -> None:
    found = incoming(
        bare(
            f'<m:takeMessages xmlns:m="{namespace}"><m:MsgBoxId> {KEY} </m:MsgBoxId>'
            "</m:takeMessages>"
        )
    )
    assert found.named.body == KEY


@pytest.mark.parametrize("wsa", Wsa)
def test_the_box_that_xsul_names(wsa: Wsa) -> None:
    found = incoming(
        bare(
            f'<takeMessages xmlns="{XSUL}"><MsgBoxAddr><a:Address xmlns:a="{wsa.value}">'
            f"{LOCATION}</a:Address></MsgBoxAddr></takeMessages>"
        )
    )
    assert found.named.body == LOCATION


def test_names_of_others_name_no_box() -> None:
    found = incoming(
        bare(
            f'<m:takeMessages xmlns:m="{AIRAVATA}"><MsgBoxId xmlns="urn:app">{KEY}</MsgBoxId>'
            "</m:takeMessages>"
        )
    )
    assert found.named.body is None


@pytest.mark.parametrize("body", ["<event/>", f'<m:storeMessages xmlns:m="{AIRAVATA}"/>'])
def test_the_box_that_a_header_names(body: str) -> None:
    """An echoed reference parameter names the box for which an event is."""
    header = f'<m:MsgBoxId xmlns:m="{AIRAVATA}/" s:mustUnderstand="1">{KEY}</m:MsgBoxId>'
    found = incoming(envelope(body, header))
    assert found.named.identifiers == (KEY,)
    if isinstance(found.request, Publish):
        assert found.request.notifications[0].headers == ()


def test_boxes_named_by_references() -> None:
    references = (
        b'<a:Id xmlns:a="urn:app">1</a:Id>',
        f'<m:MsgBoxId xmlns:m="{AIRAVATA}/">{KEY}</m:MsgBoxId>'.encode(),
        f'<m:MsgBoxAddr xmlns:m="{XSUL}"><Address xmlns="{Wsa.V2004_03.value}"> {LOCATION}'
        "</Address></m:MsgBoxAddr>".encode(),
    )
    assert list(boxes_named_by(references)) == [KEY, LOCATION]


ENVELOPES = (
    bare("<msg><seq>0</seq></msg><msg>a second child, which is not kept</msg>"),
    envelope('<n:e xmlns:n="urn:n">\n <!-- kept -->&lt;&amp;</n:e>', soap=S12),
    bare(""),
)

ANSWERS_2011 = [
    pytest.param(
        Operation.CREATE_MESSAGE_BOX,
        MailboxMade(KEY, "http://unused"),
        f"<msgbox:MsgBoxId>{KEY}</msgbox:MsgBoxId>",
        id="create",
    ),
    pytest.param(
        Operation.STORE_MESSAGES, Done(), "<msgbox:status>true</msgbox:status>", id="store"
    ),
    pytest.param(
        Operation.DESTROY_MESSAGE_BOX, Done(), "<msgbox:status>true</msgbox:status>", id="destroy"
    ),
    pytest.param(
        Operation.TAKE_MESSAGES,
        Taken((), False, NOW),
        "<msgbox:messages></msgbox:messages>",
        id="take nothing",
    ),
]


@pytest.mark.parametrize(("operation", "response", "expected"), ANSWERS_2011)
def test_answers_of_2011(
    operation: Operation, response: MailboxMade | Done | Taken, expected: str
) -> None:
    request = bare(f'<m:{operation.value} xmlns:m="{AIRAVATA}"/>')
    action, octets = write_response(response, asked(request), message_id="urn:uuid:answer")
    assert inner(octets) == answer_2011(operation.value, expected)
    assert headers(octets) == []
    assert action == f"{AIRAVATA}/MsgBoxPT/{operation.value}Response"
    assert octets.startswith(f'<s:Envelope xmlns:s="{S11.value}">'.encode())


@pytest.mark.parametrize("wsa", Wsa)
@pytest.mark.parametrize("soap", Soap)
def test_an_answer_has_the_headers_that_the_request_had(wsa: Wsa, soap: Soap) -> None:
    request = addressed(f"{AIRAVATA}/createMsgBox", soap=soap, wsa=wsa)
    made = MailboxMade(KEY, "http://unused")
    _, octets = write_response(made, asked(request), message_id="urn:uuid:answer")
    assert text(octets, "//wsa:Action") == f"{AIRAVATA}/MsgBoxPT/createMsgBoxResponse"
    assert text(octets, "//wsa:RelatesTo") == "urn:uuid:asked"
    assert text(octets, "//wsa:MessageID") == "urn:uuid:answer"
    assert part(octets, "/s:Envelope").tag == f"{{{soap.value}}}Envelope"


def test_messages_of_2011_are_what_bodies_hold_and_nothing_stands_between_them() -> None:
    request = bare(f'<m:takeMessages xmlns:m="{AIRAVATA}"/>')
    _, octets = write_response(
        Taken(ENVELOPES, True, NOW), asked(request), message_id="urn:uuid:answer"
    )
    response = etree.fromstring(inner(octets))
    assert response.tag == f"{{{AIRAVATA}/}}takeMessagesResponse"
    assert response.text is None
    [messages] = response
    assert messages.text is None
    first, second = messages
    assert first.tag == "{urn:dragoman:data:1}data"  # Of several children one is made.
    assert first[0].tag == "msg"
    assert [child.text for child in first[0]] == ["0"]
    assert second.tag == "{urn:n}e"
    assert b"\n <!-- kept -->&lt;&amp;</n:e></msgbox:messages>" in octets
    assert first.tail is second.tail is messages.tail is None


@pytest.mark.parametrize("wsa", Wsa)
def test_xsul_makes_a_box(wsa: Wsa) -> None:
    request = addressed(f"{XSUL}createMsgBox", soap=S12, wsa=wsa)
    action, octets = write_response(
        MailboxMade(KEY, LOCATION), asked(request), message_id="urn:uuid:answer"
    )
    assert action == text(octets, "//wsa:Action")
    [response] = part(octets, "/s:Envelope/s:Body")
    assert response.tag == f"{{{XSUL}}}createMsgBoxResponse"
    [box] = response
    assert box.tag == f"{{{XSUL}}}MsgBoxAddr"
    [address] = box
    assert address.tag == f"{{{wsa.value}}}Address"
    assert address.text == LOCATION


def test_xsul_hands_over_whole_envelopes_as_text() -> None:
    request = bare(f'<m:takeMessages xmlns:m="{XSUL}"/>')
    returning = bare("<msg>\r\n&#13;]]&gt;</msg>")
    _, octets = write_response(
        Taken((*ENVELOPES, returning), False, NOW), asked(request), message_id="urn:uuid:answer"
    )
    response = etree.fromstring(inner(octets))
    assert {child.tag for child in response} == {f"{{{XSUL}}}messageAsString"}
    assert [(child.text or "").encode() for child in response] == [*ENVELOPES, returning]


def test_xsul_destroys_a_box() -> None:
    request = bare(f'<m:destroyMsgBox xmlns:m="{XSUL}"/>')
    _, octets = write_response(Done(), asked(request), message_id="urn:uuid:answer")
    [response] = part(octets, "/s:Envelope/s:Body")
    assert response.tag == f"{{{XSUL}}}destroyMsgBoxResponse"
    assert len(response) == 0


def test_a_store_is_answered_as_the_door_wants_it() -> None:
    """Whatever is stored is an event; that it is stored, and how to say so, the door knows."""
    event = asked(bare("<msg/>"))
    for version, expected in (
        (
            Version.MESSAGE_BOX_2011,
            answer_2011("storeMessages", "<msgbox:status>true</msgbox:status>"),
        ),
        (Version.MESSAGE_BOX_2004, b""),
    ):
        stored = replace(event, version=version, operation=Operation.STORE_MESSAGES)
        _, octets = write_response(Done(), stored, message_id="urn:uuid:answer")
        assert inner(octets) == expected
        assert bool(octets) == bool(expected)
