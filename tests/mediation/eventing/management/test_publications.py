"""Deliveries of WS-Management's sources, with the gateway as their sink."""

import pytest

from filters import Reason
from mediation.eventing.management.publications import MOST_EVENTS
from mediation.model.requests import Acknowledged, Publish
from mediation.model.versions import Version, Wsa
from mediation.names import DRAGOMAN_DATA, WINDOWS_EVENTS, WSMAN_ACTIONS
from mediation.responses import write_response
from tests.rigs.cases import for_each
from tests.rigs.mediation import (
    WSMAN,
    body,
    clark,
    envelope,
    events,
    headers,
    incoming,
    refused,
    text,
)

ACK = '<wsman:AckRequested s:mustUnderstand="true"/>'
REPLY_TO = (
    "<wsa:ReplyTo><wsa:Address>http://schemas.xmlsoap.org/ws/2004/08/addressing/role/anonymous"
    "</wsa:Address></wsa:ReplyTo>"
)
WINDOWS = (
    f'<Event xmlns="{WINDOWS_EVENTS}"><System><EventID>4624</EventID>'
    "<Channel>{}</Channel></System></Event>"
)


def delivery(content: str, *, action: str = "Events", in_header: str = "") -> bytes:
    return envelope(
        content,
        f"<wsa:Action>{WSMAN_ACTIONS}{action}</wsa:Action><wsa:MessageID>uuid:Ab-CD</wsa:MessageID>"
        f"{REPLY_TO}{in_header}",
        wsa=Wsa.V2004_08,
    )


def batch(*members: str) -> str:
    return f"<wsman:Events>{''.join(members)}</wsman:Events>"


def event(content: str, action: str = ' Action="urn:test:act"') -> str:
    return f"<wsman:Event{action}>{content}</wsman:Event>"


def test_each_event_is_a_notification() -> None:
    octets = delivery(
        batch(event("<a/>"), event("<b/>", ' wsman:Action=" urn:o "'), event("<c/>", ""))
    )
    found = events(octets)
    assert [(one.id, one.action, one.payload) for one in found] == [
        ("uuid:Ab-CD#1", "urn:test:act", b"<a/>"),
        ("uuid:Ab-CD#2", "urn:o", b"<b/>"),
        ("uuid:Ab-CD#3", None, b"<c/>"),
    ]


@pytest.mark.parametrize(
    ("content", "payload"),
    [
        pytest.param("<![CDATA[<a>1</a>]]>", b"<a>1</a>", id="a document in text"),
        pytest.param(
            "<![CDATA[ <?xml version='1.0' encoding='UTF-16'?><a>é</a> ]]>",
            "<a>é</a>".encode(),
            id="with a declaration of what it once was",
        ),
        pytest.param("&lt;a x=&quot;1&quot;/&gt;", b'<a x="1"/>', id="escaped"),
        pytest.param(
            "<![CDATA[<a>]]>",
            f'<data xmlns="{DRAGOMAN_DATA}" content-type="text/plain">&lt;a&gt;</data>'.encode(),
            id="text that is none",
        ),
        pytest.param(
            "<![CDATA[<!DOCTYPE a [<!ENTITY b 'c'>]><a>&b;</a>]]>",
            f'<data xmlns="{DRAGOMAN_DATA}" content-type="text/plain">'
            "&lt;!DOCTYPE a [&lt;!ENTITY b 'c'&gt;]&gt;&lt;a&gt;&amp;b;&lt;/a&gt;</data>".encode(),
            id="a document that nobody reads",
        ),
        pytest.param(
            "just text",
            f'<data xmlns="{DRAGOMAN_DATA}" content-type="text/plain">just text</data>'.encode(),
            id="text",
        ),
    ],
)
def test_events_in_text(content: str, payload: bytes) -> None:
    [found] = events(delivery(batch(event(content))))
    assert found.payload == payload


LOGGED = f'<Event xmlns="{WINDOWS_EVENTS}"><Data>{{}}</Data></Event>'
FORBIDDEN = [
    pytest.param("a\x01b", "a\ufffdb", id="U+0001"),
    pytest.param("\0\x08\x0b\x1b\x1f", "\ufffd" * 5, id="five controls"),
    pytest.param("a\ufffeb\uffff", "a\ufffdb\ufffd", id="U+FFFE, U+FFFF"),
    pytest.param("\ud83d!", "\ufffd!", id="half a character"),
    pytest.param("a&#x1;&#027;b", "a\ufffd\ufffdb", id="references"),
]


def in_bytes(octets: bytes, encoding: str, put: str) -> bytes:
    """A message in *encoding*, with *put* for each ``%s``."""
    mark = b"" if encoding == "utf-8" else b"\xff\xfe"
    return mark + octets.decode().replace("%s", put).encode(encoding, "surrogatepass")


@for_each("encoding", ["utf-8", "utf-16-le"])
@for_each("member", ["<![CDATA[{}]]>", "{}"], ids=["in text", "an element"])
@for_each(("written", "read"), FORBIDDEN)
def test_characters_that_xml_forbids_are_replaced(
    written: str, read: str, member: str, encoding: str
) -> None:
    bad, good = (member.format(LOGGED.format(content)) for content in ("%s", "fine\ufffd"))
    octets = in_bytes(delivery(batch(event(bad), event(good)), in_header=ACK), encoding, written)
    found = incoming(octets).request
    assert isinstance(found, Publish) and found.acknowledged
    payloads = [LOGGED.format(content).encode() for content in (read, "fine\ufffd")]
    assert [one.payload for one in found.notifications] == payloads


def test_characters_that_xml_forbids_are_replaced_in_an_event_by_itself() -> None:
    octets = delivery(LOGGED.format("\x01"), action="Event", in_header=ACK)
    assert [one.payload for one in events(octets)] == [LOGGED.format("\ufffd").encode()]


NOT_MENDED = [
    pytest.param(envelope("<a>\x01</a>"), id="an event of nobody's"),
    pytest.param(
        envelope(
            "<wse:Renew><wse:Expires>PT1H</wse:Expires></wse:Renew>",
            "<wsman:ResourceURI>urn:\x01</wsman:ResourceURI>",
        ),
        id="a request of WS-Management",
    ),
    pytest.param(delivery(batch(event("<a>\x01</b>"))), id="what is not well-formed anyway"),
    pytest.param(
        delivery(batch(event("<a>\xe9\x01</a>"))).decode().encode("latin-1"), id="Latin 1"
    ),
]


@pytest.mark.parametrize("octets", NOT_MENDED)
def test_no_other_message_may_have_what_xml_forbids(octets: bytes) -> None:
    assert refused(octets).refused.reason is Reason.NOT_XML


@pytest.mark.parametrize(
    ("channel", "topic"),
    [
        ("Security", "Security"),
        ("Microsoft-Windows-Sysmon/Operational", "Microsoft-Windows-Sysmon/Operational"),
        ("Windows PowerShell", "Windows_PowerShell"),
        ("a:b//c", None),
        ("", None),
    ],
)
@pytest.mark.parametrize("in_text", [False, True], ids=["an element", "in text"])
def test_the_topic_is_the_channel(in_text: bool, channel: str, topic: str | None) -> None:
    content = WINDOWS.format(channel)
    content = f"<![CDATA[{content}]]>" if in_text else content
    [found] = events(delivery(batch(event(content))))
    assert clark(found.topic) == topic


def test_the_topic_of_a_pushed_event() -> None:
    resource = "<wsman:ResourceURI>urn:r</wsman:ResourceURI>"
    octets = delivery(WINDOWS.format("System"), action="Event", in_header=resource)
    assert [clark(one.topic) for one in events(octets)] == ["System"]


@pytest.mark.parametrize(
    "octets",
    [
        pytest.param(delivery("", action="Heartbeat", in_header=ACK), id="an empty body"),
        pytest.param(
            delivery(batch(), action="Heartbeat", in_header=ACK), id="an empty batch (WinRM)"
        ),
        pytest.param(
            delivery("", in_header=ACK).replace(
                f"{WSMAN_ACTIONS}Events".encode(),
                b"http://schemas.xmlsoap.org/wbmem/wsman/1/wsman/Heartbeat",
            ),
            id="openwsman's constant",
        ),
    ],
)
def test_heartbeats(octets: bytes) -> None:
    assert incoming(octets).request == Publish((), acknowledged=True)


def test_dropped_events_are_told_of() -> None:
    dropped = '<wsman:DroppedEvents Action="urn:a">3</wsman:DroppedEvents>'
    [found] = events(delivery(dropped, action="DroppedEvents"))
    assert found.action == f"{WSMAN_ACTIONS}DroppedEvents"
    assert b">3</" in found.payload
    [found] = events(delivery(batch(event(dropped))))
    assert b">3</" in found.payload


@pytest.mark.parametrize(
    ("content", "action"), [(batch(event("<a/>")), "Events"), ("<a/>", "Event")]
)
def test_acknowledgement(content: str, action: str) -> None:
    """To the delivery's ReplyTo, and with its message id as it was written."""
    read = incoming(delivery(content, action=action, in_header=ACK))
    assert read.context.version is Version.MANAGEMENT
    assert isinstance(read.request, Publish) and read.request.acknowledged
    said, octets = write_response(Acknowledged(), read.context, message_id="urn:m")
    assert said == f"{WSMAN_ACTIONS}Ack" == text(octets, "//wsa:Action")
    assert text(octets, "//wsa:RelatesTo") == "uuid:Ab-CD"
    assert text(octets, "//wsa:To").endswith("/role/anonymous")
    assert body(octets) == []
    assert len(headers(octets)) == 4


def test_nobody_acknowledges_unasked() -> None:
    request = incoming(delivery(batch(event("<a/>")))).request
    assert isinstance(request, Publish) and not request.acknowledged


def test_the_number_of_events_is_bounded() -> None:
    rejected = refused(delivery(batch(*[event("<a/>")] * (MOST_EVENTS + 1))))
    assert rejected.refused.reason is Reason.MESSAGE_INVALID


def test_what_else_is_in_the_namespace_is_no_event() -> None:
    rejected = refused(delivery("<wsman:Fragment/>"))
    assert rejected.refused.reason is Reason.ACTION_UNSUPPORTED
    assert WSMAN.encode() in delivery("<wsman:Fragment/>")
